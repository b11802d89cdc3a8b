"""Remote paths such as s3://bucket/old.parquet, through fsspec (extra: remote)."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from relatent._atomic import FileError
from relatent._extras import needs
from relatent.spaces.chunks import Joined, Rows
from relatent.spaces.formats import format_of, module_of
from relatent.spaces.formats.columns import Reading
from relatent.spaces.formats.errors import readable

__all__ = ["is_remote", "open_remote", "uploaded"]


def is_remote(path: Any) -> bool:
    """Tell whether a path names a protocol.

    >>> is_remote("s3://bucket/old.parquet"), is_remote("old.parquet")
    (True, False)
    """
    return "://" in str(path)


def open_remote(path: str, reading: Reading) -> Rows:
    """Open remote files: Parquet is read in place, other formats are fetched to a folder that goes with the rows."""
    fs, inside = needs("fsspec.core", "remote", f"read {path}").url_to_fs(path)
    with readable(path):
        names = _names(fs, inside, path)
        parts = [_open_one(fs, name, reading) for name in names]
    return parts[0] if len(parts) == 1 else Joined(parts, names)


def _names(fs: Any, inside: str, path: str) -> list[str]:
    found = fs.glob(inside) if any(mark in inside for mark in "*?[") else [inside]
    if found == [inside] and fs.isdir(inside):
        found = [name for name in fs.find(inside) if not PurePosixPath(name).name.startswith((".", "_"))]
    if not found:
        raise FileError(f"Nothing is at {path}: check the path.")
    return sorted(found)


def _open_one(fs: Any, name: str, reading: Reading) -> Rows:
    kind = format_of(name)
    if kind == "parquet":
        rows: Rows = module_of(kind).open_rows(_Remote(fs, name), reading)
        return rows
    folder = Path(tempfile.mkdtemp(prefix="relatent-"))
    base = PurePosixPath(name)
    for other in fs.glob(f"{base.parent}/{base.stem}*"):  # the file, and what stands beside it
        fs.get_file(other, str(folder / PurePosixPath(other).name))
    rows = module_of(kind).open_rows(folder / base.name, reading)
    weakref.finalize(rows, shutil.rmtree, folder, ignore_errors=True)
    return rows


class _Remote:
    """A remote file that is opened anew for each pass."""

    def __init__(self, fs: Any, name: str) -> None:
        self._fs, self.path = fs, name

    def open(self) -> Any:
        """Open for reading."""
        return self._fs.open(self.path, "rb")


@contextmanager
def uploaded(path: str) -> Iterator[Path]:
    """Give a local path to write to, and upload it (and what was written beside it) at the end, itself last."""
    fs, inside = needs("fsspec.core", "remote", f"write {path}").url_to_fs(path)
    name = PurePosixPath(inside).name
    with tempfile.TemporaryDirectory(prefix="relatent-") as folder:
        yield Path(folder) / name
        parent = str(PurePosixPath(inside).parent)
        fs.makedirs(parent, exist_ok=True)
        for file in sorted(Path(folder).rglob("*"), key=lambda f: f.name == name):
            if file.is_file():
                fs.put_file(str(file), f"{parent}/{file.relative_to(folder).as_posix()}")
