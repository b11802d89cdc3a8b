"""Bad input is refused with what was given, what is expected and what to do, by file, row and key."""

import json
import os
import pickle
import tracemalloc
import zipfile
from io import BytesIO

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from relatent._files import FileError
from relatent.cli import ERROR, app
from relatent.spaces import Space, read_space, write_space

NAMES = ["x.npy", "x.npz", "x.arrow", "x.safetensors", "x.h5", "x.vec", "x.jsonl", "x.parquet"]


def lines(*objects):
    return "".join((text if isinstance(text, str) else json.dumps(text)) + "\n" for text in objects)


GOOD = {"id": "a", "v": [1, 2], "n": 1}
TEXTS = [
    # A column of integers turned 9.99 into 9.
    ("x.jsonl", lines(*[GOOD] * 1000, GOOD | {"n": 9.99}), r"9\.99 under 'n' in row 1000 \(key 'a'\).*than int64"),
    ("x.jsonl", lines(GOOD, '{"id": "b", "id": "c", "v": [1, 2]}'), r"'id' twice in one object in row 1"),
    ("x.jsonl", lines(GOOD, GOOD | {"v": [1, True]}), r"a bool in the vector of row 1 \(key 'a'\): expected numbers"),
    ("x.jsonl", lines(GOOD, GOOD | {"v": [1, {"x": 1}]}), r"a dict in the vector of row 1 \(key 'a'\)"),
    ("x.jsonl", lines(GOOD, GOOD | {"v": [1, "2"]}), r"a str in the vector of row 1"),
    ("x.jsonl", lines(GOOD, GOOD | {"n": 2**63}), r"under 'n' that make no column.*below 2\^63"),
    ("x.jsonl", lines(*[GOOD] * 1000, GOOD | {"n": 2**64}), r"18446744073709551616 under 'n' in row 1000"),
    ("x.jsonl", lines(GOOD, GOOD | {"v": [1, 10**400]}), r"a number that float32 cannot hold in row 1 \(key 'a'\)"),
    ("x.jsonl", lines(GOOD, '{"id": "b", "v": [1, 1e400]}'), r"float32 cannot hold in row 1 \(key 'b'\).*float64"),
    ("x.jsonl", lines(GOOD, GOOD | {"v": [1, 1e39]}), r"float32 cannot hold in row 1"),
    ("x.jsonl", lines(GOOD, '{"id": "b", "v": [1, NaN]}'), r"NaN, which is no number in JSON, in row 1"),
    # A first row that is too short made numbers of all other rows part of their words.
    ("x.txt", "the 1 2\nof 1 2 3\nin 1 2 3\n", r"row 0 \(2 numbers\): expected a word and 3 numbers"),
    ("x.txt", "the 1 2 3\nof 1 2 3\nin 1 2 3 4\n", r"row 2 \(4 numbers\): expected a word and 3 numbers"),
    ("x.vec", "2 3\nthe 1 2 3\nof 1 2 3 4\n", r"row 1 \(4 numbers\)"),
    ("x.txt", "the 1 2 3\nof 1 2x 3\n", r"row 1 \(could not convert .*'2x'\): expected a word and 3 numbers"),
    ("x.txt", "the 1 2 3\nof 1 2 1e39\n", r"float32 cannot hold in row 1 \('of'\)"),
]


@pytest.mark.parametrize(("name", "text", "says"), TEXTS)
def test_texts(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(FileError, match=rf"{name} .*{says}"):
        _ = read_space(tmp_path / name).vectors


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"\xef\xbb\xbfthe 1 2\nof 3 4\n")
    (tmp_path / "x.jsonl").write_bytes(b'\xef\xbb\xbf{"id": "the", "v": [1, 2]}\n')
    assert read_space(tmp_path / "x.txt").keys.tolist() == ["the", "of"]
    assert read_space(tmp_path / "x.jsonl").keys.tolist() == ["the"]


def test_whole_numbers_stay_whole(tmp_path):
    (tmp_path / "x.jsonl").write_text(lines(*[GOOD] * 1000, GOOD | {"n": 9.0}))
    assert read_space(tmp_path / "x.jsonl").others.column("n")[1000].as_py() == 9


