"""Whole or absent: files and folders are written aside and renamed when complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from relatent._files import FileError, writing

__all__ = ["staged"]


@contextmanager
def staged(path: Path, sidecars: Sequence[Path] = ()) -> Iterator[Path]:
    """Give a path aside to write to, and move it (and what was written beside it) into place at the end.

    Sidecars are moved first and stale ones removed, so that a file never stands beside those of another. After an
    error nothing is left, and what stood there before is untouched. A folder that is not empty is not replaced.
    """
    with writing(path):
        aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
        try:
            if path.is_dir() and any(path.iterdir()):
                raise FileError(f"{path} is a folder that is not empty: write to a new one, or delete it first.")
            yield aside / path.name
            _sync(aside)
            _move(aside, path, sidecars)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _sync(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb+") as written:
                os.fsync(written.fileno())


def _move(aside: Path, path: Path, sidecars: Sequence[Path]) -> None:
    beside = {file.name for file in aside.iterdir()} - {path.name}
    for name in sorted(beside):
        (aside / name).replace(path.with_name(name))
    for stale in sidecars:
        if stale.name not in beside:
            stale.unlink(missing_ok=True)
    if path.is_dir():
        path.rmdir()
    (aside / path.name).replace(path)
