"""All vectors of a large file are mapped: verified first, and no path back into the file."""

import os

import numpy as np
import pytest

from relatent._files import FileError
from relatent.spaces import Space, read_space, write_space
from relatent.spaces.io import matrix

NAMES = ["x.npy", "x.npz", "x.safetensors"]
ROWS, DIM = 3_000, 300  # more than three blocks, the last one begun


@pytest.fixture
def space(rng):
    return Space(rng.normal(size=(ROWS, DIM)).astype(np.float32), keys=list(range(ROWS)))


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch):
    monkeypatch.setattr(matrix, "MAPPED_BYTES", 0)


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = array.base
    return array is not None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verify", [True, False])
def test_what_is_mapped_is_what_was_written(tmp_path, space, name, verify):
    write_space(space, tmp_path / name)
    vectors = read_space(tmp_path / name, verify=verify).vectors
    assert is_mapped(vectors)
    assert type(vectors) is np.ndarray
    np.testing.assert_array_equal(vectors, space.vectors)


def test_files_of_other_tools_are_mapped_without_a_pass(tmp_path, space):
    np.save(tmp_path / "x.npy", space.vectors)
    vectors = read_space(tmp_path / "x.npy").vectors
    assert is_mapped(vectors)
    np.testing.assert_array_equal(vectors, space.vectors)


@pytest.mark.parametrize("dtype", ["<i4", ">f4", "<f4 by columns"])
def test_what_is_not_read_as_its_bytes_is_not_mapped(tmp_path, space, dtype):
    kind, _, columns = dtype.partition(" ")
    stored = space.vectors.astype(kind, order="F" if columns else "C")
    np.save(tmp_path / "x.npy", stored)
    vectors = read_space(tmp_path / "x.npy").vectors
    assert not is_mapped(vectors)
    np.testing.assert_array_equal(vectors, stored)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("row", [0, ROWS // 2, ROWS - 1])
def test_no_damaged_block_is_mapped(tmp_path, space, name, row):
    write_space(space, tmp_path / name)
    raw = (tmp_path / name).read_bytes()
    vector = space.vectors[row].tobytes()
    assert raw.count(vector) == 1
    (tmp_path / name).write_bytes(raw.replace(vector, (-space.vectors[row]).tobytes()))
    with pytest.raises(FileError, match="damaged: what it holds in rows"):
        _ = read_space(tmp_path / name).vectors
    np.testing.assert_array_equal(read_space(tmp_path / name, verify=False).vectors[row], -space.vectors[row])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_to_the_array_stays_in_memory(tmp_path, space, name):
    write_space(space, tmp_path / name)
    before = (tmp_path / name).read_bytes()
    vectors = read_space(tmp_path / name).vectors
    vectors[:] = 0
    assert not vectors.any()
    assert (tmp_path / name).read_bytes() == before


def test_replacing_the_file_does_not_change_the_array(tmp_path, space):
    write_space(space, tmp_path / "x.npy")
    vectors = read_space(tmp_path / "x.npy").vectors
    write_space(Space(np.zeros((ROWS, DIM), np.float32)), tmp_path / "x.npy", overwrite=True)
    np.testing.assert_array_equal(vectors, space.vectors)


def test_a_file_that_was_cut_or_replaced_after_opening_is_refused(tmp_path, space):
    write_space(space, tmp_path / "x.npy")
    opened, again = read_space(tmp_path / "x.npy"), read_space(tmp_path / "x.npy")
    write_space(Space(space.vectors + 1), tmp_path / "x.npy", overwrite=True)
    with pytest.raises(FileError, match="from the start"):
        _ = opened.vectors
    os.truncate(tmp_path / "x.npy", 10_000)
    with pytest.raises(FileError, match=r"(new copy|from the start)"):
        _ = again.vectors


def test_a_small_file_is_read(tmp_path, space, monkeypatch):
    monkeypatch.setattr(matrix, "MAPPED_BYTES", 2**28)
    write_space(space, tmp_path / "x.npy")
    vectors = read_space(tmp_path / "x.npy").vectors
    assert not is_mapped(vectors)
    (tmp_path / "x.npy").write_bytes(b"")
    np.testing.assert_array_equal(vectors, space.vectors)