def npz_bomb(path):
    """A key array that says it holds a terabyte."""
    header = {"descr": "<i8", "fortran_order": False, "shape": (2**37,)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        with file.open("vectors.npy", "w") as member:
            np.lib.format.write_array_header_1_0(member, {**header, "shape": (2**37, 1)})
        with file.open("ids.npy", "w") as member:
            np.lib.format.write_array_header_1_0(member, header)


def npz_cut(path):
    """Vectors that are fewer than their header says, behind a compressor."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file, file.open("vectors.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "<f4", "fortran_order": False, "shape": (100, 2)})
        member.write(b"\0" * 400)


def npy_bomb(path):
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (2**40, 2**10)})


def h5_of(path, fill):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        fill(h5py, file, path.parent)


def h5_linked(h5py, file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["vectors"] = np.ones((2, 2))
    file["vectors"] = h5py.ExternalLink("other.h5", "vectors")


def h5_virtual(h5py, file, folder):
    layout = h5py.VirtualLayout(shape=(2, 2), dtype="f4")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "vectors", shape=(2, 2))
    file.create_virtual_dataset("vectors", layout)


def h5_external(h5py, file, folder):
    (folder / "raw").write_bytes(b"\0" * 16)
    file.create_dataset("vectors", (2, 2), "f4", external=[(str(folder / "raw"), 0, 16)])


def h5_bomb(h5py, file, folder):
    file.create_dataset("vectors", (2**30, 2**10), "f4", chunks=(64, 2**10), compression="gzip")


def h5_giant_key(h5py, file, folder):
    file.create_dataset("vectors", (2**38, 2), "f4", chunks=(64, 2))
    file.create_dataset("ids", (2**38,), "i8", chunks=(64,))


def under_another_name(path, suffix):
    write_space(Space(np.eye(2)), path.with_suffix(suffix))
    path.with_suffix(suffix).rename(path)


BINARIES = [
    ("x.npz", npz_bomb, r"states 1,099,511,627,776 bytes for 'ids'.*max_memory="),
    ("x.npz", npz_cut, r"cut short: .* bytes, expected"),
    ("x.npy", npy_bomb, r"cut short: 128 bytes, expected 4,503,599,627,370,624"),
    ("x.h5", lambda p: h5_of(p, h5_linked), r"a link to another file under 'vectors'.*Copy them"),
    ("x.h5", lambda p: h5_of(p, h5_virtual), r"keeps 'vectors' in other files.*Copy them"),
    ("x.h5", lambda p: h5_of(p, h5_external), r"keeps 'vectors' in other files"),
    ("x.h5", lambda p: h5_of(p, h5_bomb), r"states 4,398,046,511,104 bytes for its vectors.*max_memory="),
    ("x.h5", lambda p: h5_of(p, h5_giant_key), r"states 2,199,023,255,552 bytes for 'ids'"),
    ("x.npy", lambda p: under_another_name(p, ".npz"), r"holds \.npz data.*: rename it to x\.npz"),
    ("x.npz", lambda p: under_another_name(p, ".npy"), r"holds \.npy data.*: rename it to x\.npy"),
    ("x.txt", lambda p: under_another_name(p, ".parquet"), r"holds \.parquet data.*: rename it to x\.parquet"),
    ("x.npy", lambda p: os.mkfifo(p), r"is a pipe: expected a regular file.*Save what it yields"),
    ("x.parquet", lambda p: p.symlink_to("/dev/zero"), r"is a device: expected a regular file"),
    ("x.npy", lambda p: p.touch(), r"is empty"),
    ("x.npy", lambda p: np.save(p, np.eye(2)) or p.write_bytes(p.read_bytes() + b"more"), r"cannot be read"),
]


@pytest.mark.parametrize(("name", "make", "says"), BINARIES, ids=[f"{i}-{b[0]}" for i, b in enumerate(BINARIES)])
def test_binaries(tmp_path, name, make, says):
    make(tmp_path / name)
    with pytest.raises(FileError, match=rf"{name} .*{says}"):
        _ = read_space(tmp_path / name).vectors


def test_max_memory_is_what_one_allows(tmp_path):
    np.savez(tmp_path / "x.npz", vectors=np.ones((1000, 2)), ids=np.arange(1000))
    with pytest.raises(FileError, match=r"states 8,000 bytes for 'ids': more than the 4,000 that may be used"):
        read_space(tmp_path / "x.npz", max_memory=4000)
    assert len(read_space(tmp_path / "x.npz", max_memory=8000)) == 1000


MEGABYTE = 2**20


def array_bytes(array):
    with BytesIO() as file:
        np.save(file, array)
        return file.getvalue()


# Each of some kilobytes, and of megabytes when it is read.
BOMBS = {
    "its vectors": {"vectors": array_bytes(np.zeros((2**21, 2), np.float32))},
    "its columns together": {
        "vectors": array_bytes(np.zeros((2**16, 1), np.float32)),
        **{f"column {i}": array_bytes(np.zeros(2**16)) for i in range(16)},
    },
    "'relatent.fingerprint'": {
        "vectors": array_bytes(np.eye(2)),
        "relatent.fingerprint": array_bytes(np.asarray("x" * MEGABYTE)),
    },
}


@pytest.mark.parametrize("what", BOMBS)
def test_compressed_arrays_count_in_full(tmp_path, what):
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in BOMBS[what].items():
            file.writestr(f"{name}.npy", content)
    with pytest.raises(FileError, match=rf"x\.npz states [\d,]+ bytes for {what}: more than the 1,048,576"):
        read_space(tmp_path / "x.npz", max_memory=MEGABYTE)
    if what != "'relatent.fingerprint'":
        assert len(read_space(tmp_path / "x.npz", max_memory=32 * MEGABYTE).vectors)
    words = ["info", str(tmp_path / "x.npz"), "--max-memory", str(MEGABYTE)]
    said = CliRunner().invoke(app, words)
    assert (said.exit_code, "allow more with --max-memory" in said.stderr) == (ERROR, True)


def test_a_header_is_not_read_before_its_length_is_known(tmp_path):
    header = b"\x93NUMPY\x02\0" + (64 * MEGABYTE).to_bytes(4, "little") + b" " * 64 * MEGABYTE
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("vectors.npy", header)
    tracemalloc.start()
    with pytest.raises(FileError, match=r"x\.npz states a header of 67,108,864 bytes: expected at most 10,000"):
        read_space(tmp_path / "x.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * MEGABYTE


@pytest.mark.parametrize(
    "name", ["x.npy", "x.npz", "x.arrow", "x.safetensors", "x.h5", "x.vec", "x.jsonl", "x.parquet"]
)
@pytest.mark.parametrize("verify", [True, False])
def test_cut_while_it_is_read(tmp_path, name, verify):
    """With mapped files this was the end of the process (SIGBUS)."""
    write_space(Space(np.ones((20_000, 64), np.float32), keys=list(range(20_000))), tmp_path / name)
    chunks = read_space(tmp_path / name, verify=verify).chunks(rows=100)
    next(chunks)
    os.truncate(tmp_path / name, 10_000)
    with pytest.raises(FileError, match=r"(new copy|from the start)"):
        list(chunks)


@pytest.mark.parametrize(
    "name", ["x.npy", "x.npz", "x.arrow", "x.safetensors", "x.h5", "x.vec", "x.jsonl", "x.parquet", "folder"]
)
def test_rows_of_files_can_be_sent_to_workers(tmp_path, name, rng):
    vectors = rng.normal(size=(20, 3)).astype(np.float32)
    write_space(Space(vectors, keys=list(range(20))), tmp_path / name)
    rows = pickle.loads(pickle.dumps(read_space(tmp_path / name)._rows))
    np.testing.assert_array_equal(np.concatenate([chunk.vectors for chunk in rows.chunks(0, 20, 7)]), vectors)


def test_int8_is_converted_chunk_by_chunk(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(-128, 128, dtype=np.int8).reshape(64, 4))
    space = read_space(tmp_path / "x.npy")
    assert space.dtype == np.float32
    assert all(chunk.vectors.dtype == np.float32 and len(chunk) == 8 for chunk in space.chunks(rows=8))
    np.testing.assert_array_equal(space.vectors.ravel(), np.arange(-128, 128))


def test_object_columns_that_are_no_keys_are_passed_over(tmp_path):
    np.savez(tmp_path / "x.npz", vectors=np.ones((2, 2)), notes=np.asarray(["a", None], dtype=object))
    assert read_space(tmp_path / "x.npz").others.column_names == []


def test_a_column_that_promises_what_it_has_not_is_refused(tmp_path):
    """An offset that leads out of its buffer, as one flipped bit makes it: reading it unchecked ended the process."""
    values = pa.py_buffer(b"abc")
    bad = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(np.asarray([0, 2**30, 3], np.int32)), values])
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(4, np.float32)), 2)
    batch = pa.RecordBatch.from_arrays([bad, lists], names=["id", "vector"])
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(FileError, match=r"x\.arrow cannot be read"):
        _ = read_space(tmp_path / "x.arrow").keys
