"""Arrow and Feather files, and the folders that Hugging Face datasets leave on disk, which are Arrow streams.

Files and streams are the same sequence of messages: a schema, dictionaries, batches of rows. We find the messages by
their headers and read those that are wanted, one at a time. In files of ours, an empty batch at the end carries a
checksum of each message before it (XXH3, in earlier files CRC-32), and nothing is given to Arrow that does not match.
Batches of files of others are validated before use. Either way no byte of a file can crash the process, as it could
when the file was mapped.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from xxhash import xxh3_64_intdigest

from relatent._files import FileError, damaged, dump_checked, read_checks
from relatent.spaces.chunks import Chunk, Joined, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.columns import META, ReadOptions, conform, meta, table_of
from relatent.spaces.io.tables import TableRows, pieces_with, regrouped

FILE_MAGIC = b"ARROW1"
FEATHER_1 = b"FEA1"
CHECKS = b"relatent.checks"
# The kinds of messages, as the format numbers them.
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
CONTINUATION = b"\xff\xff\xff\xff"
# Under which name a record has which checksums.
CHECKSUMS: dict[str, Callable[..., int]] = {"sums": zlib.crc32, "xxh3": xxh3_64_intdigest}


def open_rows(path: Path, options: ReadOptions) -> Rows:
    """Open an Arrow file or stream, or a Feather file."""
    return TableRows(IpcSource(path, options.verify), options)


def open_folder(path: Path, options: ReadOptions) -> Rows:
    """Open a folder that `Dataset.save_to_disk` wrote; one split of a `DatasetDict`."""
    state = path / "state.json"
    if not state.exists():
        splits = sorted(p.name for p in path.iterdir() if (p / "state.json").exists())
        where = f"its splits are {', '.join(splits)}: read one of them, such as {path / splits[0]}" if splits else ""
        raise FileError(f"{path} has no state.json: expected a dataset saved to disk; {where or 'get a new copy'}.")
    try:
        described = json.loads(state.read_text("utf8"))
        names = [entry["filename"] for entry in described["_data_files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{state} cannot be read ({error}): get a new copy.") from error
    if described.get("_indices_data_files") or not names:
        raise FileError(f"{path} holds a filtered or shuffled view: call flatten_indices() before save_to_disk().")
    lost = [name for name in names if not (path / str(name)).is_file()]
    if lost:
        raise FileError(f"{path} lacks {lost[0]}, which its state.json names: get a new copy.")
    return Joined([open_rows(path / name, options) for name in names], names)


@dataclass(frozen=True)
class _Message:
    kind: int
    start: int
    stop: int
    rows: int


class IpcSource:
    """The messages of an Arrow file or stream, read one batch at a time; batch sizes are taken as they come."""

    def __init__(self, path: Path, verify: bool = True) -> None:
        self.path = path
        with path.open("rb") as file:
            head = file.read(8)
            if head[:4] == FEATHER_1:
                raise FileError(f"{path} is a version 1 Feather file: write it again with a recent pyarrow.")
            messages = list(_messages(path, file, *_span(file, head[:6] == FILE_MAGIC)))
        if not messages or messages[0].kind != SCHEMA:
            raise FileError(f"{path} does not begin with an Arrow schema: it is damaged. Get a new copy.")
        self._before = [message for message in messages if message.kind != BATCH]
        self._batches = [message for message in messages if message.kind == BATCH]
        self._sums: dict[int, int] = {}
        self._checksum: Callable[..., int] = xxh3_64_intdigest
        if verify:
            self._sums = self._checks(messages)
        with path.open("rb") as file:
            self.schema = self._reader(file, None).schema
        self.metadata: dict[bytes, bytes] | None = self.schema.metadata
        if verify and META in (self.metadata or {}) and not self._sums:
            raise damaged(path, "its end, where the checksums were,")
        self.rows = sum(batch.rows for batch in self._batches)

    def tables(self, start: int, stop: int, size: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Read the batches that hold the rows, and cut or gather them to the size asked for."""
        names = self.schema.names if columns is None else columns
        schema = pa.schema([self.schema.field(name) for name in names])
        wanted, skipped = pieces_with([batch.rows for batch in self._batches], start, stop)
        batches = self._read([self._batches[i] for i in wanted], names)
        yield from regrouped(batches, start - skipped, stop - skipped, size, schema)

    def _read(self, batches: list[_Message], names: list[str]) -> Iterator[pa.RecordBatch]:
        with self.path.open("rb") as file:
            for message in batches:
                batch = self._reader(file, message).read_next_batch()
                batch.validate(full=True)
                if batch.num_rows != message.rows:
                    raise FileError(f"{self.path} has a damaged batch of {message.rows} rows: get a new copy.")
                yield batch.select(names)

    def _reader(self, file: BinaryIO, batch: _Message | None) -> Any:
        """Open the schema, the dictionaries and one batch as a stream of their own."""
        messages = self._before if batch is None else [*self._before, batch]
        ends = np.cumsum([0, *(message.stop - message.start for message in messages)]).tolist()
        stream = np.empty(ends[-1], np.uint8)
        for message, first, last in zip(messages, ends, ends[1:], strict=False):
            self._read_into(stream[first:last], file, message)
        return pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(stream)))

    def _read_into(self, out: np.ndarray, file: BinaryIO, message: _Message) -> None:
        file.seek(message.start)
        if file.readinto(out.data) < len(out):  # type: ignore[attr-defined]
            raise FileError(f"{self.path} ends before byte {message.stop:,}: it was cut short. Get a new copy.")
        if self._sums and self._sums.get(message.start) != self._checksum(out.data):
            raise damaged(self.path, f"what it holds from byte {message.start:,} on")

    def _checks(self, messages: list[_Message]) -> dict[int, int]:
        """Find the checksums that the last, empty batch of a file of ours carries."""
        last = messages[-1]
        if last.kind != BATCH or last.rows:
            return {}
        with self.path.open("rb") as file:
            _, found = self._reader(file, last).read_next_batch_with_custom_metadata()
        if found is None or CHECKS not in found:
            return {}
        note = read_checks(found[CHECKS].decode(errors="replace"), self.path)
        kind = "xxh3" if "xxh3" in note else "sums"
        if note.get("rows") != sum(message.rows for message in messages) or len(note[kind]) != len(messages) - 1:
            raise damaged(self.path, "the number of its rows")
        self._batches, self._checksum = self._batches[:-1], CHECKSUMS[kind]
        return {message.start: known for message, known in zip(messages[:-1], note[kind], strict=True)}


