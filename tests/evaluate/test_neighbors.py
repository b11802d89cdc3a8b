import sys
import tracemalloc
from itertools import pairwise

import faiss
import numpy as np
import pytest
import torch

from relatent.evaluate import neighbors
from relatent.evaluate.neighbors import METRICS, nearest, nearest_both_ways


def brute_force(x, y, k, metric):
    """Every pair, in float64, one at a time."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    unit_x, unit_y = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x, y))
    cos = unit_x @ unit_y.T
    if metric == "cosine":
        s = cos
    elif metric == "inner":
        s = x @ y.T
    elif metric == "euclidean":
        s = -np.linalg.norm(x[:, None] - y[None], axis=2)
    else:
        density_x = np.sort(cos, axis=1)[:, -10:].mean(axis=1)
        density_y = np.sort(cos, axis=0)[-10:].mean(axis=0)
        s = 2 * cos - density_x[:, None] - density_y
    order = np.argsort(-s, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(s, order, axis=1)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that a test crosses many of them."""
    monkeypatch.setattr(neighbors, "QUERY_ROWS", 7)
    monkeypatch.setattr(neighbors, "GALLERY_ROWS", 23)


@pytest.mark.parametrize("metric", METRICS)
def test_equals_brute_force(xp, rng, metric):
    x, y = rng.normal(size=(40, 6)), rng.normal(size=(90, 6)) + 0.5
    found = nearest(xp(x), xp(y), 12, metric)
    order, similarities = brute_force(x, y, 12, metric)
    assert np.array_equal(found.indices, order)
    assert np.allclose(found.similarities, similarities)


@pytest.mark.parametrize("metric", METRICS)
def test_blocks_do_not_show(small_blocks, xp, rng, metric):
    x, y = rng.normal(size=(40, 6)), rng.normal(size=(90, 6)) + 0.5
    found = nearest(xp(x), xp(y), 30, metric)  # more than a block of the gallery holds
    order, similarities = brute_force(x, y, 30, metric)
    assert np.array_equal(found.indices, order)
    assert np.allclose(found.similarities, similarities)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 3, 30])
def test_a_space_in_itself_equals_brute_force(small_blocks, xp, rng, metric, k):
    # Of a symmetric product, blocks above the diagonal serve those below it.
    y = rng.normal(size=(90, 6)) + 0.5
    found = nearest(xp(y), xp(y), k, metric)
    order, similarities = brute_force(y, y, k, metric)
    assert np.array_equal(found.indices, order)
    assert np.allclose(found.similarities, similarities)


@pytest.mark.parametrize("metric", ["cosine", "inner"])
@pytest.mark.parametrize("sizes", [(40, 90), (90, 40), (3, 90)])
def test_both_ways_equal_two_searches(small_blocks, rng, metric, sizes):
    x, y = (rng.normal(size=(n, 6)) + 0.5 for n in sizes)
    for found, (a, b) in zip(nearest_both_ways(x, y, 3, metric), ((x, y), (y, x)), strict=True):
        order, similarities = brute_force(a, b, 3, metric)
        assert np.array_equal(found.indices, order)
        assert np.allclose(found.similarities, similarities)


@pytest.mark.parametrize("metric", ["cosine", "inner", "euclidean"])
def test_equals_faiss_flat(rng, metric):
    # Wide enough for the search by group maxima, with a rest that fills no group.
    x, y = (rng.normal(size=(n, 24)).astype(np.float32) for n in (300, 5_003))
    index = faiss.IndexFlatL2(24) if metric == "euclidean" else faiss.IndexFlatIP(24)
    unit = (lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)) if metric == "cosine" else (lambda a: a)
    index.add(unit(y))
    scores, order = index.search(unit(x), 10)
    found = nearest(x, y, 10, metric)
    assert np.mean(found.indices == order) > 0.999  # float32 may swap two that are nearly equal
    expected = -np.sqrt(scores) if metric == "euclidean" else scores
    assert np.allclose(found.similarities, expected, atol=1e-4)


def test_a_query_in_the_gallery_finds_itself_unless_excluded(xp, rng):
    x = xp(rng.normal(size=(50, 5)))
    own = np.arange(50)
    assert np.array_equal(nearest(x, x, 3).indices[:, 0], own)
    others = nearest(x, x, 3, exclude_self=True)
    assert not np.any(others.indices == own[:, None])
    assert np.array_equal(others.indices, nearest(x, x, 4).indices[:, 1:])


def test_excluding_self_holds_among_equals():
    found = nearest(np.ones((20, 3)), np.ones((20, 3)), 5, exclude_self=True)
    assert found.indices.shape == (20, 5)
    assert not np.any(found.indices == np.arange(20)[:, None])


def test_equals_are_ordered_by_row_number(rng):
    y = np.repeat(rng.normal(size=(4, 3)), 5, axis=0)
    found = nearest(y, y, 5)
    assert all(a < b for row in found.indices.tolist() for a, b in pairwise(row))


