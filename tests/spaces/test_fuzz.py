"""No damaged file is read as if it were whole, and none ends the process."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relatent._files import FileError
from relatent.spaces import Fingerprint, Space, read_space, write_space

FLIPS = Path(__file__).with_name("flips.py")
ROWS, DIM = 200, 16


@pytest.fixture(scope="module")
def space():
    vectors = np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)
    others = {
        "title": [f"Größe {i}" for i in range(ROWS)],
        "year": list(range(ROWS)),
        "tags": [["x"] * (i % 3) for i in range(ROWS)],
    }
    made = Fingerprint.of(vectors, model="encoder")
    return Space(vectors, keys=[f"key {i}" for i in range(ROWS)], fingerprint=made, others=others)


def count(target, victim, tries):
    """Flip bits of one file in a process of its own, and count what becomes of it."""
    words = [sys.executable, str(FLIPS), str(target), str(victim), str(tries), "0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=target.parent)
    assert done.returncode == 0, f"died of {done.returncode}: {done.stderr[-2000:]}"
    return json.loads(done.stdout)


def flip_ours(target, space, tries):
    write_space(
        space,
        target,
        format="datasets" if target.name == "datasets" else None,
        others=target.name not in ("x.txt", "x.vec", "x.csv", "x.tsv"),  # these cannot hold lists of tags
    )
    for victim in [file for file in [*target.parent.glob("x.*"), *target.glob("*")] if file.is_file()]:
        found = count(target, victim, tries)
        print(f"{target.name:14} {victim.name:28} {found}")  # noqa: T201 (the count is the answer)
        assert found.get("silent", 0) == 0, found


def test_a_few_flips_of_our_files(target, space):
    flip_ours(target, space, 10)


@pytest.mark.slow
def test_many_flips_of_our_files(target, space):
    flip_ours(target, space, 300)


def foreign(folder, space):
    """Files as other tools write them, without checksums."""
    lists = pa.FixedSizeListArray.from_arrays(space.vectors.ravel(), DIM)
    table = pa.table({"id": space.keys, "vector": lists, "tags": space.others.column("tags")})
    pq.write_table(table, folder / "x.parquet")
    pa.feather.write_feather(table, str(folder / "lz4.feather"), compression="lz4")
    pa.feather.write_feather(table, str(folder / "raw.feather"), compression="uncompressed")
    with pa.OSFile(str(folder / "stream.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=50)
    np.save(folder / "x.npy", space.vectors)
    np.savez(folder / "x.npz", vectors=space.vectors, ids=space.keys.astype(str))
    np.savez_compressed(folder / "packed.npz", vectors=space.vectors, ids=space.keys.astype(str))
    np.savetxt(folder / "x.txt", space.vectors, fmt=["w%.4f", *["%.4f"] * (DIM - 1)])
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file["vectors"], file["ids"] = space.vectors, space.keys.tolist()
    return sorted(file for file in folder.iterdir() if file.is_file())


def flip_foreign(folder, space, tries):
    """A flip in a file without checksums may pass; what it must not do is crash."""
    for file in foreign(folder, space):
        print(f"{file.name:14} {count(file, file, tries)}")  # noqa: T201


def test_a_few_flips_of_foreign_files_do_not_crash(tmp_path, space):
    flip_foreign(tmp_path, space, 10)


@pytest.mark.slow
def test_many_flips_of_foreign_files_do_not_crash(tmp_path, space):
    flip_foreign(tmp_path, space, 300)


@pytest.mark.parametrize(
    "name", ["x.npy", "x.npz", "x.arrow", "x.safetensors", "x.parquet", "x.vec", "x.jsonl", "x.csv"]
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_cut_or_overwritten_stretch_is_read(tmp_path, space, name, data):
    """Half a file, or a sector of zeros in it, as disks and copies leave behind."""
    path = tmp_path / name
    write_space(space, path, others=name not in ("x.vec", "x.csv"), overwrite=True)
    raw = bytearray(path.read_bytes())
    start = data.draw(st.integers(0, len(raw) - 1))
    if data.draw(st.booleans()):
        del raw[start:]
    else:
        length = data.draw(st.integers(1, 512))
        raw[start : start + length] = bytes(len(raw[start : start + length]))
    path.write_bytes(raw)
    try:
        back = read_space(path)
        vectors, keys = back.vectors, back.keys.tolist()
    except FileError:
        return
    np.testing.assert_array_equal(vectors, space.vectors)
    assert keys == space.keys.tolist()


def test_verification_can_be_left_out(tmp_path, space):
    for name in ("x.npy", "x.npz", "x.safetensors", "x.vec"):
        path = tmp_path / name
        write_space(space, path, others=False)
        raw = bytearray(path.read_bytes())
        at = raw.index(b"0.") + 2 if name == "x.vec" else raw.index(space.vectors[5].tobytes()) + 1
        raw[at] ^= 1
        path.write_bytes(raw)
        with pytest.raises(FileError, match=r"(is damaged|has changed).*verify=False"):
            _ = read_space(path).vectors
        assert read_space(path, verify=False).vectors.shape == space.vectors.shape


def test_only_what_is_read_is_verified(tmp_path):
    """A shard of a large file is read without the rest of it; the block that is damaged is named by its rows."""
    vectors = np.random.default_rng(0).normal(size=(40_000, 32)).astype(np.float32)
    write_space(Space(vectors), tmp_path / "x.npy")
    raw = bytearray((tmp_path / "x.npy").read_bytes())
    raw[4_000_000] ^= 1
    (tmp_path / "x.npy").write_bytes(raw)
    back = read_space(tmp_path / "x.npy")
    first = np.concatenate([chunk.vectors for chunk in back.chunks(rows=1000, shard=(0, 4))])
    np.testing.assert_array_equal(first, vectors[:10_000])
    with pytest.raises(FileError, match=r"damaged: what it holds in rows 24576 to 32768"):
        list(back.chunks(rows=1000))
