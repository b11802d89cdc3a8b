"""Spaces in memory: rows, keys, conversion, pickling."""

import pickle

import numpy as np
import pytest

from relatent.spaces import Fingerprint, Space, read_space, write_space


def of(keys, d=2):
    """A space whose vectors spell their row numbers."""
    return Space(np.arange(len(keys) * d, dtype=np.float64).reshape(len(keys), d), keys=keys)


def test_torch_vectors_and_integers_become_numpy_floats():
    torch = pytest.importorskip("torch")
    assert Space(torch.ones(2, 3)).vectors.dtype == np.float32
    assert Space(np.ones((2, 3), dtype=np.int8)).vectors.dtype == np.float32
    assert Space([[1, 2]]).vectors.dtype == np.float64


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        Space(np.zeros(3))
    with pytest.raises(ValueError, match="2 keys were given for 3 vectors"):
        Space(np.zeros((3, 1)), keys=["a", "b"])
    with pytest.raises(ValueError, match="others has 1 rows for 3 vectors"):
        Space(np.zeros((3, 1)), others={"n": [1]})
    with pytest.raises(ValueError, match="others holds a column 'key'"):
        Space(np.zeros((1, 1)), keys=["a"], others={"key": [1]})
    with pytest.raises(ValueError, match=r"fingerprint says 4 coordinates and the vectors have 1"):
        Space(np.zeros((1, 1)), fingerprint=Fingerprint(dim=4))
    with pytest.raises(ValueError, match=r"expected \(i, n\) with 0 ≤ i < n"):
        of(["a"]).chunks(shard=(2, 2))
    with pytest.raises(ValueError, match="Chunks of 0 rows"):
        of(["a"]).chunks(rows=0)


def test_an_empty_space_has_one_empty_chunk():
    space = Space(np.empty((0, 3)), keys=[])
    assert [len(chunk) for chunk in space.chunks()] == [0]
    assert [len(chunk) for chunk in Space(np.zeros((1, 3))).chunks(shard=(0, 3))] == [0]


def test_a_space_is_an_array_to_numpy():
    space = of(["a", "b", "c"])
    np.testing.assert_array_equal(np.asarray(space), space.vectors)
    assert np.asarray(space, dtype=np.float32).dtype == np.float32
    assert np.shares_memory(np.asarray(space), space.vectors)
    assert not np.shares_memory(np.array(space), space.vectors)
    np.testing.assert_array_equal(list(space), space.vectors)


@pytest.mark.parametrize(
    "rows",
    [
        slice(2),
        slice(None, None, -2),
        [3, 1],
        [-1],
        np.asarray([0, 0]),
        np.asarray([True, False, True, False]),
        [False, True, False, True],
        np.asarray([], dtype=int),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_rows_of_a_space_are_a_space(tmp_path, rows, stored):
    space = of(["a", "b", "c", "d"])
    if stored:
        write_space(space, tmp_path / "x.parquet")
        space = read_space(tmp_path / "x.parquet")
    part = space[rows]
    assert isinstance(part, Space)
    np.testing.assert_array_equal(part.vectors, space.vectors[rows])
    assert part.keys.tolist() == space.keys[rows].tolist()


def test_one_row_is_a_vector():
    space = of(["a", "b"])
    assert space[1].tolist() == space[-1].tolist() == space[np.int64(1)].tolist() == [2.0, 3.0]
    for row in (2, -3):
        with pytest.raises(IndexError):
            space[row]


def test_rows_by_key():
    space = of([10, 20, 30])
    assert space.by_keys(["30", 10]).keys.tolist() == [30, 10]
    assert space.by_keys([20])[0].tolist() == [2.0, 3.0]
    assert Space(np.eye(3)).by_keys([2]).vectors.tolist() == [[0.0, 0.0, 1.0]]
    with pytest.raises(KeyError, match="not in the space, first '40'"):
        space.by_keys([40])


def test_several_spaces_are_aligned_on_the_keys_that_all_have():
    spaces = of(["a", "b", "c", "d"]), of(["d", "c", "b"]), of(["b", "x", "d"])
    aligned = spaces[0].aligned_with(*spaces[1:])
    expected = [space.by_keys(["b", "d"]).vectors for space in spaces]
    for got, wanted in zip(aligned, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_space_without_its_keys_keeps_the_column(tmp_path):
    bare = of(["a", "b"]).without_keys()
    assert not bare.has_keys
    assert bare.keys.tolist() == [0, 1]
    assert all(chunk.keys is None for chunk in bare.chunks())
    assert bare.others.column("key").to_pylist() == ["a", "b"]


def test_a_pickled_file_is_opened_again(target, space):
    if target.suffix in (".txt", ".vec"):
        space = Space(space.vectors, space.keys)
    write_space(space, target, format="datasets" if target.name == "datasets" else None)
    stored = read_space(target, name="mine")
    np.testing.assert_array_equal(stored.vectors, space.vectors)
    sent = pickle.dumps(stored)
    assert str(target).encode() in sent
    back = pickle.loads(sent)
    np.testing.assert_array_equal(back.vectors, space.vectors)
    assert back.keys.tolist() == space.keys.tolist()
    assert (back.name, back.path, back.layout) == ("mine", str(target), stored.layout)
    assert back.fingerprint == stored.fingerprint


def test_a_pickled_file_holds_no_vectors(tmp_path):
    write_space(Space(np.zeros((10_000, 4))), tmp_path / "x.npy")
    stored = read_space(tmp_path / "x.npy")
    _ = stored.vectors, stored.others
    assert len(pickle.dumps(stored)) < 20_000  # its probe; the vectors are 320,000 bytes
    write_space(Space(np.zeros((9, 4))), tmp_path / "y.npy")
    sent = pickle.dumps(read_space(tmp_path / "y.npy"))
    write_space(Space(np.zeros((8, 4))), tmp_path / "y.npy", overwrite=True)
    with pytest.raises(ValueError, match=r"y\.npy is 8 × 4 and was 9 × 4 when its space was pickled"):
        pickle.loads(sent)


def test_a_space_in_memory_is_pickled_whole():
    space = Space(np.eye(2), keys=["a", "b"], name="toy", others={"n": [1, 2]}).without_keys()
    back = pickle.loads(pickle.dumps(space))
    np.testing.assert_array_equal(back.vectors, space.vectors)
    assert back.others.equals(space.others)
    assert not back.has_keys
