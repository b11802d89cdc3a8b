"""One map, however it is applied: to one vector, to a few rows, to many, in float16."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest
import torch

import relatent as rl
from relatent._array import BLOCK_ROWS
from relatent.steps import KERNEL_ROWS, Features, Map

SETTINGS = [
    {"map": "orthogonal"},
    {"map": "ridge", "normalize": "center+l2"},
    {"goal": "retrieval"},
    {"goal": "vectors"},
]


@pytest.fixture(params=SETTINGS, ids=str)
def made(request, rng):
    """A translator on float32, and more rows than a block has."""
    x = rng.normal(size=(2 * BLOCK_ROWS + 3, 12)) * np.linspace(2, 0.5, 12)
    y = np.tanh(x @ rng.normal(size=(12, 9)) / 3)
    x, y = x.astype(np.float32), y.astype(np.float32)
    return rl.Translator(**request.param).fit(x[:400], y[:400]), x


def test_blocks_give_what_the_formula_gives(made):
    t, x = made
    expected = t.transform(x.astype(np.float64))
    np.testing.assert_allclose(t.transform(x), expected, rtol=2e-3, atol=1e-4 * np.abs(expected).max())
    np.testing.assert_allclose(t.transform(x)[-3:], t.transform(x[-3:]), rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    assert t.transform(x).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, KERNEL_ROWS, 2 * KERNEL_ROWS + 1])
def test_a_kernel_is_the_exponential_of_squared_distances(rng, rows, dtype):
    x, centers = rng.normal(size=(rows, 5)).astype(dtype), rng.normal(size=(7, 5)).astype(np.float32) + 3
    matrix, offset = rng.normal(size=(12, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    distances = ((x[:, None].astype(np.float64) - centers) ** 2).sum(axis=2)
    expected = x @ matrix[:5].astype(np.float64) + np.exp(-distances / 40) @ matrix[5:] + offset
    found = Map(matrix, offset, features=Features(centers, 40.0))(x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert found.dtype == (np.float64 if dtype is np.float64 else np.float32)


def test_a_map_that_was_applied_is_pickled_as_one_that_was_not(rng):
    made = Map(np.ones((12, 4)), np.ones(4), features=Features(rng.normal(size=(7, 5)), 2.0))
    x, before = rng.normal(size=(3, 5)), len(pickle.dumps((made, made.steps)))
    expected = made(x)
    assert len(pickle.dumps(made)) <= before
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made))(x), expected)


@pytest.mark.parametrize("rows", [1, 30, 2 * BLOCK_ROWS + 3])
def test_float16_is_translated_as_the_numbers_that_it_holds(made, rows):
    t, x = made
    half = x[:rows].astype(np.float16)
    # Blocks of rows may round otherwise in BLAS than all rows at once.
    whole = t.transform(half.astype(np.float32))
    np.testing.assert_allclose(
        t.transform(half), whole, rtol=0, atol=8 * np.finfo(np.float32).eps * np.abs(whole).max()
    )


def test_float16_is_not_copied_as_a_whole(rng):
    x = rng.normal(size=(300, 64)).astype(np.float32)
    t = rl.Translator(map="ridge").fit(x, x[:, :2])
    half = np.tile(x, (400, 1)).astype(np.float16)
    t.transform(half)
    tracemalloc.start()
    t.transform(half)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < half.size * 4 / 4  # a quarter of what they would take in float32


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_float16_that_is_not_finite_is_refused(made, bad):
    t, x = made
    half = x.astype(np.float16)
    half[2 * BLOCK_ROWS + 1, 0] = bad
    with pytest.raises(ValueError, match=f"first in row {2 * BLOCK_ROWS + 1}"):
        t.transform(half)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy, lambda v: v.astype(np.float64), np.ndarray.tolist])
def test_a_query_is_one_row(made, kind):
    t, x = made
    vector = kind(x[5])
    expected = t.transform(x[5:6].astype(np.float64))[0]
    found = t.query(vector)
    assert tuple(found.shape) == expected.shape
    np.testing.assert_allclose(np.asarray(found), expected, rtol=2e-3, atol=1e-4 * np.abs(expected).max())
    assert isinstance(found, torch.Tensor) is isinstance(vector, torch.Tensor)


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        (np.zeros(7, dtype=np.float32), "7 features, but Translator is expecting 12"),
        (np.full(12, np.nan, dtype=np.float32), "NaN"),
        (np.zeros((1, 12), dtype=np.float32), "expected 1-D"),
    ],
)
def test_a_query_that_is_no_vector_of_the_source_is_refused(made, vector, says):
    t, _ = made
    with pytest.raises(ValueError, match=says):
        t.query(vector)


def test_a_query_needs_a_fit():
    with pytest.raises(ValueError, match="not fitted"):
        rl.Translator().query(np.zeros(3))
