"""A translation on Arrow batches is that on arrays, and pairs of batches are those of all rows."""

from functools import reduce
from itertools import pairwise
from operator import add
from pickle import dumps, loads

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relatent as rl
from relatent.spaces import SpaceWarning, key_hashes
from relatent.translate.maps import MAPS

SETTINGS = [
    {"goal": "vectors"},
    {"goal": "stitching"},
    {"goal": "index"},
    {"goal": "retrieval"},
    {"goal": "retrieval", "frozen_target": True},
    *({"map": name} for name in MAPS),
    {"map": "orthogonal", "normalize": "center+l2"},
    {"map": "ridge", "normalize": "whiten"},
]


def views(rows, dim=8, dtype=np.float64):
    rng = np.random.default_rng(1)
    z = rng.normal(size=(rows, 6)) * np.linspace(2, 0.3, 6)
    x = np.tanh(z @ rng.normal(size=(6, dim))) + 0.1 * rng.normal(size=(rows, dim)) + 1
    y = z @ rng.normal(size=(6, dim)) + 0.1 * rng.normal(size=(rows, dim))
    return x.astype(dtype), y.astype(dtype)


def lists(matrix, missing=()):
    return pa.array(
        [None if i in missing else row for i, row in enumerate(matrix)], pa.list_(pa.from_numpy_dtype(matrix.dtype))
    )


