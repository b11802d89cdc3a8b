"""A fit from files is that from arrays, on every engine and in whatever order the rows stand."""

import numpy as np
import pytest

import relatent as rl
from relatent.engines import open_engine
from relatent.spaces import key_hashes
from relatent.translate import joined as pair_shards


@pytest.fixture
def files(tmp_path, monkeypatch, rng, orthogonal):
    """Two parallel spaces as Parquet files, and the second in another order; shards of about 100 rows."""
    x = rng.normal(size=(700, 8)) * np.linspace(2, 0.5, 8)
    keys, order = np.asarray([f"k{i}" for i in range(700)]), rng.permutation(700)
    y = np.tanh(x @ orthogonal(8))
    for name, rows, which in [("old", x, slice(None)), ("new", y, slice(None)), ("shuffled", y, order)]:
        rl.write_space(rl.Space(rows[which], keys[which].tolist()), tmp_path / f"{name}.npy")
    monkeypatch.setattr(pair_shards, "SHARD_BYTES", 100 * 4 * 8)
    return tmp_path


@pytest.fixture(scope="module", params=["serial", "processes", "dask"])
def engine(request):
    with open_engine(request.param, None if request.param == "serial" else 2) as opened:
        yield opened


@pytest.mark.parametrize("size", [100, 10_000])
@pytest.mark.parametrize("target", ["new", "shuffled"])
def test_one_fit_on_every_engine(files, engine, target, size):
    old, new = (rl.read_space(files / f"{name}.npy") for name in ("old", target))
    found = rl.Translator().fit(old, new, engine=engine, sample_size=size)
    assert found.fit_report_.pairs == 700
    joined = rl.parallel(old, new)
    memory = rl.Translator().fit(rl.Pairs.of(*joined, ids=key_hashes(joined.keys), size=size))
    np.testing.assert_array_equal(found.pairs_.sample.ids, memory.pairs_.sample.ids)
    assert found.chosen_ == memory.chosen_
    one, other = (t.transform(old.vectors) for t in (found, memory))
    assert np.linalg.norm(one - other) <= 1e-9 * np.linalg.norm(other)


def test_shards_follow_the_source_and_cover_every_pair(files):
    old, new = (rl.read_space(files / f"{name}.npy") for name in ("old", "new"))
    rows = np.stack([np.arange(50, 700, 2)] * 2, axis=1)
    edges = pair_shards._edges(old, rows, open_engine())
    assert edges.tolist() == [0, 25, 75, 125, 175, 225, 275, 325]
    backwards = rows.copy()
    backwards[:, 1] = backwards[::-1, 1]
    assert pair_shards._edges(old, backwards, open_engine("processes", 3)).tolist() == [0, 108, 216, 325]
    advanced = []
    found = pair_shards.sum_pairs(old, new, rows, np.arange(325, dtype=np.uint64), {}, open_engine(), advanced.append)
    assert (len(found), sum(advanced)) == (325, 325)
