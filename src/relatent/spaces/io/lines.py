"""Files of one row per line, plain or gzipped: read in blocks of lines, with a record in a sidecar beside.

The sidecar says what text cannot: the fingerprint, the dtype, the type of the keys, and the CRC-32 of the file that it
describes. When a file is replaced, the sidecar lands first and describes the old file as well as the new one. Which
of the two is there decides; so the moment at which the file itself is replaced is the moment at which both are.
"""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from relatent._files import FileError, dump_checked, exists_already, load_checked, unverified
from relatent.spaces.chunks import Chunk
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.columns import ReadOptions

SUFFIX = ".relatent.json"
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class TextFile:
    """A file of text: its lines, its checksum, and what its sidecar says of it, which is nothing without one."""

    lines: int
    size: int
    crc: int
    fingerprint: Fingerprint | None = None
    dtype: str | None = None
    integer_keys: bool = False
    types: str | None = None

    @property
    def schema(self) -> pa.Schema | None:
        """The types of all columns but the vectors, where the format needs a record of them."""
        return None if self.types is None else pa.ipc.read_schema(pa.py_buffer(b64decode(self.types)))


def open_text(path: Path) -> IO[bytes]:
    """Open a file for reading behind its byte order mark, unpacking it when its name ends in .gz."""
    file: Any = gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115 (the caller closes)
    if file.read(3) != BOM:
        file.seek(0)
    return file  # type: ignore[no-any-return]


def scan_text(path: Path, verify: bool = True) -> TextFile:
    """Read a file once, to count its lines and to find the record that describes it."""
    found = _scanned(path)
    beside = sidecar_path(path)
    if not beside.exists():
        beside = sidecar_path(path.resolve())  # of a link, what is beside its target
    if not beside.exists():
        return found
    versions = _versions(beside)
    same = [v for v in versions if (v["size"], v["crc"]) == (found.size, found.crc)]
    if verify and not same:
        raise unverified(
            f"{path} has changed since it was written: {found.lines:,} lines, expected {versions[0]['lines']:,}, or "
            f"other numbers in them. It is cut short, damaged or was edited. Get a new copy, delete {beside.name} if "
            "the change is intended"
        )
    about = (same or versions)[0]
    if about["fingerprint"] is None:
        return found
    known = Fingerprint.from_json(json.dumps(about["fingerprint"]))
    types = about.get("types")
    return replace(found, fingerprint=known, dtype=about["dtype"], integer_keys=about["integer_keys"], types=types)


def _scanned(path: Path) -> TextFile:
    lines = size = crc = 0
    last = b"\n"
    with open_text(path) as file:
        while block := file.read(2**20):
            lines += block.count(b"\n")
            size, crc, last = size + len(block), zlib.crc32(block, crc), block[-1:]
    return TextFile(lines + (last != b"\n"), size, crc)


def line_blocks(path: Path, skip: int, start: int, stop: int, size: int) -> Iterator[tuple[int, list[str]]]:
    """Yield lines start to stop behind the skipped ones, with the number of the first, size at a time."""
    with open_text(path) as file:
        lines = islice(file, skip + start, skip + stop)
        for first in range(start, max(stop, start + 1), size):
            block = [_text(path, first + i, line) for i, line in enumerate(islice(lines, min(size, stop - first)))]
            if len(block) < min(size, stop - first):
                raise FileError(f"{path} ends after row {first + len(block)}: it was cut short. Get a new copy.")
            yield first, block


def _text(path: Path, row: int, line: bytes) -> str:
    try:
        return line.decode("utf8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is not UTF-8 in row {row} ({error}): convert it, or get a new copy.") from error


class TextRows:
    """Rows that are parsed block by block: what formats of text share."""

    shape: tuple[int, int]

    def _scan(self, path: Path, options: ReadOptions) -> TextFile:
        file = scan_text(path, options.verify)
        self._path, self.fingerprint = path, file.fingerprint
        self.dtype = options.dtype or np.dtype(file.dtype or np.float32)
        return file

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Parse the rows from start to stop, ``size`` at a time."""
        raise NotImplementedError

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Read every column but the vectors, or some of them."""
        tables = [chunk.others for chunk in self.chunks(0, self.shape[0], 2**14)]
        table = pa.concat_tables(tables, promote_options="permissive")
        return table if names is None else table.select(names)


class TextWriter:
    """Writes a file of text, and its sidecar at the end: what formats of text share."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        self._path, self._first, self._rows = path, first, 0
        self._file = path.open("wb")

    def finish(self, fingerprint: Fingerprint) -> None:
        """Complete the file, and write its sidecar."""
        self._file.flush()
        write_sidecar(self._path, fingerprint, self._first)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _check_finite(self, chunk: Chunk) -> None:
        finite = np.isfinite(chunk.vectors).all(axis=1)
        if not finite.all():
            row = self._rows + int(np.argmin(finite))
            raise FileError(f"Row {row} holds NaN or infinity, which JSON cannot: fix it, or write Parquet.")


def sidecar_path(path: Path) -> Path:
    """Return the path of the sidecar of a file."""
    return path.with_name(path.name + SUFFIX)


def write_sidecar(path: Path, fingerprint: Fingerprint, first: Chunk, schema: pa.Schema | None = None) -> None:
    """Record a file that is complete: its checksum, the fingerprint, the dtype and types."""
    integer = first.keys is not None and bool(pa.types.is_integer(first.keys.type))
    types = None if schema is None else b64encode(schema.serialize()).decode()
    found = replace(_scanned(path), dtype=str(first.vectors.dtype), integer_keys=integer, types=types)
    version = asdict(found) | {"fingerprint": json.loads(fingerprint.to_json())}
    sidecar_path(path).write_text(dump_checked({"versions": [version]}), "utf8")


def merge_sidecars(new: Path, path: Path, overwrite: bool) -> None:
    """Let the sidecar of a new file describe the old file too, as long as that is there."""
    old: list[dict[str, Any]] = []
    if sidecar_path(path).exists():
        try:
            old = _versions(sidecar_path(path))
        except FileError as error:
            if not overwrite:
                raise exists_already(sidecar_path(path)) from error
    if path.is_file():
        found = asdict(_scanned(path))
        old = [v for v in old if (v["size"], v["crc"]) == (found["size"], found["crc"])] or [found]
        note = dump_checked({"versions": [*_versions(sidecar_path(new)), *old]})
        sidecar_path(new).write_text(note, "utf8")


def _versions(beside: Path) -> list[dict[str, Any]]:
    try:
        versions = load_checked(beside.read_text("utf8"))["versions"]
        for version in versions:
            np.dtype(version["dtype"])
        return list(versions)
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{beside} cannot be read ({error}): delete it, or get a new copy.") from error
