"""A fingerprint tells spaces of equal dimension apart, says why, and says when it is not sure."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatent.spaces import Fingerprint, Space, read_space, write_space
from relatent.spaces.fingerprint import one_model
from relatent.spaces.probe import BLOCK_ROWS, BLOCKS, MAX_FILES, ProbeBuilder, SpaceWarning, probe_of, probed_ranges

D = 128


def model(seed, d=D):
    """A made-up encoder: anisotropic, off-center, as real ones are."""
    rng = np.random.default_rng(seed)
    offset, spread = rng.normal(size=d), np.exp(rng.normal(size=d))
    mix = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return lambda n, seed: (np.random.default_rng(seed).normal(size=(n, d)) * spread) @ mix + offset


def rotated(x):
    return x @ np.linalg.qr(np.random.default_rng(9).normal(size=(D, D)))[0]


def permuted(x):
    return x[:, np.random.default_rng(9).permutation(D)]


def partly_permuted(x):
    """Leave every second coordinate where it is: a probe of some coordinates may see no change."""
    order = np.arange(D)
    order[1::2] = np.random.default_rng(9).permutation(order[1::2])
    return x[:, order]


def noise(x):
    made = np.random.default_rng(9).normal(size=x.shape)
    return made * np.linalg.norm(x, axis=1, keepdims=True) / np.linalg.norm(made, axis=1, keepdims=True)


def another_model(x):
    return model(1)(len(x), 5)


def unit_rows(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


# Chance alone may make another space agree a little: then it is warned of.
OTHER = "foreign or unsure"
CHANGES = {
    "itself": (lambda x: x, "same"),
    "another model": (another_model, OTHER),
    "rotated": (rotated, OTHER),
    "permuted": (permuted, OTHER),
    "noise": (noise, OTHER),
    "zeros": (np.zeros_like, "foreign"),
    "times 100": (lambda x: 100 * x, "foreign"),
    "divided by 100": (lambda x: x / 100, "foreign"),
    "unit rows": (unit_rows, "foreign"),
    "times 1.5": (lambda x: 1.5 * x, "same"),
    "times 6": (lambda x: 6 * x, "unsure"),
}


@pytest.mark.parametrize("rows", [50, 200, 1000])
@pytest.mark.parametrize(("change", "outcome"), CHANGES.values(), ids=CHANGES)
def test_what_a_probe_notices(change, outcome, rows):
    known, given = Fingerprint.of(model(0)(1000, 2)), Fingerprint.of(change(model(0)(rows, 3)))
    match = known.matches(given)
    assert match.outcome == given.matches(known).outcome
    assert match.outcome in outcome.split(" or ")
    assert bool(match) is (match.outcome != "foreign")


def test_coordinates_that_the_first_half_of_a_probe_would_not_see():
    known = Fingerprint.of(model(0)(1000, 2))
    match = known.matches(Fingerprint.of(partly_permuted(model(0)(1000, 3))))
    assert match.agreement < known.matches(Fingerprint.of(model(0)(1000, 3))).agreement / 2


def test_between_a_space_and_another_it_is_not_sure_and_says_the_figure():
    a, b = model(0)(1000, 2), model(1)(1000, 3)
    known = Fingerprint.of(a)
    outcomes = [known.matches(Fingerprint.of(s * model(0)(1000, 4) + (1 - s) * b)) for s in np.linspace(0, 1, 21)]
    found = [match.outcome for match in outcomes]
    assert found[0] == "foreign"
    assert found[-1] == "same"
    assert "unsure" in found
    unsure = outcomes[found.index("unsure")]
    assert f"agree to {unsure.agreement:.2f}" in unsure.reason


def test_an_isotropic_space_cannot_be_told_apart():
    rng = np.random.default_rng(0)
    told = Fingerprint.of(rng.normal(size=(500, 64))).matches(Fingerprint.of(rng.normal(size=(500, 64))))
    assert told.outcome == "same"
    assert "cannot tell" in told.reason


def test_an_isotropic_space_is_told_from_another():
    assert not Fingerprint.of(np.random.default_rng(0).normal(size=(500, D))).matches(Fingerprint.of(model(0)(500, 1)))


@pytest.mark.parametrize(
    ("name", "mine", "theirs"),
    [
        ("dim", 3, 4),
        ("model", "a", "b"),
        ("model", "x/a", "y/a"),
        ("revision", "1", "2"),
        ("pooling", "cls", "mean"),
        ("normalization", "none", "l2"),
        ("layer", -1, -2),
    ],
)
def test_what_both_record_must_be_equal(name, mine, theirs):
    a = Fingerprint(**{"dim": 3, "model": "a", name: mine})
    told = a.matches(Fingerprint(**{"dim": 3, "model": "a", name: theirs}))
    assert not told
    assert told.reason == f"the {name} is {mine!r} in one and {theirs!r} in the other"
    assert a.matches(a)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2", True),
        ("./models/all-MiniLM-L6-v2/", "sentence-transformers/all-MiniLM-L6-v2", True),
        ("/data/a/all-minilm-l6-v2", "all-MiniLM-L6-v2", True),
        (r"C:\models\all-MiniLM-L6-v2", "all-MiniLM-L6-v2", True),
        ("all-MiniLM-L6-v2", "all-MiniLM-L12-v2", False),
        ("intfloat/e5-small", "someone/e5-small", False),
    ],
)
def test_one_model_may_go_by_two_names(a, b, same):
    assert one_model(a, b) is one_model(b, a) is same
    assert bool(Fingerprint(dim=3, model=a).matches(Fingerprint(dim=3, model=b))) is same


def test_a_recorded_model_outweighs_the_probe():
    a = Fingerprint.of(model(0)(500, 2), model="m")
    assert a.matches(Fingerprint.of(model(1)(500, 3), model="m"))
    assert not a.matches(Fingerprint.of(model(1)(500, 3)))


def test_json_round_trip():
    made = Fingerprint.of(model(0)(50, 1), model="größe", revision="1", pooling="mean", normalization="l2", layer=-1)
    assert Fingerprint.from_json(made.to_json()) == made
    assert Fingerprint.from_json('{"dim": 3, "of_a_later_version": 1}') == Fingerprint(dim=3)
    earlier = '{"dim": 3, "probe": {"rows": 1, "length": 1.0, "length_std": 0.0, "mean": [1.0], "std": [0.0]}}'
    assert Fingerprint.from_json(earlier).probe is None
    for wrong in ("", "[]", "{}", '{"dim": "x"}', '{"dim": 3, "probe": {"rows": 1}}'):
        with pytest.raises(ValueError, match="not a fingerprint"):
            Fingerprint.from_json(wrong)


def test_rows_that_are_not_finite_are_passed_over():
    x = model(0)(50, 1)
    x[3] = np.nan
    assert Fingerprint.of(x).probe.rows == 49
    assert Fingerprint.of(np.full((2, 3), np.nan)).probe is None
    assert Fingerprint.of(np.empty((0, 3))).probe is None


def test_probes_of_parts_add_up():
    x = model(0)(300, 1)
    parts = [ProbeBuilder() for _ in range(3)]
    for part, rows in zip(parts, np.split(x, 3), strict=True):
        part.add(rows)
    together, whole = sum(parts, ProbeBuilder()).probe(), probe_of(x)
    np.testing.assert_allclose(together.mean, whole.mean, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(together.std, whole.std, rtol=2e-3)
    assert (ProbeBuilder() + ProbeBuilder()).probe() is None


def test_a_probe_measures_means_and_deviations_along_fixed_directions():
    x = model(0)(500, 1)
    probe, shifted, doubled = probe_of(x), probe_of(x + 3.0), probe_of(2 * x)
    np.testing.assert_allclose(shifted.mean, probe.mean, atol=2e-3)  # all coordinates moved alike
    np.testing.assert_allclose(doubled.std, 2 * np.asarray(probe.std), rtol=1e-3)
    assert probe.norm == pytest.approx(np.linalg.norm(x, axis=1).mean(), rel=1e-3)


@pytest.mark.parametrize(
    "starts", [[0, 0], [0, 1], [0, 7], [0, 1000], [0, 10**9], [0, 5, 5, 2000], list(range(0, 10**6, 100))]
)
def test_probed_rows_are_spread_over_all_and_bounded(starts):
    ranges = probed_ranges(starts)
    rows = [row for first, last in ranges for row in range(first, last)]
    assert len(set(rows)) == len(rows) <= max(BLOCKS, MAX_FILES) * BLOCK_ROWS
    assert all(starts[0] <= row < starts[-1] for row in rows)
    if starts[-1] <= BLOCKS * BLOCK_ROWS and len(starts) == 2:
        assert len(rows) == starts[-1]
    elif starts[-1]:
        assert rows[0] < starts[-1] / 10
        assert rows[-1] > starts[-1] * 0.9


def foreign_table(rows, kind, d=D):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(model(kind)(rows, rows).astype(np.float32).ravel()), d)
    return pa.table({"embedding": vectors})


@pytest.mark.parametrize(("first", "then"), [(5000, 5000), (5000, 2000), (2000, 8000)])
@pytest.mark.parametrize("ending", [".parquet", ".npy"])
def test_a_file_of_two_models_is_noticed(tmp_path, first, then, ending):
    path = tmp_path / f"mixed{ending}"
    if ending == ".npy":
        np.save(path, np.vstack([model(0)(first, 1), model(1)(then, 2)]))
    else:
        pq.write_table(pa.concat_tables([foreign_table(first, 0), foreign_table(then, 1)]), path)
    with pytest.warns(SpaceWarning, match=r"mixed\.\w+ from about [\d,]+ on look like another space than the rest"):
        _ = read_space(path).fingerprint


def test_a_file_of_one_model_is_not_suspected(tmp_path):
    pq.write_table(foreign_table(10_000, 0), tmp_path / "x.parquet")
    space = read_space(tmp_path / "x.parquet")
    assert space.fingerprint.probe.rows == BLOCKS * BLOCK_ROWS
    assert space.fingerprint.matches(Fingerprint.of(model(0)(500, 3)))


def test_every_shard_of_a_folder_is_looked_at(tmp_path):
    for i in range(20):
        pq.write_table(foreign_table(300, 1 if i == 13 else 0), tmp_path / f"{i:02d}.parquet")
    with pytest.warns(SpaceWarning, match=r"from about (3|4),\d+ on look like another space"):
        _ = read_space(tmp_path).fingerprint


def test_shards_that_record_two_models_are_refused_by_name(tmp_path):
    for i, name in enumerate(["m", "org/m", "other"]):
        space = Space(model(0)(50, i), fingerprint=Fingerprint(dim=D, model=name))
        write_space(space, tmp_path / f"{i}.parquet")
    with pytest.raises(ValueError, match=r"0\.parquet and .*2\.parquet are of two spaces: the model is 'm' in one"):
        read_space(tmp_path)
    (tmp_path / "2.parquet").unlink()
    assert read_space(tmp_path).fingerprint.model == "m"


def test_shards_that_were_measured_to_differ_are_warned_of(tmp_path):
    for i in range(2):
        write_space(Space(model(i)(500, i)), tmp_path / f"{i}.parquet")
    with pytest.warns(SpaceWarning, match=r"0\.parquet and .*1\.parquet look like two spaces"):
        read_space(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_space(tmp_path / "0.parquet")


def test_the_id_is_that_of_the_model_where_one_is_recorded_and_of_the_probe_where_none_is():
    one, two = model(0)(500, 1), model(1)(500, 1)
    named = [Fingerprint.of(x, model="m", revision="1") for x in (one, two)]
    assert named[0].id == named[1].id == Fingerprint(D, "m", "1").id
    assert named[0].id != Fingerprint(D, "m", "2").id
    assert Fingerprint.of(one).id == Fingerprint.of(one).id != Fingerprint.of(two).id
    assert Fingerprint.from_json(named[0].to_json()).id == named[0].id
