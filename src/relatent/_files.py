"""Files that are complete or absent: written to a temporary name, synced, then renamed in one step."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from relatent._errors import with_remedy

try:
    import fcntl
except ImportError:  # Windows has no such locks: leftovers stay there, and two writers are not kept apart
    fcntl = None  # type: ignore[assignment]


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)
LEFTOVER = re.compile(r"\.relatent-\w{8}\.part")


class FileError(ValueError):
    """A file that cannot be what it claims to be; the message names the file and what is wrong with it."""


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], *, overwrite: bool = True, prepare: Callable[[Path, Path], None] | None = None
) -> Iterator[Path]:
    """Yield a path aside to write a file or a folder to; it takes its name when the block ends without an error.

    After an error nothing is left, and what stood there before is untouched. A file is replaced only if it was there
    from the start and ``overwrite`` allows it: one that appeared in the meantime is kept. A folder replaces nothing
    but an empty folder.

    Files that were written beside the main one are sidecars. They land first, so a sidecar must be right for the old
    file as well as for the new one; ``prepare(aside, path)`` may rewrite it for that. Landing holds a lock on the
    folder, so that the sidecars of two writers never mix.

    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_write(folder / "x.txt") as aside:
    ...     _ = aside.write_text("whole")
    >>> [file.name for file in folder.iterdir()]
    ['x.txt']
    """
    path = Path(path)
    replace = _may_replace(path, overwrite)
    with writing(path), _aside(path.parent) as aside:
        yield aside / path.name
        _sync(aside)
        with _locked(path.parent):
            _land(aside, path, replace, prepare)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say in words why a path cannot be written: no folder, no permission, no space on the disk."""
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
            error.errno, f"The disk was full before {path} was complete; nothing was left behind. Free some space"
        ) from error


@contextmanager
def claimed(folder: Path, refusal: str) -> Iterator[None]:
    """Make a folder if it is not there, and lock it: others are refused until this process ends, be it by a kill."""
    with _locked(folder.parent):
        folder.mkdir(exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    try:
        _lock_or_refuse(handle, refusal)
        yield
    finally:
        os.close(handle)


def check_folder_free(path: Path) -> None:
    """Refuse a path at which a new folder cannot land, because something else than an empty folder is there."""
    if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
        raise FileError(f"{path} is there and is not an empty folder: write to a new one, or delete it first.")


def land_folder(new: Path, path: Path) -> None:
    """Give a complete folder its name in one step; it replaces nothing but an empty folder."""
    _sync(new)
    with _locked(path.parent):
        _rename(new, path)
        fsync(path.parent)


def exists_already(path: object) -> FileExistsError:
    """Return the error for a path that is not to be replaced."""
    return with_remedy(
        FileExistsError(f"{path} exists: write to another path, or have it replaced with"),
        python="overwrite=True.",
        command="--overwrite.",
    )


def is_leftover(name: str) -> bool:
    """Return whether a name is that of a folder in which a run wrote, or died while it wrote.

    >>> is_leftover(".relatent-a1b2c3d4.part"), is_leftover("a.part")
    (True, False)
    """
    return LEFTOVER.fullmatch(name) is not None


def _may_replace(path: Path, overwrite: bool) -> bool:
    """Return whether something is there that may be replaced; refuse what may not."""
    if not os.path.lexists(path):
        return False
    if path.is_dir():
        if any(path.iterdir()):
            raise FileError(f"{path} is a folder that is not empty: write to a new one, or delete it first.")
    elif path.exists() and not path.is_file():
        raise FileError(f"{path} is a device or a pipe: expected a path for a regular file. Write to another path.")
    elif not overwrite:
        raise exists_already(path)
    return True


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """Make a hidden folder to write in, locked as long as this process lives; remove those of dead processes."""
    with _locked(folder):
        _remove_leftovers(folder)
        aside = Path(tempfile.mkdtemp(dir=folder, prefix=".relatent-", suffix=".part"))
        lock = _lock(aside, wait=True)
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed runs left: the system has dropped their locks, those of living writers are still held."""
    for left in folder.glob(".relatent-*.part"):
        if is_leftover(left.name) and not left.is_symlink():
            with suppress(OSError):
                lock = _lock(left, wait=False)
                if lock is not None:
                    shutil.rmtree(left, ignore_errors=True)
                    os.close(lock)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = _lock(folder, wait=True)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _lock(folder: Path, wait: bool) -> int | None:
    """Lock a folder until the handle is closed; return None when it is locked or the file system has no locks."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        return None
    return handle


def _lock_or_refuse(handle: int, refusal: str) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FileError(refusal) from error
    except OSError:  # a file system without locks
        return


def _sync(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        fsync(path)


def fsync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _land(aside: Path, path: Path, replace: bool, prepare: Callable[[Path, Path], None] | None) -> None:
    new = aside / path.name
    if not replace and os.path.lexists(path):
        raise _appeared(path)
    if prepare is not None:
        prepare(new, path)
        _sync(aside)
    for sidecar in sorted(file for file in aside.iterdir() if file != new):
        os.replace(sidecar, path.with_name(sidecar.name))  # noqa: PTH105 (one name for every rename)
    if replace or new.is_dir():
        _rename(new, path)
    else:
        _link(new, path)
    fsync(path.parent)


def _link(new: Path, path: Path) -> None:
    """Name a file unless the name is taken, in one step."""
    try:
        os.link(new, path)
    except FileExistsError as error:
        raise _appeared(path) from error
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _rename(new, path)  # a file system without hard links: it was looked for a moment ago


def _rename(new: Path, path: Path) -> None:
    try:
        os.replace(new, path)  # noqa: PTH105
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR):
            raise
        raise _appeared(path) from error


def _appeared(path: Path) -> FileExistsError:
    return FileExistsError(
        f"{path} appeared while it was being written, and is kept: look at it, then write to another path or again."
    )
