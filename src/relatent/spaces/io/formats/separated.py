"""CSV and TSV: coordinates in columns of their own, or a column of lists such as ``[0.1, 0.2]``, beside others.

We write lists, which PostgreSQL and JSON read too. In a .tsv, quotes are characters like others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from relatent._files import FileError, readable
from relatent.spaces.chunks import Chunk, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.columns import KEY_NAMES, ReadOptions, conform, meta, table_of
from relatent.spaces.io.coordinates import numbered_columns
from relatent.spaces.io.lines import TextWriter, open_text, scan_text, write_sidecar
from relatent.spaces.io.lines import merge_sidecars as merge_sidecars
from relatent.spaces.io.tables import TableRows, regrouped

# Rows that tell whether there is a header, and which columns hold lists.
LOOK_AHEAD = 100
# The types of columns are those of the first block; no row may be longer.
BLOCK_BYTES = 2**24
# What pandas calls an index without a name. In CSV, its header is empty.
INDEX = "__index_level_0__"
LISTS = pa.list_(pa.float64())
# The types of other columns that come back from text as they were.
KEPT = (
    *(pa.types.is_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_boolean),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_date, pa.types.is_null),
)


def open_rows(path: Path, options: ReadOptions) -> Rows:
    """Open a file of separated values."""
    return TableRows(SeparatedSource(path, options), options)


class SeparatedSource:
    """A file of separated values, parsed by Arrow block by block; texts that are lists of numbers become lists."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        file = scan_text(path, options.verify)
        self.dtype = options.dtype or np.dtype(file.dtype or np.float32)
        self._parsing = _parsing(path)
        with readable(path):
            cells = self._first_cells()
            self._skip, names = _header(cells)
            _refuse_repeated(path, names)
            cells = cells[self._skip :]
            self._types = dict.fromkeys(names, pa.string())
            self._types = self._find_types(cells, file.schema, options) if cells or file.schema else self._types
            self.rows = sum(batch.num_rows for batch in self._batches(names[-1:])) if cells else 0
        about = {b"pandas": b'{"index_columns": ["%s"]}' % INDEX.encode()} if names[0] == INDEX else {}
        self.metadata: dict[bytes, bytes] | None = about | (meta(file.fingerprint) if file.fingerprint else {})
        self.schema = pa.schema(self._types, self.metadata)

    def tables(self, start: int, stop: int, size: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """Parse from the first row on, and yield rows start to stop."""
        names = self.schema.names if columns is None else columns
        schema = pa.schema([(name, _as_parsed(self._types[name])) for name in names])
        for table in regrouped(self._batches(names) if self.rows else (), start, stop, size, schema):
            found = {name: self._converted(table.column(name), name, start) for name in names}
            yield pa.table(found, pa.schema([self.schema.field(name) for name in names]))
            start += len(table)

    def _first_cells(self) -> list[list[str]]:
        """Read the first rows as texts, the header among them."""
        with self._open(pa_csv.ReadOptions(autogenerate_column_names=True), {}) as reader:
            names = reader.schema.names
        with self._open(pa_csv.ReadOptions(column_names=names), dict.fromkeys(names, pa.string())) as reader:
            rows = reader.read_next_batch().slice(0, LOOK_AHEAD + 1).to_pylist()
        return [[value or "" for value in row.values()] for row in rows]

    def _find_types(
        self, cells: list[list[str]], known: pa.Schema | None, options: ReadOptions
    ) -> dict[str, pa.DataType]:
        """Return the recorded types, else those of the first block: keys are texts, so that 007 is not 7."""
        if known is not None:
            return {name: known.field(name).type if name in known.names else LISTS for name in self._types}
        columns = {name: [row[i] for row in cells] for i, name in enumerate(self._types)}
        numbers = pa.schema([(name, pa.float64()) for name, values in columns.items() if _kind(values[0]) == "number"])
        fixed = {name: pa.float64() for group in numbered_columns(numbers).values() for name in group}
        fixed |= {name: LISTS for name, values in columns.items() if {_kind(v) for v in values if v} == {"list"}}
        fixed |= {name: pa.string() for name in columns if name == options.key or name.lower() in KEY_NAMES}
        with self._open(self._reading(), {name: _as_parsed(kind) for name, kind in fixed.items()}) as reader:
            return {f.name: pa.string() if pa.types.is_null(f.type) else f.type for f in reader.schema} | fixed

    def _reading(self) -> pa_csv.ReadOptions:
        return pa_csv.ReadOptions(column_names=list(self._types), skip_rows=self._skip)

    def _batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        types = {name: _as_parsed(kind) for name, kind in self._types.items()}
        with self._open(self._reading(), types, names) as reader:
            yield from reader

    @contextmanager
    def _open(
        self, reading: pa_csv.ReadOptions, types: dict[str, pa.DataType], names: list[str] | None = None
    ) -> Iterator[Any]:
        reading.use_threads, reading.block_size = False, BLOCK_BYTES  # in order, so that errors tell the row
        converting = pa_csv.ConvertOptions(
            include_columns=names,
            column_types=types,
            null_values=[""],
            strings_can_be_null=self._parsing.quote_char is not False,
            quoted_strings_can_be_null=False,
        )
        try:
            with open_text(self.path) as file, pa_csv.open_csv(file, reading, self._parsing, converting) as reader:
                yield reader
        except pa.ArrowInvalid as error:
            if "conversion error" not in str(error):
                raise
            raise FileError(
                f"{self.path} has a value of another type than the first rows of its column ({error}): expected one "
                "type throughout. Fix or drop that line."
            ) from error

    def _converted(self, column: pa.ChunkedArray, name: str, row: int) -> pa.Array | pa.ChunkedArray:
        if self._types[name] != LISTS:
            return column
        texts = column.combine_chunks()
        try:
            return _parsed(texts)
        except (pa.ArrowInvalid, ValueError):
            wrong = next(i for i, text in enumerate(texts) if not _parses(text))
        raise FileError(
            f"{self.path} has {_shortened(texts[wrong].as_py())} under {name!r} in row {row + wrong}: expected a list "
            "of numbers such as [0.1, 0.2]. Fix or drop that line."
        )


def _parsing(path: Path) -> pa_csv.ParseOptions:
    """Find the delimiter: a tab in a .tsv, else the comma unless the first line has only semicolons or tabs."""
    if ".tsv" in path.suffixes:
        return pa_csv.ParseOptions(delimiter="\t", quote_char=False)
    with readable(path), open_text(path) as file:
        line = next(islice(file, 1), b"")
    delimiter = next((mark for mark in ",;\t" if mark.encode() in line), ",")
    return pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _header(cells: list[list[str]]) -> tuple[int, list[str]]:
    """Return the number of lines before the first row, 1 or 0, and the names of the columns."""
    if not cells:
        return 1, []
    first, second = cells[0], cells[1] if len(cells) > 1 else None
    kinds = [_kind(cell) for cell in first]
    if second is None:
        is_header = set(kinds) == {"text"}
    else:  # where the second line has values, most of a header are names
        names = [kind == "text" for kind, cell in zip(kinds, second, strict=True) if _kind(cell) != "text"]
        is_header = 2 * sum(names) >= max(len(names), 1) or not names or _counts(first, second)
    if is_header:
        return 1, [name or (f"column{i}" if i else INDEX) for i, name in enumerate(first)]
    return 0, _names(cells, kinds)


def _counts(first: list[str], second: list[str]) -> bool:
    """Return whether the numbers of the first line count up from 0 or 1, as the columns of a data frame do."""
    places = [i for i, cell in enumerate(first) if _kind(cell) == "number"]
    given = [first[i] for i in places]
    counted = any(given == [str(i + start) for i in range(len(given))] for start in (0, 1))
    return len(given) > 1 and counted and given != [second[i] for i in places]


def _names(cells: list[list[str]], kinds: list[str]) -> list[str]:
    """Name columns without a header: the first of texts, or of different integers before other numbers, has keys."""
    columns = list(zip(*cells, strict=True))
    keys = kinds.index("text") if "text" in kinds else None
    whole = [all(cell.lstrip("-").isdigit() for cell in column) for column in columns]
    if keys is None and whole[0] and not all(whole) and len(set(columns[0])) == len(cells):
        keys = 0
    numbers = (f"v{i}" for i in range(len(kinds)))
    named = {"list": "vector", "text": ""}
    return [
        "key" if i == keys else next(numbers) if kind == "number" else named.pop(kind, "") or f"column{i}"
        for i, kind in enumerate(kinds)
    ]


def _kind(cell: str) -> str:
    with suppress(ValueError):
        float(cell)
        return "number"
    return "list" if _is_list(cell) else "text"


def _refuse_repeated(path: Path, names: list[str]) -> None:
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise FileError(f"{path} has two columns {repeated[0]!r}: rename one of them.")


def _is_list(text: str) -> bool:
    return text.lstrip().startswith("[") and text.rstrip().endswith("]")


def _as_parsed(kind: pa.DataType) -> pa.DataType:
    return pa.string() if kind == LISTS else kind


def _parsed(texts: pa.StringArray) -> pa.ListArray:
    """Return texts of lists as lists; their numbers are separated by commas or, as NumPy prints them, by spaces."""
    if not all(_is_list(text) for text in texts.drop_null().to_pylist()):
        raise ValueError("no list")
    inner = pc.utf8_trim(texts, " []\r\n")
    commas = pc.any(pc.match_substring(inner, ",")).as_py()
    parts = pc.split_pattern(inner, ",") if commas else pc.utf8_split_whitespace(inner)
    numbers = pc.utf8_trim_whitespace(parts.flatten()).cast(pa.float64())
    return pa.ListArray.from_arrays(parts.offsets, numbers, mask=texts.is_null())


def _parses(text: pa.Scalar) -> bool:
    with suppress(pa.ArrowInvalid, ValueError):
        return bool(_parsed(pa.array([text.as_py()], pa.string())))
    return False


def _shortened(text: str | None, limit: int = 60) -> str:
    return repr(text if text is None or len(text) <= limit else f"{text[:limit]} …")


class Writer(TextWriter):
    """Writes a header and one line per row; the sidecar records the types of the other columns."""

    def __init__(self, path: Path, first: Chunk, early: Fingerprint) -> None:
        lost = [f.name for f in first.others.schema if not any(fits(f.type) for fits in KEPT)]
        if lost:
            raise FileError(
                f"{path.name} holds numbers and texts and cannot keep the columns {', '.join(lost)}: write Parquet "
                "instead, or leave them out with others=False."
            )
        super().__init__(path, first, early)
        self._tabs = path.suffix == ".tsv"
        self._schema = first.others.schema
        names = table_of(first).schema.names
        quoted = [name if self._tabs else '"' + name.replace('"', '""') + '"' for name in names]
        self._file.write((("\t" if self._tabs else ",").join(quoted) + "\n").encode())

    def write(self, chunk: Chunk) -> None:
        """Append a chunk, each number as short as it can be without changing it."""
        self._check_finite(chunk)
        others = conform(chunk.others, self._schema) if chunk.others.column_names else chunk.others
        table = table_of(chunk)
        lists = [f"[{', '.join(numbers)}]" for numbers in chunk.vectors.astype(str).tolist()]
        columns = {name: others.column(name) for name in others.column_names} | {chunk.layout.vector: pa.array(lists)}
        self._append(pa.table({name: columns[name] for name in table.schema.names}))
        self._rows += len(chunk)

    def _append(self, table: pa.Table) -> None:
        if self._tabs and any(table.column(f.name).null_count for f in table.schema if f.type == pa.string()):
            raise FileError(f"{self._path.name} cannot tell a missing text from an empty one: write .csv or Parquet.")
        style = "none" if self._tabs else "needed"
        options = pa_csv.WriteOptions(include_header=False, delimiter="\t" if self._tabs else ",", quoting_style=style)
        try:
            pa_csv.write_csv(table, self._file, options)
        except pa.ArrowInvalid as error:
            raise FileError(
                f"{self._path.name} cannot hold texts with tabs, quotes or line ends: write .csv or Parquet."
            ) from error

    def finish(self, fingerprint: Fingerprint) -> None:
        """Complete the file, and write its sidecar."""
        self._file.flush()
        write_sidecar(self._path, fingerprint, self._first, self._schema)
