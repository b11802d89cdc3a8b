"""What was written to a new field: a folder with one Arrow file per write, each written atomically."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._files import atomic_write
from relatent.spaces.io.columns import as_lists, as_matrix


class Parts:
    """Keys and vectors in files with rising numbers. Where a key is in several, the highest counts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files(self) -> list[Path]:
        """Return the files, in the order in which they were written."""
        return sorted(self._folder.glob("*.arrow"))

    def write(self, keys: pa.Array, vectors: np.ndarray) -> None:
        """Add a file, durable when it returns. Two writers at once take different names."""
        number = 1 + max((int(file.stem.split("-")[0]) for file in self.files()), default=0)
        self._save(self._folder / f"{number:012d}-{secrets.token_hex(4)}.arrow", keys, vectors)

    def all_keys(self) -> list[pa.Array]:
        """Return the keys of each file, without reading vectors."""
        return [self._table(file).column("key").combine_chunks() for file in self.files()]

    def forget(self, files: Iterable[Path]) -> None:
        """Remove some of the files: what they hold was put elsewhere."""
        for file in files:
            file.unlink(missing_ok=True)

    def newest_first(self) -> Iterator[tuple[pa.Array, np.ndarray]]:
        """Return keys and vectors from the last file on, mapped from the disk."""
        return map(self._read, reversed(self.files()))

    def drop(self, gone: pa.Array) -> None:
        """Leave some keys out of every file that has them."""
        for file in self.files():
            keys, vectors = self._read(file)
            kept = pc.invert(pc.is_in(keys, value_set=gone))
            if pc.all(kept).as_py() is False:
                self._save(file, keys.filter(kept), vectors[kept.to_numpy(zero_copy_only=False)])

    def make_folder(self) -> None:
        """Make the folder."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _save(self, file: Path, keys: pa.Array, vectors: np.ndarray) -> None:
        table = pa.table({"key": keys, "vector": as_lists(vectors)})
        with atomic_write(file) as tmp, pa.OSFile(str(tmp), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)

    def _read(self, file: Path) -> tuple[pa.Array, np.ndarray]:
        table = self._table(file)
        return table.column("key").combine_chunks(), as_matrix(table.column("vector"), file, 0)

    def _table(self, file: Path) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(str(file))).read_all()
