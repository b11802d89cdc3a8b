"""Parquet: a list or fixed-size-list column of vectors beside any other columns, in one file or in a folder of them.

Our pages carry checksums, which Parquet verifies. The footer, which it does not, carries one of ours: the CRC-32 of
the footer with zeros in place of that very number. Our folders carry a manifest of their files.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from relatent._files import FileError, damaged, dump_checked, read_checks
from relatent.spaces.chunks import Chunk, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.columns import META, ReadOptions, conform, table_of
from relatent.spaces.io.tables import TableRows, pieces_with, regrouped

# Smaller chunks are gathered, so that row groups do not become tiny.
ROW_GROUP_BYTES = 16 * 2**20
# A buffered read of this size keeps one page in memory, not a whole row group.
BUFFER_BYTES = 2**20
ROWS_PER_FILE = 1_000_000
MANIFEST = "_relatent.json"
SEAL = "relatent.footer_crc32"
OPEN_SEAL = b"crc32=00000000"


def open_rows(path: Path, options: ReadOptions) -> Rows:
    """Open a Parquet file: a path, or something remote that can be opened."""
    return TableRows(ParquetSource(path, options.verify), options)


class ParquetSource:
    """A Parquet file, read row group by row group."""

    def __init__(self, path: Any, verify: bool = True) -> None:
        self.path = getattr(path, "path", path)
        # Opened again for each pass, so that passes may run side by side.
        self._place, self._verify = path, verify
        with self._open() as file:
            about = pq.read_metadata(file)
            self.metadata: dict[bytes, bytes] | None = dict(about.metadata or {})
            if verify and SEAL.encode() in self.metadata:
                _check_footer(self.path, file)
        self._sizes = [about.row_group(i).num_rows for i in range(about.num_row_groups)]
        self.rows = about.num_rows
        self.entries = np.cumsum([0, *self._sizes[:-1]]).tolist()
        self.schema = about.schema.to_arrow_schema()
        self.metadata = {**(self.schema.metadata or {}), **self.metadata}

    def tables(self, start: int, stop: int, size: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Read the row groups that hold the rows, a buffer at a time."""
        groups, skipped = pieces_with(self._sizes, start, stop)
        names = self.schema.names if columns is None else columns
        schema = pa.schema([self.schema.field(name) for name in names])
        with (
            self._open() as raw,
            pq.ParquetFile(
                raw, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=self._verify
            ) as file,
        ):
            batches = file.iter_batches(batch_size=size, row_groups=groups, columns=names) if groups else iter(())
            yield from regrouped(batches, start - skipped, stop - skipped, size, schema)

    def _open(self) -> Any:
        return self._place.open() if not isinstance(self._place, Path) else pa.OSFile(str(self._place), "rb")


class Writer:
    """Writes chunks as row groups; vectors unencoded and uncompressed, since they do not compress."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        self.path, self.schema = path, table_of(first).schema
        others = [name for name in self.schema.names if name != first.layout.vector]
        self._writer = pq.ParquetWriter(
            path,
            self.schema,
            compression={**dict.fromkeys(others, "zstd"), f"{first.layout.vector}.list.element": "none"},
            use_dictionary=others,
            write_statistics=others,
            write_page_checksum=True,
        )
        self._pending: list[pa.Table] = []

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self._pending.append(conform(table_of(chunk), self.schema))
        if sum(table.nbytes for table in self._pending) >= ROW_GROUP_BYTES:
            self._flush()

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write what is pending, the fingerprint into the metadata, and the checksum of the footer into the footer."""
        self._flush()
        self._writer.add_key_value_metadata({META.decode(): fingerprint.to_json(), SEAL: OPEN_SEAL.decode()})
        self._writer.close()
        with self.path.open("rb+") as file:
            begin, footer = _footer(file)
            file.seek(begin + footer.rindex(OPEN_SEAL))
            file.write(_seal(footer))

    def close(self) -> None:
        """Close the file."""
        self._writer.close()

    def _flush(self) -> None:
        if self._pending:
            table = pa.concat_tables(self._pending)
            self._pending = []
            self._writer.write_table(table, row_group_size=max(1, len(table)))


class FolderWriter:
    """Writes part-00000.parquet and so on, a new one when the last has a million rows, and a manifest of them."""

    def __init__(self, path: Path, first: Chunk, early: Fingerprint) -> None:
        path.mkdir(exist_ok=True)
        self._path, self._first, self._early = path, first, early
        self._parts: list[Writer] = []
        self._next()

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        if self._rows >= ROWS_PER_FILE:
            self._parts[-1].finish(self._early)
            self._next()
        self._parts[-1].write(chunk)
        self._rows += len(chunk)

    def finish(self, fingerprint: Fingerprint) -> None:
        """Complete the last file, and write down which files there are."""
        self._parts[-1].finish(fingerprint)
        (self._path / MANIFEST).write_text(manifest_of([part.path for part in self._parts]), "utf8")

    def close(self) -> None:
        """Close the files."""
        for part in self._parts:
            part.close()

    def _next(self) -> None:
        path = self._path / f"part-{len(self._parts):05d}.parquet"
        self._parts.append(Writer(path, self._first, self._early))
        self._rows = 0


def manifest_of(files: Sequence[Path]) -> str:
    """Return the manifest of files that belong together."""
    return dump_checked({"files": {file.name: footer_sum(file) for file in files}})


def footer_sum(path: Any) -> int:
    """Return the CRC-32 of the footer of a file, which tells it from any other."""
    with path.open("rb") as file:
        return zlib.crc32(_footer(file)[1])


def check_manifest(folder: Any, manifest: str, files: dict[str, Any]) -> None:
    """Refuse a folder of ours that has lost a file, or has files of another run or tool.

    ``files`` maps names to things with an ``open``, local or remote.
    """
    expected = read_checks(manifest, f"{folder}/{MANIFEST}").get("files", {})
    odd = sorted(set(expected) ^ set(files))
    if odd:
        what = f"lacks {odd[0]}, which was" if odd[0] in expected else f"holds {odd[0]}, which was not"
        raise FileError(
            f"{folder} {what} written with it: expected {len(expected)} files. Get a new copy, or delete {MANIFEST} "
            "if this is wanted."
        )
    for name, crc in expected.items():
        if footer_sum(files[name]) != crc:
            raise FileError(f"{folder} holds {name} of another run than its other files: get a new copy.")


def _footer(file: BinaryIO) -> tuple[int, bytes]:
    """Read the footer of a Parquet file, its own length and closing mark included, and where it begins."""
    size = file.seek(0, 2)
    size = file.tell() if size is None else size
    file.seek(max(0, size - 8))
    length = int.from_bytes(file.read(4), "little") + 8
    begin = max(0, size - length)
    file.seek(begin)
    return begin, bytes(file.read(size - begin))


def _seal(footer: bytes) -> bytes:
    return OPEN_SEAL[:-8] + f"{zlib.crc32(footer):08x}".encode()


def _check_footer(path: Any, file: BinaryIO) -> None:
    _, footer = _footer(file)
    at = footer.rfind(OPEN_SEAL[:-8])
    opened = footer[:at] + OPEN_SEAL + footer[at + len(OPEN_SEAL) :]
    if at < 0 or footer[at : at + len(OPEN_SEAL)] != _seal(opened):
        raise damaged(path, "its footer")
