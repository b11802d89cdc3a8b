"""Arrow and Feather files, and the folders that Hugging Face datasets leave on disk, which are Arrow streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from relatent._atomic import FileError
from relatent.spaces.chunks import Chunk, Joined, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.formats.columns import Reading, conform, meta, table_of
from relatent.spaces.formats.mapped import MappedFile
from relatent.spaces.formats.tables import TableRows, regrouped

__all__ = ["FolderWriter", "IpcSource", "Writer", "open_folder", "open_rows"]

FILE_MAGIC = b"ARROW1"
FEATHER_1 = b"FEA1"


def open_rows(path: Path, reading: Reading) -> Rows:
    """Open an Arrow file or stream, or a Feather file."""
    return TableRows(IpcSource(path), reading)


def open_folder(path: Path, reading: Reading) -> Rows:
    """Open a folder that `Dataset.save_to_disk` wrote; one split of a `DatasetDict`."""
    state = path / "state.json"
    if not state.exists():
        splits = sorted(p.name for p in path.iterdir() if (p / "state.json").exists())
        where = f"its splits are {', '.join(splits)}: read one of them, such as {path / splits[0]}" if splits else ""
        raise FileError(f"{path} has no state.json: expected a dataset saved to disk; {where or 'get a new copy'}.")
    try:
        told = json.loads(state.read_text("utf8"))
        names = [entry["filename"] for entry in told["_data_files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{state} cannot be read ({error}): get a new copy.") from error
    if told.get("_indices_data_files") or not names:
        raise FileError(f"{path} holds a filtered or shuffled view: call flatten_indices() before save_to_disk().")
    return Joined([open_rows(path / name, reading) for name in names], names)


class IpcSource:
    """An Arrow file, memory-mapped; batch sizes are taken as they come."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mapped = MappedFile(path)
        if self._mapped.part(0, 4) == FEATHER_1:
            raise FileError(f"{path} is a version 1 Feather file: write it anew with a recent pyarrow.")
        self._is_file = self._mapped.part(0, 6) == FILE_MAGIC
        with self._open() as reader:
            self.schema = reader.schema
        self.metadata: dict[bytes, bytes] | None = self.schema.metadata
        self.rows = self._count()

    def tables(self, start: int, stop: int, size: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Give slices of the mapped file, and let its pages go behind them."""
        names = self.schema.names if columns is None else columns
        schema = pa.schema([self.schema.field(name) for name in names])
        batches = (batch.select(names) for batch in self._batches(names))
        for table in regrouped(batches, start, stop, size, schema):
            yield table
            self._mapped.forget()

    def _batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        with self._open(names) as reader:
            if self._is_file:
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                yield from reader

    def _open(self, names: list[str] | None = None) -> Any:
        options = pa.ipc.IpcReadOptions()
        if self._is_file and names is not None and names != self.schema.names:
            # Only these columns are decompressed then; but they are copied, so not when all are wanted.
            options.included_fields = [self.schema.get_field_index(name) for name in names]
        opener = pa.ipc.open_file if self._is_file else pa.ipc.open_stream
        return opener(self._mapped.reader(), options=options)

    def _count(self) -> int:
        """Count the rows, from the metadata alone where the format has it."""
        if self._is_file:
            from pyarrow.dataset import dataset

            return int(dataset(str(self.path), format="ipc").count_rows())
        return sum(batch.num_rows for batch in self._batches(self.schema.names))


class Writer:
    """Writes chunks as record batches of an Arrow file, uncompressed so that it can be memory-mapped."""

    stream = False

    def __init__(self, path: Path, first: Chunk, early: Fingerprint) -> None:
        self.schema = table_of(first).schema
        self._sink = pa.OSFile(str(path), "wb")
        self._metadata = meta(early)
        opener = pa.ipc.new_stream if self.stream else pa.ipc.new_file
        self._writer = opener(self._sink, self.schema.with_metadata(self._metadata))

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self._writer.write_table(conform(table_of(chunk), self.schema).replace_schema_metadata(self._metadata))

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write the footer. An Arrow schema stands at the front: the probe is that of the first chunk."""
        self._writer.close()
        self._sink.close()

    def release(self) -> None:
        """Let go of the file."""
        self._sink.close()


class StreamWriter(Writer):
    """Writes the Arrow stream format, as datasets folders hold it."""

    stream = True


class FolderWriter:
    """Writes a folder that `datasets.load_from_disk` opens."""

    FILE = "data-00000-of-00001.arrow"

    def __init__(self, path: Path, first: Chunk, early: Fingerprint) -> None:
        path.mkdir(exist_ok=True)
        self._path = path
        self._writer = StreamWriter(path / self.FILE, first, early)

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self._writer.write(chunk)

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write the two descriptions that datasets expects beside the data."""
        self._writer.finish(fingerprint)
        state: dict[str, Any] = {
            "_data_files": [{"filename": self.FILE}],
            "_fingerprint": "relatent",
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": None,
        }
        (self._path / "state.json").write_text(json.dumps(state, indent=2), "utf8")
        (self._path / "dataset_info.json").write_text("{}", "utf8")

    def release(self) -> None:
        """Let go of the file."""
        self._writer.release()
