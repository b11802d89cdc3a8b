"""One small module per format: ``open_rows(path, options)`` and a ``Writer(path, first, early)``; found by suffix."""

from __future__ import annotations

from importlib import import_module
from pathlib import PurePath
from typing import Any, Protocol

from relatent._array import suggest
from relatent._files import FileError
from relatent.spaces.chunks import Chunk
from relatent.spaces.fingerprint import Fingerprint

__all__ = ["FORMATS", "FormatWriter", "format_of", "module_of", "suffix_of"]

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npy": "npy",
    ".npz": "npz",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".safetensors": "safetensors",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".txt": "word_vectors",
    ".vec": "word_vectors",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "separated",
    ".tsv": "separated",
}
TEXT = (".txt", ".vec", ".jsonl", ".ndjson", ".csv", ".tsv")


class FormatWriter(Protocol):
    """What writes one format, chunk after chunk."""

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        ...

    def finish(self, fingerprint: Fingerprint) -> None:
        """Complete the file."""
        ...

    def close(self) -> None:
        """Close the file, finished or not."""
        ...


def format_of(path: str | PurePath) -> str:
    """Return the format of a path by its suffix.

    >>> format_of("old.parquet")
    'parquet'
    """
    suffix = suffix_of(path)
    if suffix not in FORMATS:
        given = f"ends in {suffix!r}" if suffix else "has no suffix"
        raise FileError(f"{path} {given}: expected a suffix that tells the format.{suggest(suffix, FORMATS)}")
    return FORMATS[suffix]


def suffix_of(path: str | PurePath) -> str:
    """Return the suffix that tells the format, in lower case; text may be gzipped."""
    name = PurePath(str(path)).name
    gzipped = name.endswith(tuple(f"{suffix}.gz" for suffix in TEXT))
    return PurePath(name.removesuffix(".gz") if gzipped else name).suffix.lower()


def module_of(name: str) -> Any:
    """Import the module of a format at its first use."""
    return import_module(f"relatent.spaces.io.formats.{name}")
