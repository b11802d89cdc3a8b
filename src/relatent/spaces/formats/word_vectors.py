"""Word vectors as text: word2vec and fastText (a line with rows and dimension first) and GloVe (no such line)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from relatent._atomic import FileError
from relatent.spaces.chunks import Chunk, Layout, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.formats.columns import Reading
from relatent.spaces.formats.lines import count_lines, line_blocks, open_text
from relatent.spaces.formats.sidecar import read_sidecar, refuse_columns, sidecar_path, write_sidecar

__all__ = ["WordRows", "Writer", "open_rows", "sidecars"]

# Room for the number of rows in the first line, which is known last.
DIGITS = 12


def sidecars(path: Path) -> list[Path]:
    """Name every file that may stand beside."""
    return [sidecar_path(path)]


def open_rows(path: Path, reading: Reading) -> Rows:
    """Open a file of word vectors."""
    return WordRows(path, reading)


class WordRows:
    """Words and their vectors, parsed block by block."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self._path = path
        beside = read_sidecar(path)
        self.fingerprint = beside.fingerprint
        self.dtype = reading.dtype or np.dtype(beside.dtype or np.float32)
        self.layout = Layout("vector", "word", ("word", "vector"))
        self._key_type = pa.int64() if beside.integer_keys else pa.string()
        self.schema = pa.schema([("word", self._key_type)])
        self._skip, dim = self._start()
        self.shape = (count_lines(path) - self._skip, dim)
        beside.check_rows(path, self.shape[0])
        if self._skip and self.shape[0] != self._told:
            raise FileError(f"{path} says it has {self._told} rows and has {self.shape[0]}: get a new copy.")

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Parse so many lines at a time."""
        for first, lines in line_blocks(self._path, self._skip, start, stop, size):
            words, vectors = self._parse(lines, first)
            table = pa.table({"word": pa.array(words, pa.string()).cast(self._key_type)})
            yield Chunk(first, vectors, table, self.layout)

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Read the words."""
        tables = [chunk.others for chunk in self.chunks(0, self.shape[0], 2**14)]
        table = pa.concat_tables(tables)
        return table if names is None else table.select(names)

    def _start(self) -> tuple[int, int]:
        """Tell whether the first line is a header, and the dimension."""
        with open_text(self._path) as file:
            first = file.readline().decode("utf8", "replace").split()
        if len(first) == 2 and first[0].isdigit() and first[1].isdigit():
            self._told = int(first[0])
            return 1, int(first[1])
        if not first:
            return 0, self.fingerprint.dim if self.fingerprint else 0
        # A word may itself hold spaces: the vector is what can be read as numbers from the right.
        return 0, self.fingerprint.dim if self.fingerprint else _numbers_at_end(first)

    def _parse(self, lines: list[str], first: int) -> tuple[list[str], np.ndarray]:
        """Parse a block at once; line by line when that fails, to find the line that is wrong."""
        dim = self.shape[1]
        parts = [line.rstrip(" ").partition(" ") for line in lines]
        numbers = np.empty(0)
        if all(rest.count(" ") == dim - 1 for _, _, rest in parts):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # what cannot be parsed is found below
                numbers = np.fromstring(" ".join(rest for _, _, rest in parts), dtype=np.float64, sep=" ")
        if numbers.size == len(lines) * dim:
            return [word for word, _, _ in parts], numbers.reshape(len(lines), dim).astype(self.dtype)
        rows = [self._parse_line(line, first + i) for i, line in enumerate(lines)]
        return [word for word, _ in rows], np.asarray([vector for _, vector in rows], dtype=self.dtype)

    def _parse_line(self, line: str, row: int) -> tuple[str, list[float]]:
        parts = line.rstrip(" ").rsplit(" ", self.shape[1])
        try:
            if len(parts) != self.shape[1] + 1:
                raise ValueError(f"{len(parts) - 1} numbers")
            return parts[0], [float(value) for value in parts[1:]]
        except ValueError as error:
            raise FileError(
                f"{self._path} cannot be read in row {row} ({error}): expected a word and {self.shape[1]} numbers. "
                "Mend or drop that line."
            ) from error


def _numbers_at_end(parts: list[str]) -> int:
    count = 0
    for part in reversed(parts[1:]):
        try:
            float(part)
        except ValueError:
            break
        count += 1
    return count


class Writer:
    """Writes a word and its numbers per line, each number as short as it can be without changing it."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        layout = first.layout
        refuse_columns([name for name in first.others.column_names if name != layout.key], path, "words and vectors")
        self._path, self._first = path, first
        self._file = path.open("wb")
        self._header = path.suffix == ".vec"
        self._rows = 0
        if self._header:
            self._file.write(self._first_line())

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        stop = self._rows + len(chunk)
        keys = range(self._rows, stop) if chunk.keys is None else chunk.keys.to_pylist()
        words = [self._word(key, self._rows + i) for i, key in enumerate(keys)]
        numbers = chunk.vectors.astype(str)
        lines = [f"{word} {' '.join(row)}\n" for word, row in zip(words, numbers.tolist(), strict=True)]
        self._file.write("".join(lines).encode())
        self._rows = stop

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write the number of rows into the first line, and the fingerprint beside."""
        if self._header:
            self._file.seek(0)
            self._file.write(self._first_line())
        self._file.flush()
        write_sidecar(self._path, fingerprint, self._first, self._rows)

    def release(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _first_line(self) -> bytes:
        return f"{self._rows:0{DIGITS}d} {self._first.vectors.shape[1]}\n".encode()

    def _word(self, key: object, row: int) -> str:
        word = str(key)
        if not word.strip() or "\n" in word or "\r" in word or word != word.strip(" "):
            raise FileError(
                f"The key {word!r} of row {row} cannot stand in {self._path.name}: expected text without line ends "
                "or outer spaces. Write Parquet instead."
            )
        return word