def _span(file: BinaryIO, is_file: bool) -> tuple[int, int]:
    """Return where the messages begin and end: all of a stream, or what a file has between its mark and its footer."""
    end = file.seek(0, 2)
    if not is_file:
        return 0, end
    file.seek(max(0, end - 10))
    length, mark = int.from_bytes(file.read(4), "little"), file.read()
    if mark != FILE_MAGIC:
        raise FileError(f"{file.name} has no footer: it is cut short or damaged. Get a new copy.")
    return 8, end - 10 - length


def _messages(path: Path, file: BinaryIO, at: int, end: int) -> Iterator[_Message]:
    """Find every message between two places by the headers alone."""
    while at + 4 <= end:
        file.seek(at)
        mark = file.read(4)
        size_at = at + (4 if mark == CONTINUATION else 0)  # files of before 2019 have no such mark
        file.seek(size_at)
        size = int.from_bytes(file.read(4), "little", signed=True)
        if size == 0:
            return
        message = _parsed(path, file.read(max(0, size)), at, size_at + 4 + size)
        if message.stop > end or message.stop <= at:
            raise FileError(f"{path} is cut short or damaged at byte {at:,}: get a new copy.")
        yield message
        at = message.stop


def _parsed(path: Path, header: bytes, start: int, body: int) -> _Message:
    """Read the kind of a message, the size of its body and its rows from the FlatBuffer that is its header."""
    try:
        table = struct.unpack_from("<I", header)[0]
        kind = struct.unpack_from("<B", header, _field(header, table, 1))[0]
        inner = _field(header, table, 2)
        size_at = _field(header, table, 3)
        size = struct.unpack_from("<q", header, size_at)[0] if size_at else 0
        rows = 0
        if kind == BATCH:
            inner += struct.unpack_from("<I", header, inner)[0]
            rows_at = _field(header, inner, 0)
            rows = struct.unpack_from("<q", header, rows_at)[0] if rows_at else 0
    except struct.error as error:
        raise FileError(f"{path} is damaged at byte {start:,}: get a new copy.") from error
    if size < 0 or rows < 0:
        raise FileError(f"{path} is damaged at byte {start:,}: get a new copy.")
    return _Message(kind, start, body + size, rows)


