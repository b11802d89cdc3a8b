"""Spaces in memory, and joins on keys."""

import numpy as np
import pyarrow as pa
import pytest

from relatent.spaces import Fingerprint, Space, match_keys, parallel, read_space, write_space


def of(keys, d=2):
    """A space whose vectors spell their row numbers."""
    return Space(np.arange(len(keys) * d, dtype=np.float64).reshape(len(keys), d), keys=keys)


def test_parallel_joins_on_keys_in_the_order_of_x():
    x, y = of(["a", "b", "c", "d"]), of(["d", "z", "b"], d=3)
    joined = parallel(x, y)
    assert joined.keys.tolist() == ["b", "d"]
    np.testing.assert_array_equal(joined.x, x.vectors[[1, 3]])
    np.testing.assert_array_equal(joined.y, y.vectors[[2, 0]])
    assert joined.only_x.tolist() == ["a", "c"]
    assert joined.only_y.tolist() == ["z"]
    assert joined.duplicates.tolist() == []
    assert joined.summary() == "2 keys in common; left out: 2 only in x ('a', 'c'), 1 only in y ('z')"


def test_ambiguous_keys_are_named_and_left_out():
    joined = parallel(of(["a", "b", "b", "c", "d"]), of(["d", "c", "c", "b", "a"]))
    assert joined.keys.tolist() == ["a", "d"]
    assert sorted(joined.duplicates.tolist()) == ["b", "c"]
    assert "2 ambiguous" in joined.summary()


def test_integer_keys_of_different_widths_join():
    x = Space(np.zeros((3, 2)), keys=np.asarray([1, 2, 3], dtype=np.int16))
    y = Space(np.ones((2, 2)), keys=np.asarray([3, 1], dtype=np.uint64))
    assert parallel(x, y).keys.tolist() == [1, 3]


def test_dictionary_and_large_string_keys_join():
    x = Space(np.zeros((2, 2)), keys=pa.array(["a", "b"]).dictionary_encode())
    y = Space(np.zeros((2, 2)), keys=pa.array(["b", "a"], pa.large_string()))
    assert parallel(x, y).keys.tolist() == ["a", "b"]


def test_what_cannot_be_joined_is_said():
    with pytest.raises(ValueError, match=r"No key is in both spaces: x has 'a' and y has 'b'"):
        parallel(of(["a"]), of(["b"]))
    with pytest.raises(ValueError, match=r"keys of x are int64 and those of y are large_string"):
        parallel(of([1]), of(["1"]))
    with pytest.raises(ValueError, match=r"first space \(1\) has no keys and the other has 'key'"):
        parallel(Space(np.zeros((1, 1))), of(["b"]))
    with pytest.raises(ValueError, match=r"1 keys of y are null, first in row 1"):
        parallel(of(["a"]), of(["a", None]))
    with pytest.raises(ValueError, match=r"Neither space has keys and they have 1 and 2 rows"):
        parallel(Space(np.zeros((1, 1))), Space(np.zeros((2, 1))))


def test_without_keys_rows_are_joined_by_number():
    assert parallel(Space(np.zeros((3, 1))), Space(np.zeros((3, 2)))).x_rows.tolist() == [0, 1, 2]


def test_match_keys_reads_no_vector(tmp_path, monkeypatch):
    write_space(of(["a", "b"]), tmp_path / "x.parquet")
    x = read_space(tmp_path / "x.parquet")
    monkeypatch.setattr("relatent.spaces.formats.tables.as_matrix", None)
    assert match_keys(x, x).x_rows.tolist() == [0, 1]


def test_parallel_of_files_equals_parallel_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    a = Space(rng.normal(size=(500, 3)), keys=[f"k{i}" for i in rng.permutation(500)])
    b = Space(rng.normal(size=(400, 2)), keys=[f"k{i}" for i in rng.permutation(600)[:400]])
    write_space(a, tmp_path / "a.parquet")
    write_space(b, tmp_path / "b.jsonl")
    there, here = parallel(read_space(tmp_path / "a.parquet"), read_space(tmp_path / "b.jsonl")), parallel(a, b)
    np.testing.assert_array_equal(there.x, here.x)
    np.testing.assert_array_equal(there.y, here.y)
    assert there.keys.tolist() == here.keys.tolist()


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
