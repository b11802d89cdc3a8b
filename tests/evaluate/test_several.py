"""Several spaces: every two, on the rows that all of them share."""

import json
import warnings

import numpy as np
import pytest

import relatent as rl
from relatent.evaluate import compare_all


@pytest.fixture
def named(rng):
    """Four spaces, each without one item of its own, so that 96 of 100 are in all; their rows are in any order."""
    x = rng.normal(size=(100, 5))
    vectors = {"a": x, "b": x @ rng.normal(size=(5, 7)), "c": x + 0.5 * rng.normal(size=x.shape), "d": x[:, :3]}
    spaces = {}
    for i, (name, v) in enumerate(vectors.items()):
        rows = rng.permutation(np.delete(np.arange(100), i))
        spaces[name] = rl.Space(v[rows], [f"k{r}" for r in rows], name)
    return spaces


def test_each_pair_is_compared_on_the_rows_that_all_share(named):
    found = compare_all(list(named.values()), permutations=3)
    assert found.names == tuple("abcd")
    assert list(found.pairs) == [(p, q) for i, p in enumerate("abcd") for q in "abcd"[i + 1 :]]
    shared = [f"k{i}" for i in range(4, 100)]
    assert found.n == len(shared)
    for p, q in found.pairs:
        alone = rl.compare(*(named[n].by_keys(shared).vectors for n in (p, q)), permutations=3)
        assert found[p, q]["cka"].value == pytest.approx(alone["cka"].value)
        assert found[p, q]["mutual_knn"].value == pytest.approx(alone["mutual_knn"].value)


def test_rows_are_drawn_once_for_all(named):
    found = compare_all(named, max_rows=40, permutations=1, seed=3)
    assert {one.n for one in found.pairs.values()} == {40}
    assert found.to_dict() == compare_all(named, max_rows=40, permutations=1, seed=3).to_dict()


def test_the_table_has_a_column_per_pair_and_a_line_per_measure(named):
    found = compare_all(named, permutations=1)
    header, rows = found.table()
    assert header == ("measure", "1–2", "1–3", "1–4", "2–3", "2–4", "3–4")
    assert dict(zip(header, rows[0], strict=True))["2–4"] == f"{found['b', 'd']['cka'].value:.3f}"
    assert "Spaces: 1 a, 2 b, 3 c, 4 d." in str(found)
    plain = json.loads(json.dumps(found.to_dict()))
    assert len(plain["scores"]) == 6 * len(rows) == len(found.to_pandas())
    with pytest.raises(KeyError, match=r"There are: \('a', 'b'\)"):
        found["b", "a"]


def test_many_pairs_do_not_widen_the_table(rng):
    x = rng.normal(size=(40, 2))
    found = compare_all({f"space {i}": x + i for i in range(7)}, permutations=1, k=3)
    assert max(map(len, str(found).splitlines())) <= 130
    assert "6–7" in str(found)


def test_arrays_need_parallel_rows_and_a_warning_names_its_pair(rng):
    x = rng.normal(size=(60, 3))
    with pytest.raises(ValueError, match="x has 60 rows and y has 59 rows"):
        compare_all([x, x[1:]], permutations=1)
    with pytest.raises(ValueError, match="1 spaces were given: expected at least 2"):
        compare_all([x])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        compare_all({"x": x, "turned": x[:, ::-1], "noise": rng.normal(size=x.shape)})
    assert {str(one.message).split(":")[0] for one in told} == {"x and noise", "turned and noise"}


def test_spaces_without_a_common_key_are_named():
    spaces = {
        name: rl.Space(np.eye(2), keys) for name, keys in zip("abc", (["1", "2"], ["2", "3"], ["1", "4"]), strict=True)
    }
    with pytest.raises(ValueError, match="No key is in all of a, b, c"):
        compare_all(spaces)
