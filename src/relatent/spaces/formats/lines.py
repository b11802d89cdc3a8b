"""Files of one row per line, plain or gzipped: counted once, read in blocks of lines."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO

from relatent._atomic import FileError

__all__ = ["count_lines", "line_blocks", "open_text"]


def open_text(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacking it on the way when its name ends in .gz."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def count_lines(path: Path) -> int:
    """Count the lines that hold something after the last line end, too."""
    lines, last = 0, b"\n"
    with open_text(path) as file:
        while block := file.read(2**22):
            lines += block.count(b"\n")
            last = block[-1:]
    return lines + (last != b"\n")


def line_blocks(path: Path, skip: int, start: int, stop: int, size: int) -> Iterator[tuple[int, list[str]]]:
    """Give lines start to stop behind the skipped ones, with the number of the first, size at a time."""
    with open_text(path) as file:
        lines = islice(file, skip + start, skip + stop)
        for first in range(start, max(stop, start + 1), size):
            block = [_text(path, first + i, line) for i, line in enumerate(islice(lines, min(size, stop - first)))]
            yield first, block


def _text(path: Path, row: int, line: bytes) -> str:
    try:
        return line.decode("utf8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not UTF-8 in row {row} ({error}): convert it, or get a new copy.") from error