def test_the_first_of_many_equals_are_found(small_blocks):
    y = np.ones((60, 3))
    for gallery in (y, y.copy()):
        assert np.array_equal(nearest(y, gallery, 4).indices, np.tile(np.arange(4), (60, 1)))


def test_euclidean_survives_an_offset_in_float32(rng):
    x = rng.normal(size=(200, 8))
    plain = nearest(x, x, 5, "euclidean").indices
    moved = nearest((x + 1e3).astype(np.float32), (x + 1e3).astype(np.float32), 5, "euclidean")
    assert np.mean(plain == moved.indices) > 0.99
    assert np.all(moved.similarities[:, 0] == 0)


def test_keeps_float32_and_returns_row_numbers(rng):
    x = rng.normal(size=(30, 4)).astype(np.float32)
    for metric in METRICS:
        found = nearest(torch.from_numpy(x), torch.from_numpy(x), 2, metric)
        assert found.similarities.dtype == np.float32
        assert found.indices.dtype == np.int64


def test_csls_finds_behind_a_hub():
    # Row 2 of y is near to everything. Cosine falls for it, CSLS does not.
    angle = np.deg2rad([0.0, 50.0, 25.0])
    y = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x = np.stack([np.cos(np.deg2rad([14.0, 36.0, 25.0])), np.sin(np.deg2rad([14.0, 36.0, 25.0]))], axis=1)
    near = neighbors.CSLS_NEIGHBORS
    try:
        neighbors.CSLS_NEIGHBORS = 1
        assert nearest(x, y, 1, "cosine").indices.ravel().tolist() == [2, 2, 2]
        assert nearest(x, y, 1, "csls").indices.ravel().tolist() == [0, 1, 2]
    finally:
        neighbors.CSLS_NEIGHBORS = near


@pytest.mark.parametrize("metric", ["cosine", "inner", "euclidean"])
def test_approximate_search_answers_the_same_interface(rng, metric):
    centers = rng.normal(size=(40, 16)) * 3
    y = (centers[rng.integers(40, size=6_000)] + rng.normal(size=(6_000, 16))).astype(np.float32)
    exact = nearest(y[:200], y, 10, metric, method="exact")
    fast = nearest(torch.from_numpy(y[:200]), torch.from_numpy(y), 10, metric, method="approximate", exclude_self=False)
    assert fast.indices.shape == exact.indices.shape
    assert np.all(np.diff(fast.similarities, axis=1) <= 1e-5)
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(fast.indices, exact.indices, strict=True)])
    assert shared > 0.9


def test_approximate_search_begins_beyond_a_size(monkeypatch, rng):
    x = rng.normal(size=(30, 4))
    used = []
    monkeypatch.setattr(
        "relatent.evaluate.neighbors.approximate", lambda *a, **k: used.append(1) or neighbors._exact(*a)
    )
    nearest(x, x, 3)
    assert not used
    monkeypatch.setattr(neighbors, "EXACT_PAIRS", 100)
    nearest(x, x, 3)
    assert used
    monkeypatch.setattr(neighbors, "find_spec", lambda name: None)  # as if FAISS were missing
    nearest(x, x, 3)
    assert len(used) == 1


def test_approximate_search_completes_short_answers(rng):
    y = rng.normal(size=(40, 3)).astype(np.float32)
    found = nearest(y, y, 39, method="approximate")
    assert np.all(found.indices >= 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 21}, "21 neighbors were asked for but there are only 20 rows"),
        ({"k": 20, "exclude_self": True}, "20 neighbors were asked for but there are only 19"),
        ({"k": 0}, "at least 1"),
        ({"metric": "cosin"}, "Did you mean 'cosine'"),
        ({"method": "fast"}, "There is no method 'fast'"),
        ({"metric": "csls", "method": "approximate"}, "no approximate search"),
    ],
)
def test_bad_options(rng, options, message):
    x = rng.normal(size=(20, 3))
    with pytest.raises(ValueError, match=message):
        nearest(x, x, **({"k": 2} | options))


def test_excluding_self_needs_one_gallery_row_per_query(rng):
    with pytest.raises(ValueError, match="x has 3 rows and the gallery 5"):
        nearest(rng.normal(size=(3, 2)), rng.normal(size=(5, 2)), 1, exclude_self=True)


def test_memory_does_not_grow_with_the_gallery(monkeypatch, rng):
    monkeypatch.setattr(neighbors, "GALLERY_ROWS", 2_000)

    def peak(rows):
        gallery = rng.normal(size=(rows, 16)).astype(np.float32)
        tracemalloc.start()
        nearest(gallery[:300], gallery, 10)
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    assert peak(80_000) < 1.1 * peak(8_000)


def test_a_missing_faiss_is_named(monkeypatch, rng):
    monkeypatch.setitem(sys.modules, "faiss", None)
    x = rng.normal(size=(10, 2))
    with pytest.raises(ImportError, match=r"relatent\[faiss\]"):
        nearest(x, x, 2, method="approximate")
