"""Parquet: a list or fixed-size-list column of vectors beside any other columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from relatent.spaces.chunks import Chunk, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.formats.columns import META, Reading, conform, table_of
from relatent.spaces.formats.tables import TableRows, regrouped

__all__ = ["ParquetSource", "Writer", "open_rows"]

# Smaller chunks are gathered, so that row groups do not become tiny.
ROW_GROUP_BYTES = 16 * 2**20
# A buffered read of this size keeps one page in memory, not a whole row group.
BUFFER_BYTES = 2**20


def open_rows(path: Path, reading: Reading) -> Rows:
    """Open a Parquet file: a path, or something remote that can be opened."""
    return TableRows(ParquetSource(path), reading)


class ParquetSource:
    """A Parquet file, read row group by row group."""

    def __init__(self, path: Any) -> None:
        self.path = getattr(path, "path", path)
        # Opened anew for each pass, so that passes may run side by side.
        self._open = path.open if hasattr(path, "open") and not isinstance(path, Path) else lambda: path
        about = pq.read_metadata(self._open())
        self._sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        self.rows = about.num_rows
        self.schema = about.schema.to_arrow_schema()
        self.metadata: dict[bytes, bytes] | None = {**(self.schema.metadata or {}), **(about.metadata or {})}

    def tables(self, start: int, stop: int, size: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Read the row groups that hold the rows, a buffer at a time."""
        groups, skipped, row = [], 0, 0
        for i, rows in enumerate(self._sizes):
            if row + rows <= start:
                skipped += rows
            elif row < stop:
                groups.append(i)
            row += rows
        names = self.schema.names if columns is None else columns
        schema = pa.schema([self.schema.field(name) for name in names])
        with pq.ParquetFile(self._open(), buffer_size=BUFFER_BYTES, pre_buffer=False) as file:
            batches = file.iter_batches(batch_size=size, row_groups=groups, columns=names) if groups else iter(())
            yield from regrouped(batches, start - skipped, stop - skipped, size, schema)


class Writer:
    """Writes chunks as row groups; vectors plain and uncompressed, since they do not compress."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        self.schema = table_of(first).schema
        others = [name for name in self.schema.names if name != first.layout.vector]
        self._writer = pq.ParquetWriter(
            path,
            self.schema,
            compression={**dict.fromkeys(others, "zstd"), f"{first.layout.vector}.list.element": "none"},
            use_dictionary=others,
            write_statistics=others,
        )
        self._held: list[pa.Table] = []

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self._held.append(conform(table_of(chunk), self.schema))
        if sum(table.nbytes for table in self._held) >= ROW_GROUP_BYTES:
            self._flush()

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write what is held back, and the fingerprint into the metadata."""
        self._flush()
        self._writer.add_key_value_metadata({META.decode(): fingerprint.to_json()})
        self._writer.close()

    def release(self) -> None:
        """Let go of the file."""
        self._writer.close()

    def _flush(self) -> None:
        if self._held:
            table = pa.concat_tables(self._held)
            self._held = []
            self._writer.write_table(table, row_group_size=max(1, len(table)))
