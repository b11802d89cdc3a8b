import numpy as np
import pyarrow as pa
import pytest

from relatent.deliver.migration.digest import Digest

KEYS = [f"k{i}" for i in range(20)]
X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)


def of(rows):
    return Digest.of(pa.array([KEYS[i] for i in rows]), X[rows])


def test_digests_add_in_any_order_and_chunks(rng):
    whole = of(np.arange(20))
    for _ in range(5):
        parts = np.split(rng.permutation(20), np.sort(rng.choice(np.arange(1, 20), 3, replace=False)))
        assert sum((of(part) for part in parts), Digest()) == whole
    assert whole.rows == 20


def flipped(x):
    bits = x.copy()
    bits.view(np.uint32)[7, 2] ^= 1
    return bits


@pytest.mark.parametrize(
    ("keys", "vectors"),
    [
        (KEYS, flipped(X)),
        (["other", *KEYS[1:]], X),
        (KEYS[::-1], X),
        ([*KEYS, KEYS[0]], np.concatenate([X, X[:1]])),
        (KEYS[1:], X[1:]),
        ([*KEYS[:18], KEYS[0], KEYS[0]], np.concatenate([X[:18], X[:1], X[:1]])),
    ],
    ids=["a bit", "a key", "keys of others", "a row twice", "a row less", "rows replaced by two of another"],
)
def test_any_change_is_seen(keys, vectors):
    assert Digest.of(pa.array(keys), vectors) != of(np.arange(20))


def test_a_row_that_cannot_be_read_differs_from_one_that_can():
    assert Digest.of_keys(KEYS) != of(np.arange(20))
    assert Digest.of_keys([1, 2]) == Digest.of_keys([2]) + Digest.of_keys([1])


def test_digests_are_the_same_after_json():
    whole = of(np.arange(20))
    assert Digest.from_json(whole.to_json()) == whole