def _field(header: bytes, table: int, number: int) -> int:
    """Find where a field of a FlatBuffer table stands, or 0 when it is left at its default."""
    vtable = table - struct.unpack_from("<i", header, table)[0]
    if vtable < 0 or struct.unpack_from("<H", header, vtable)[0] < 6 + 2 * number:
        return 0
    offset = struct.unpack_from("<H", header, vtable + 4 + 2 * number)[0]
    return int(table + offset) if offset else 0


def _decoded(schema: pa.Schema) -> pa.Schema:
    """Return a schema without dictionaries: a file may hold only one for all chunks, and each chunk brings its own."""
    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in schema]
    return pa.schema([f.with_type(kind) for f, kind in zip(schema, kinds, strict=True)])


class Writer:
    """Writes chunks as record batches of an Arrow file, uncompressed, and their checksums at the end."""

    stream = False

    def __init__(self, path: Path, first: Chunk, early: Fingerprint) -> None:
        self.schema = _decoded(table_of(first).schema)
        self._path, self._rows = path, 0
        self._sink = pa.OSFile(str(path), "wb")
        self._metadata = meta(early)
        opener = pa.ipc.new_stream if self.stream else pa.ipc.new_file
        self._writer = opener(self._sink, self.schema.with_metadata(self._metadata))

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self._writer.write_table(conform(table_of(chunk), self.schema).replace_schema_metadata(self._metadata))
        self._rows += len(chunk)

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write checksums and footer. An Arrow schema stands at the front: the probe is that of the first chunk."""
        self._sink.flush()
        schema = self.schema.with_metadata(self._metadata)
        empty = pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
        if not self._rows:
            self._writer.write_batch(empty)  # brings the schema to the file
        note = dump_checked({"rows": self._rows, "xxh3": self._sums()})
        self._writer.write_batch(empty, custom_metadata={CHECKS: note.encode()})
        self._writer.close()
        self._sink.close()

    def close(self) -> None:
        """Close the file."""
        self._sink.close()

    def _sums(self) -> list[int]:
        sums = []
        with self._path.open("rb") as file:
            for message in _messages(self._path, file, 0 if self.stream else 8, file.seek(0, 2)):
                file.seek(message.start)
                sums.append(xxh3_64_intdigest(np.fromfile(file, np.uint8, message.stop - message.start).data))
        return sums


class FolderWriter(Writer):
    """Writes a folder that `datasets.load_from_disk` opens: an Arrow stream, and two descriptions of it."""

    stream = True
    FILE = "data-00000-of-00001.arrow"

    def __init__(self, path: Path, first: Chunk, early: Fingerprint) -> None:
        path.mkdir(exist_ok=True)
        super().__init__(path / self.FILE, first, early)

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write the checksums, and the two descriptions that datasets expects."""
        super().finish(fingerprint)
        state: dict[str, Any] = {
            "_data_files": [{"filename": self.FILE}],
            "_fingerprint": "relatent",
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": None,
        }
        self._path.with_name("state.json").write_text(json.dumps(state, indent=2), "utf8")
        self._path.with_name("dataset_info.json").write_text("{}", "utf8")
