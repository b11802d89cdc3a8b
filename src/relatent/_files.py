"""Files on disk: atomic writes, checked JSON, locks, and the records of work that a later run resumes."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relatent._errors import with_remedy
from relatent._schemes import public_url, without_secrets

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
    """Yield a temporary path for a file or a folder, which is renamed to ``path`` if the block ends without an error.

    After an error nothing is left, and what was at ``path`` is untouched. A file is replaced only if it was there
    from the start and ``overwrite`` allows it: one that appeared in the meantime is kept. A folder replaces nothing
    but an empty folder. A new file has the mode of the one that it replaces; a link stays, and its target is replaced.

    Files written next to the temporary one are sidecars. They are renamed first, so a sidecar must be valid for the
    old file as well as for the new one; ``prepare(tmp, path)`` may rewrite it for that. The renames hold a lock on
    the folder, so that the sidecars of two writers never mix.

    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_write(folder / "x.txt") as tmp:
    ...     _ = tmp.write_text("complete")
    >>> [file.name for file in folder.iterdir()]
    ['x.txt']
    """
    path = Path(path)
    replace = _may_replace(path, overwrite)
    path = path.resolve() if os.path.islink(path) else path  # noqa: PTH114 (Path.is_symlink raises without permission)
    with writing(path), _temporary_folder(path.parent) as tmp:
        yield tmp / path.name
        _sync(tmp)
        with locked(path.parent):
            _land(tmp, path, replace, prepare)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the file system into messages that name the path: no folder, no permission, disk full."""
    try:
        yield
    except FileNotFoundError as error:
        if path.parent.is_dir():
            raise
        problem = f"{path} cannot be written: there is no folder {path.parent}. Create it first."
        raise FileNotFoundError(problem) from error
    except PermissionError as error:
        raise PermissionError(
            f"{path} cannot be written: no permission in {path.parent}. Write elsewhere, or change the permissions."
        ) from error
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise disk_full(error, path) from error


def disk_full(error: OSError, path: Path, left: str = "nothing was left behind") -> OSError:
    """Return the error for a disk that was full before a file was complete."""
    return OSError(error.errno, f"The disk was full before {path} was complete; {left}. Free some space")


# What a reader raises over bytes that it did not expect; NumPy parses headers as Python, hence syntax.
UNREADABLE = (EOFError, OSError, ValueError, LookupError, RuntimeError, TypeError, OverflowError, SyntaxError)
# Modules whose own exceptions mean the same, and those whose exceptions mean that a remote file cannot be fetched.
PARSERS = ("pyarrow", "zipfile", "zlib", "tokenize")
CLIENTS = ("aiohttp", "azure", "botocore", "fsspec", "gcsfs", "paramiko", "requests", "smbprotocol")


@contextmanager
def readable(path: object) -> Iterator[None]:
    """Turn whatever a damaged file makes a reader raise into one error that names the file."""
    try:
        yield
    except (FileError, PermissionError, IsADirectoryError, ModuleNotFoundError):
        raise
    except FileNotFoundError as error:
        raise no_file(path) from _shown_cause(error, path)
    except Exception as error:
        module = type(error).__module__.split(".")[0]
        if not isinstance(error, UNREADABLE) and module not in (*PARSERS, *CLIENTS):
            raise
        said = without_secrets(str(error).splitlines()[0]) if str(error) else type(error).__name__
        why = "it is cut short, damaged, or not what its suffix says. Get a new copy."
        why = "check its URL, and whether you may read it." if module in CLIENTS else why
        raise FileError(f"{path} cannot be read ({said}): {why}") from _shown_cause(error, path)


def _shown_cause(error: Exception, path: object) -> Exception | None:
    """Return an error unless a traceback may show a secret of a remote path with it."""
    has_secrets = getattr(path, "url", path) != path
    return None if has_secrets or without_secrets(str(error)) != str(error) else error


@contextmanager
def locked(path: Path, *, create: bool = False, refusal: Exception | None = None) -> Iterator[bool]:
    """Lock a folder, or with ``create`` a file, which is made if it is not there; yield whether the lock is held.

    Wait while another has it, or raise ``refusal`` if one is given. The system drops a lock with its process. Where
    there are no locks (Windows, some network file systems), nothing is held and nobody is kept out.
    """
    if fcntl is None:
        yield False
        return
    handle = os.open(path, os.O_RDWR | os.O_CREAT if create else os.O_RDONLY, 0o644)
    try:
        yield _lock(handle, refusal)
    finally:
        os.close(handle)


def _lock(handle: int, refusal: Exception | None) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if refusal is None else fcntl.LOCK_NB))
    except BlockingIOError as error:
        raise refusal or error from error
    except OSError:  # a file system without locks
        return False
    return True


@contextmanager
def claimed(folder: Path, refusal: str) -> Iterator[None]:
    """Create a folder if it is missing, and lock it: other processes are refused until this one ends or is killed."""
    with ExitStack() as held:
        with locked(folder.parent):
            folder.mkdir(exist_ok=True)
            held.enter_context(locked(folder, refusal=FileError(refusal)))
        yield


def check_folder_free(path: Path) -> None:
    """Refuse a path where something other than an empty folder exists."""
    if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
        raise FileError(f"{path} exists and is not an empty folder: write to a new one, or delete it first.")


def land_folder(new: Path, path: Path) -> None:
    """Rename a complete folder atomically; it replaces nothing but an empty folder."""
    _sync(new)
    with locked(path.parent):
        _rename(new, path)
        fsync(path.parent)


def no_file(path: object) -> FileNotFoundError:
    """Return the error for a file that does not exist."""
    return FileNotFoundError(f"There is no file {public_url(str(path))}: check the path.")


