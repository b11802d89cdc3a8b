"""Whole or absent: what is written goes beside its place, is synced, and is renamed when complete."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["FileError", "staged", "whole_file", "writing"]


class FileError(ValueError):
    """A file that cannot be what it claims to be; the message names the file and what is wrong with it."""


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in words why a path cannot be written: no folder, no permission, no room."""
    try:
        yield
    except FileNotFoundError as error:
        if path.parent.is_dir():
            raise
        raise FileNotFoundError(
            f"{path} cannot be written: there is no folder {path.parent}. Create it first."
        ) from error
    except PermissionError as error:
        raise PermissionError(
            f"{path} cannot be written: no permission in {path.parent}. Write elsewhere, or change the permissions."
        ) from error
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise OSError(
            error.errno, f"The disk was full before {path} was complete; nothing was left behind. Make room"
        ) from error


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Write beside, sync, rename: the file appears whole under its name or not at all."""
    path = Path(path)
    with writing(path):
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        os.close(handle)
        try:
            yield Path(beside)
            with Path(beside).open("rb+") as written:
                os.fsync(written.fileno())
            umask = os.umask(0)
            os.umask(umask)
            Path(beside).chmod(0o666 & ~umask)
            Path(beside).replace(path)
        finally:
            Path(beside).unlink(missing_ok=True)


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
