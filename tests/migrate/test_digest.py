import numpy as np
import pytest

from relatent.migrate.digest import BUCKETS, Digest, buckets_of
from relatent.spaces import key_hashes

KEYS = [f"k{i}" for i in range(20)]
X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)


def of(rows):
    return Digest.of(key_hashes([KEYS[i] for i in rows]), X[rows])


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
    assert Digest.of(key_hashes(keys), vectors) != of(np.arange(20))


@pytest.mark.parametrize(("dtype", "dim"), [("float16", 3), ("float32", 5), ("float64", 1), ("uint8", 13)])
def test_every_coordinate_counts_whatever_the_width(dtype, dim):
    keys, x = key_hashes(KEYS), (np.arange(20 * dim) % 100).reshape(20, dim).astype(dtype)
    for column in range(dim):
        changed = x.copy()
        changed[3, column] += 1
        assert Digest.of(keys, changed) != Digest.of(keys, x)


def test_vectors_that_change_places_are_seen():
    """Their sum stays the same, and so does every hash of a vector without its key."""
    assert Digest.of(key_hashes(KEYS), X[::-1]) != Digest.of(key_hashes(KEYS), X)


def test_a_row_that_cannot_be_read_differs_from_one_that_can():
    assert Digest.of_keys(key_hashes(KEYS)) != of(np.arange(20))
    one, two = (Digest.of_keys(key_hashes([key])) for key in (1, 2))
    assert Digest.of_keys(key_hashes([1, 2])) == two + one
    assert Digest.of_keys(key_hashes([])) == Digest()


def test_digests_are_the_same_after_json():
    whole = of(np.arange(20))
    assert Digest.from_json(whole.to_json()) == whole


def test_a_change_shows_in_the_buckets_of_its_rows_only(rng):
    keys = key_hashes([f"k{i}" for i in range(2_000)])
    x = rng.normal(size=(2_000, 4)).astype(np.float32)
    rows = rng.choice(2_000, 5, replace=False)
    changed = x.copy()
    changed[rows] += 1
    before, now = Digest.of(keys, x), Digest.of(keys, changed)
    assert before.changed(now) == frozenset(buckets_of(keys)[rows].tolist())
    assert before.changed(before) == frozenset()
    assert before.updated(now, before.changed(now)) == now
    kept = before.updated(now, frozenset(range(BUCKETS)) - before.changed(now))
    assert kept.buckets == before.buckets