def exists_already(path: object) -> FileExistsError:
    """Return the error for a path that is not to be replaced."""
    return with_remedy(
        FileExistsError(f"{public_url(str(path))} exists: write to another path, or replace it with"),
        python="overwrite=True.",
        command="--overwrite.",
    )


def is_leftover(name: str) -> bool:
    """Return whether a name is that of the temporary folder of a run that is writing, or was killed while writing.

    >>> is_leftover(".relatent-a1b2c3d4.part"), is_leftover("a.part")
    (True, False)
    """
    return LEFTOVER.fullmatch(name) is not None


def _may_replace(path: Path, overwrite: bool) -> bool:
    """Return whether something exists at the path that may be replaced; refuse what may not."""
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
def _temporary_folder(folder: Path) -> Iterator[Path]:
    """Create a hidden folder that is locked as long as this process lives; remove those of killed processes."""
    with ExitStack() as held:
        with locked(folder):
            _remove_leftovers(folder)
            tmp = Path(tempfile.mkdtemp(dir=folder, prefix=".relatent-", suffix=".part"))
            held.enter_context(locked(tmp))
            held.callback(shutil.rmtree, tmp, ignore_errors=True)
        yield tmp


def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary folders of killed runs: their locks are gone, those of running writers are still held."""
    for left in folder.glob(".relatent-*.part"):
        if is_leftover(left.name) and not left.is_symlink():
            with suppress(OSError), locked(left, refusal=BlockingIOError()) as held:
                if held:
                    shutil.rmtree(left, ignore_errors=True)


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


def _land(tmp: Path, path: Path, replace: bool, prepare: Callable[[Path, Path], None] | None) -> None:
    new = tmp / path.name
    if not replace and os.path.lexists(path):
        raise _appeared(path)
    if prepare is not None:
        prepare(new, path)
        _sync(tmp)
    for sidecar in sorted(file for file in tmp.iterdir() if file != new):
        _keep_mode(sidecar, path.with_name(sidecar.name))
        os.replace(sidecar, path.with_name(sidecar.name))  # noqa: PTH105 (one name for every rename)
    if replace or new.is_dir():
        _keep_mode(new, path)
        _rename(new, path)
    else:
        _link(new, path)
    fsync(path.parent)


def _keep_mode(new: Path, path: Path) -> None:
    """Give a file the mode and the owner of the one that it is to replace; only root may keep any owner."""
    if path.is_file():
        about = path.stat()
        with suppress(OSError):
            shutil.chown(new, about.st_uid, about.st_gid)
        new.chmod(stat.S_IMODE(about.st_mode))


def _link(new: Path, path: Path) -> None:
    """Name a file unless the name is taken, in one step."""
    try:
        os.link(new, path)
    except FileExistsError as error:
        raise _appeared(path) from error
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _rename(new, path)  # a file system without hard links; the name was free a moment ago


def _rename(new: Path, path: Path) -> None:
    try:
        os.replace(new, path)  # noqa: PTH105
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR):
            raise
        raise _appeared(path) from error


def _appeared(path: Path) -> FileExistsError:
    return FileExistsError(
        f"{path} appeared while it was being written, and is kept: check it, then write to another path or try again."
    )


def dump_checked(record: Mapping[str, Any]) -> str:
    """Return a record as JSON that holds its own checksum.

    >>> load_checked(dump_checked({"rows": 3}))
    {'rows': 3}
    """
    return json.dumps({"sha256": _checksum(record), **record}, ensure_ascii=False, indent=1)


def load_checked(text: str) -> dict[str, Any]:
    """Return the record that :func:`dump_checked` was given; raise :class:`FileError` if any of it has changed.

    Records of the first files, whose CRC-32 stands before the JSON, are read too.
    """
    try:
        if text.startswith("{"):
            record = dict(json.loads(text))
            unchanged = record.pop("sha256") == _checksum(record)
        else:
            crc, _, rest = text.partition(" ")
            unchanged = crc == f"{zlib.crc32(rest.encode(errors='replace')):08x}"
            record = dict(json.loads(rest)) if unchanged else {}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FileError(f"it is not a record with a checksum ({error})") from error
    if not unchanged:
        raise FileError("its checksum does not match")
    return record


def read_checks(text: str, path: object) -> dict[str, Any]:
    """Return the record of checksums of a file."""
    try:
        return load_checked(text)
    except FileError as error:
        raise damaged(path, "its record of checksums") from error


def damaged(path: object, what: str) -> FileError:
    """Return the error for a file whose checksum does not match."""
    return unverified(f"{path} is damaged: {what} does not match the checksum that was written with it. Get a new copy")


def unverified(problem: str) -> FileError:
    """Return the error for a file that does not match its record, with how to read it all the same."""
    words = "or read it without checks ({})."
    remedies = {"python": words.format("verify=False"), "command": words.format("--no-verify")}
    return with_remedy(FileError(f"{problem},"), **remedies)


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Records:
    """Checked JSON files in a folder, by which a run resumes the work of a killed one: one per finished shard.

    Each is written atomically, and is durable when the call returns. File names come from the caller and never from
    a record, so that no record can point outside the folder.
    """

    folder: Path

    def write(self, name: str, record: Mapping[str, Any]) -> None:
        """Write a record; it replaces an earlier one of the same name."""
        self.write_bytes(name, dump_checked(record).encode())

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write another file of the work."""
        path = self.folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path, overwrite=True) as tmp:
            tmp.write_bytes(content)

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a record, or None if there is none; raise :class:`FileError` if it is damaged."""
        try:
            return load_checked((self.folder / name).read_text("utf8"))
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise FileError(str(error)) from error

    def remove(self, *names: str) -> None:
        """Remove records, so that their shards no longer count as finished."""
        for name in names:
            (self.folder / name).unlink(missing_ok=True)
