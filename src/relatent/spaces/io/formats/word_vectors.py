"""Word vectors as text: word2vec and fastText (a line with rows and dimension first) and GloVe (no such line)."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from relatent._files import FileError
from relatent.spaces.chunks import Chunk, Layout
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.columns import ReadOptions, too_large
from relatent.spaces.io.lines import TextRows, TextWriter, line_blocks, open_text
from relatent.spaces.io.lines import merge_sidecars as merge_sidecars

# Space for the number of rows in the first line, which is known last.
DIGITS = 12
# The dimension of a file without a header is what most of its first rows have.
LOOK_AHEAD = 100


class WordRows(TextRows):
    """Words and their vectors, parsed block by block."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        file = self._scan(path, options)
        self._ours = file.dtype is not None  # it is known to be as we wrote it
        self.layout = Layout("vector", "word", ("word", "vector"))
        self._key_type = pa.int64() if file.integer_keys else pa.string()
        self.schema = pa.schema([("word", self._key_type)])
        header, dim = self._start()
        self._skip = 0 if header is None else 1
        self.shape = (file.lines - self._skip, dim)
        if header not in (None, self.shape[0]):
            raise FileError(f"{path} says it has {header} rows and has {self.shape[0]}: get a new copy.")

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Parse the rows from start to stop, ``size`` at a time."""
        for first, lines in line_blocks(self._path, self._skip, start, stop, size):
            words, vectors = self._parse(lines, first)
            table = pa.table({"word": pa.array(words, pa.string()).cast(self._key_type)})
            yield Chunk(first, vectors, table, self.layout)

    def _start(self) -> tuple[int | None, int]:
        """Return the number of rows that the first line states, if it is a header, and the dimension."""
        with open_text(self._path) as file:
            lines = [line.decode("utf8", "replace").split() for line in islice(file, LOOK_AHEAD)]
        known = self.fingerprint.dim if self.fingerprint else None
        if lines and len(lines[0]) == 2 and lines[0][0].isdigit() and lines[0][1].isdigit():
            return int(lines[0][0]), int(lines[0][1])
        if known is not None or not lines:
            return None, known or 0
        # A word may itself hold spaces: the vector is what can be read as numbers from the right.
        return None, Counter(_numbers_at_end(line) for line in lines).most_common(1)[0][0]

    def _parse(self, lines: list[str], first: int) -> tuple[list[str], np.ndarray]:
        """Parse a block at once; line by line when that fails, to find the line that is wrong."""
        dim = self.shape[1]
        parts = [line.rstrip(" ").partition(" ") for line in lines]
        numbers = np.empty(0)
        if all(rest.count(" ") == dim - 1 for _, _, rest in parts):
            with warnings.catch_warnings(), suppress(ValueError):  # what cannot be parsed is found below
                warnings.simplefilter("ignore", DeprecationWarning)
                numbers = np.fromstring(" ".join(rest for _, _, rest in parts), dtype=np.float64, sep=" ")
        words = [word for word, _, _ in parts]
        if numbers.size != len(lines) * dim:
            rows = [self._parse_line(line, first + i) for i, line in enumerate(lines)]
            words, numbers = [word for word, _ in rows], np.asarray([vector for _, vector in rows])
        return words, self._converted(numbers.reshape(len(lines), dim), words, first)

    def _converted(self, numbers: np.ndarray, words: list[str], first: int) -> np.ndarray:
        with np.errstate(over="ignore"):
            vectors = numbers.astype(self.dtype)
        lost = ~np.isfinite(vectors).all(axis=1) & np.isfinite(numbers).all(axis=1)
        if lost.any():
            row = int(np.argmax(lost))
            raise too_large(self._path, self.dtype, first + row, f" ({words[row]!r})")
        return vectors

    def _parse_line(self, line: str, row: int) -> tuple[str, list[float]]:
        parts = line.rstrip(" ").rsplit(" ", self.shape[1])
        try:
            if len(parts) != self.shape[1] + 1:
                raise ValueError(f"{len(parts) - 1} numbers")
            numbers = [float(value) for value in parts[1:]]
            more = _numbers_at_end(parts[0].split(" "))
            if more and not self._ours:  # in a file of ours, the word is known to end in a number
                raise ValueError(f"{self.shape[1] + more} numbers")
            return parts[0], numbers
        except ValueError as error:
            raise FileError(
                f"{self._path} cannot be read in row {row} ({error}): expected a word and {self.shape[1]} numbers. "
                "Fix or drop that line."
            ) from error


open_rows = WordRows


def _numbers_at_end(parts: list[str]) -> int:
    count = 0
    with suppress(ValueError):
        for part in reversed(parts[1:]):
            float(part)
            count += 1
    return count


class Writer(TextWriter):
    """Writes a word and its numbers per line, each number as short as it can be without changing it."""

    def __init__(self, path: Path, first: Chunk, early: Fingerprint) -> None:
        lost = [name for name in first.others.column_names if name != first.layout.key]
        if lost:
            raise FileError(
                f"{path.name} holds words and vectors and cannot keep the columns {', '.join(lost)}: "
                "write Parquet instead, or leave them out with others=False."
            )
        super().__init__(path, first, early)
        self._header = path.suffix == ".vec"
        if self._header:
            self._file.write(self._first_line())

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        stop = self._rows + len(chunk)
        keys = range(self._rows, stop) if chunk.keys is None else chunk.keys.to_pylist()
        words = [self._word(key, self._rows + i) for i, key in enumerate(keys)]
        numbers = chunk.vectors.astype(str).tolist()
        lines = [f"{word} {' '.join(row)}\n" for word, row in zip(words, numbers, strict=True)]
        self._file.write("".join(lines).encode())
        self._rows = stop

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write the number of rows into the first line, and the sidecar."""
        if self._header:
            self._file.seek(0)
            self._file.write(self._first_line())
        super().finish(fingerprint)

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
