"""Streaming holds a few chunks, however long the file is."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

STREAM = """
import sys
from pathlib import Path
from relatent.spaces import read_space, space_writer
with space_writer(sys.argv[2]) as out:
    for chunk in read_space(sys.argv[1]).chunks():
        out.write(chunk.with_vectors(2 * chunk.vectors))
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) // 1024)
"""


def peak(source, out) -> int:
    """Megabytes that a process held at most while it copied a file."""
    command = [sys.executable, "-c", STREAM, str(source), str(out)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("suffix", [".parquet", ".npy", ".arrow", ".safetensors", ".h5"])
def test_a_file_much_larger_than_the_memory_used(tmp_path, suffix):
    """900 MB of vectors, in one row group as far as the format has them: half of it beyond what a few rows take."""
    dim = 384

    def source(rows):
        old = np.lib.format.open_memmap(tmp_path / f"{rows}.npy", mode="w+", dtype=np.float32, shape=(rows, dim))
        old[:] = np.arange(rows, dtype=np.float32)[:, None]
        old.flush()
        if suffix != ".parquet":
            return tmp_path / f"{rows}.npy"
        lists = pa.FixedSizeListArray.from_arrays(pa.array(old.reshape(-1)), dim)
        pq.write_table(pa.table({"id": np.arange(rows), "vector": lists}), tmp_path / f"{rows}.parquet")
        return tmp_path / f"{rows}.parquet"

    few, rows = 10, 600_000
    program = peak(source(few), tmp_path / f"few{suffix}")
    assert peak(source(rows), tmp_path / f"new{suffix}") - program < 450
    assert peak(tmp_path / f"new{suffix}", tmp_path / "again.npy") - program < 450
    assert np.load(tmp_path / "again.npy", mmap_mode="r")[-1, 0] == 4 * (rows - 1)