@pytest.mark.parametrize("options", SETTINGS, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_batch_is_translated_as_an_array_is(options, dtype):
    x, y = views(700, dtype=dtype)
    t = rl.Translator(**options).fit(x, y)
    for side, rows, transform in (("source", x, t.transform), ("target", y, t.transform_target)):
        udf = loads(dumps(t.batch_udf("e", into="new", side=side)))
        batch = udf(pa.record_batch({"id": np.arange(50), "e": lists(rows[:50], missing=[3])}))
        assert batch.schema.names == ["id", "e", "new"]
        kept = np.delete(np.arange(50), 3)
        found = batch.column("new")
        assert found.type == pa.list_(pa.from_numpy_dtype(dtype), transform(rows[:50]).shape[1])
        assert found.is_null().to_pylist() == [i == 3 for i in range(50)]
        np.testing.assert_array_equal(np.asarray(found.drop_null().to_pylist(), dtype), transform(rows[kept]))


def test_float16_is_translated_in_single_precision():
    x, y = views(50, dtype=np.float32)
    t = rl.Translator(map="orthogonal").fit(x, y)
    half = x[:20].astype(np.float16)
    found = t.batch_udf("e")(pa.record_batch({"e": lists(half)})).column("embedding_new")
    assert found.type == pa.list_(pa.float32(), 8)
    np.testing.assert_array_equal(np.asarray(found.to_pylist(), np.float32), t.transform(half))


def test_a_nonlinear_map_is_among_those_tested():
    assert rl.Translator().fit(*views(700)).map_.features is not None


@given(cuts=st.lists(st.integers(0, 60), max_size=8))
@settings(max_examples=10)
def test_batching_does_not_change_a_row(cuts):
    x, y = views(60, dtype=np.float32)
    udf = rl.Translator(map="ridge").fit(x, y).batch_udf("e")
    whole = pa.table({"e": lists(x, missing=[7, 8])})
    parts = [udf(whole[a:b]) for a, b in pairwise([0, *sorted(cuts), 60])]
    joined = pa.concat_tables(parts).column("embedding_new").combine_chunks()
    np.testing.assert_allclose(
        joined.drop_null().flatten().to_numpy(),
        udf(whole).column("embedding_new").combine_chunks().drop_null().flatten().to_numpy(),
        rtol=1e-5,  # BLAS may sum the rows of a larger product in another order
        atol=1e-6,
    )


def test_what_is_pickled_is_the_map_and_little_more():
    x, y = views(2000, dim=128, dtype=np.float32)
    udf = rl.Translator(map="ridge").fit(x, y).batch_udf()
    assert len(dumps(udf)) < udf.folded.matrix.nbytes + 64 * 1024
    sides = rl.Translator(goal="retrieval").fit(x, y, bank_size=0)
    assert len(dumps(sides.batch_udf(side="target"))) < sides.target_map_.matrix.nbytes + 64 * 1024


def test_vectors_of_another_space_are_noticed_in_a_batch():
    x, y = views(300)
    udf = rl.Translator(map="ridge").fit(x, y).batch_udf("e", "new")
    with pytest.warns(SpaceWarning, match="may not be of the source"):
        udf(pa.record_batch({"e": lists(100 * x[:50])}))


def test_what_cannot_be_is_refused():
    x, y = views(50)
    t = rl.Translator(map="orthogonal")
    with pytest.raises(ValueError, match="not fitted yet"):
        t.batch_udf()
    t.fit(x, y)
    with pytest.raises(ValueError, match="side is 'left'"):
        t.batch_udf(side="left")
    with pytest.raises(ValueError, match="There is a column 'e' already"):
        t.batch_udf("e", into="e")
    with pytest.raises(ValueError, match="There is a column 'e' already"):
        t.batch_udf("f", into="e")(pa.record_batch({"e": [[1.0]], "f": lists(x[:1])}))
    with pytest.raises(ValueError, match="a vector of 5 coordinates in row 1 of the batch: expected 8"):
        t.batch_udf("e")(pa.record_batch({"e": [x[0], x[0][:5]]}))
    replaced = t.batch_udf("e", into="e", replace=True)(pa.record_batch({"e": lists(x[:2])}))
    np.testing.assert_allclose(replaced.column("e").to_pylist(), t.transform(x[:2]))


def test_two_translators_have_two_hashes_and_one_has_one():
    x, y = views(50)
    a, b = (rl.Translator(map=name).fit(x, y) for name in ("orthogonal", "ridge"))
    assert a.batch_udf().hash == loads(dumps(a.batch_udf("other"))).hash
    assert len({a.batch_udf().hash, b.batch_udf().hash, a.batch_udf(side="target").hash}) == 3


@given(
    cuts=st.lists(st.integers(0, 200), max_size=8),
    order=st.permutations(range(9)),
    size=st.sampled_from([30, 10_000]),
    keyed=st.booleans(),
)
@settings(max_examples=15)
def test_pairs_of_batches_are_the_pairs_of_all_rows(cuts, order, size, keyed):
    """Whatever the batches and their order, empty ones and null vectors among them."""
    x, y = views(200)
    missing = [5, 6, 100]
    keys = [f"item {i}" for i in range(200)]
    table = pa.table({"id": keys, "old": lists(x, missing), "new": lists(y, missing=[6, 7])})
    edges = list(pairwise([0, *sorted(cuts), 200]))
    parts = [
        rl.Pairs.of_batch(table[a:b], key="id" if keyed else None, start=a, size=size)
        for a, b in (edges[i] for i in order if i < len(edges))
    ]
    found = reduce(add, [loads(dumps(part)) for part in parts])
    kept = np.delete(np.arange(200), [5, 6, 7, 100])
    ids = key_hashes(keys)[kept] if keyed else kept
    whole = rl.Pairs.of(x[kept], y[kept], ids=ids, size=size)
    assert len(found) == len(whole) == 196
    np.testing.assert_array_equal(found.sample.ids, whole.sample.ids)
    np.testing.assert_array_equal(found.sample.x, whole.sample.x)
    for name, moments in whole.summary.arrays().items():
        assert np.linalg.norm(getattr(found.summary, name) - moments) <= 1e-9 * np.linalg.norm(moments)


def test_pairs_of_no_rows_add_nothing_and_fit_nothing():
    x, y = views(40)
    none = rl.Pairs.of_batch(pa.table({"old": lists(x[:0]), "new": lists(y[:0])}), key=None)
    some = rl.Pairs.of(x, y)
    assert (len(none), len(none + none), len(none + some), (some + none).dims) == (0, 0, 40, (8, 8))
    with pytest.raises(ValueError, match="n_samples=0: too few pairs"):
        rl.Translator().fit(none)


def test_batches_that_cannot_be_told_apart_are_refused():
    x, y = views(40)
    batch = pa.record_batch({"old": lists(x), "new": lists(y)})
    with pytest.raises(ValueError, match="no column 'id'"):
        rl.Pairs.of_batch(batch)
    with pytest.raises(ValueError, match="Row 0 is in two of the parts"):
        rl.Pairs.of_batch(batch[:20], key=None) + rl.Pairs.of_batch(batch[20:], key=None)


def test_pickled_pairs_leave_the_other_rows_behind():
    x, y = views(5000)
    assert len(dumps(rl.Pairs.of(x, y, size=100, copy=False))) < 100 * 16 * 8 + 3 * 64 * 8 + 4096
