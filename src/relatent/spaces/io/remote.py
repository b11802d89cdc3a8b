"""Remote paths such as s3://bucket/old.parquet, through fsspec (extra: remote)."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, Self

from relatent._errors import needs
from relatent._files import FileError, exists_already, no_file, readable
from relatent._schemes import public_url
from relatent.spaces.chunks import Rows
from relatent.spaces.io.columns import ReadOptions
from relatent.spaces.io.folders import GLOB, join_files, visible
from relatent.spaces.io.formats import format_of, module_of
from relatent.spaces.io.formats.npy import IDS
from relatent.spaces.io.formats.parquet import MANIFEST, check_manifest
from relatent.spaces.io.lines import SUFFIX


class RemotePath(str):
    """The text of a URL as it may be shown, in messages, reports and names; ``url`` is the whole, to open it.

    >>> path = RemotePath("https://me:password@host/old.parquet?X-Amz-Signature=x")
    >>> str(path), path.url.endswith("=x")
    ('https://host/old.parquet', True)
    """

    url: str

    def __new__(cls, url: str) -> Self:
        """Keep both."""
        path = super().__new__(cls, public_url(url))
        path.url = url
        return path

    def __getnewargs__(self) -> tuple[str]:
        """Keep the whole URL in a pickle: it goes to workers."""
        return (self.url,)


def is_remote(path: Any) -> bool:
    """Return whether a path names a protocol, other than that of local files.

    >>> is_remote("s3://bucket/old.parquet"), is_remote("old.parquet"), is_remote("file:///tmp/old.parquet")
    (True, False, False)
    """
    return "://" in str(path) and not str(path).startswith("file://")


def exists_remote(path: RemotePath) -> bool:
    """Return whether something is at a remote path."""
    with readable(path):
        fs, inside = _at(path, "find")
        return bool(fs.exists(inside))


def remote_identity(path: RemotePath) -> list[list[Any]]:
    """Return the files at a remote path, each with what changes when it is written again."""
    with readable(path):
        fs, inside = _at(path, "find")
        return [[name, fs.ukey(name)] for name in _names(fs, inside, path)]


def open_remote(path: RemotePath, options: ReadOptions) -> Rows:
    """Open remote files: Parquet is read in place, other formats are fetched to a folder that goes with the rows."""
    with readable(path):
        fs, inside = _at(path, "read")
        files = [_Remote(fs, name, _shown(fs, name, inside, path)) for name in _names(fs, inside, path)]
        manifest = f"{inside.rstrip('/')}/{MANIFEST}"
        if options.verify and fs.isdir(inside) and fs.exists(manifest):
            named = {file.name.removeprefix(inside).strip("/"): file for file in files}
            check_manifest(path, fs.cat_file(manifest).decode(errors="replace"), named)
        return join_files([_open_one(file, options) for file in files], [file.path for file in files])


def _at(path: RemotePath, why: str) -> tuple[Any, str]:
    fs, inside = needs("fsspec.core", "remote", f"{why} {path}").url_to_fs(path.url)
    return fs, str(inside)


def _shown(fs: Any, name: str, inside: str, path: RemotePath) -> str:
    """Return the name of a file at a path as it may be shown."""
    if name.startswith(inside):
        return path + name.removeprefix(inside)
    return public_url(str(fs.unstrip_protocol(name)))


def _names(fs: Any, inside: str, path: RemotePath) -> list[str]:
    if any(mark in path for mark in GLOB):  # a question mark in the URL begins its options
        asked = PurePosixPath(inside).parts
        found = [name for name in fs.glob(inside) if visible(PurePosixPath(name), asked)]
    elif fs.isdir(inside):
        found = [name for name in fs.find(inside) if visible(PurePosixPath(name.removeprefix(inside).strip("/")))]
        found = [name for name in found if not name.endswith(SUFFIX)]
    else:
        found = [inside]
    if not found:
        raise no_file(path)
    return sorted(found)


def _open_one(file: _Remote, options: ReadOptions) -> Rows:
    kind = format_of(file.path)
    if kind == "parquet":
        rows: Rows = module_of(kind).open_rows(file, options)
        return rows
    folder, fs = Path(tempfile.mkdtemp(prefix="relatent-")), file.fs
    base, local = PurePosixPath(file.name), folder / PurePosixPath(file.path).name
    fs.get_file(file.name, str(local))
    beside = (str(base.with_name(base.stem + end)) for end in IDS) if kind == "npy" else (file.name + SUFFIX,)
    for other in beside:
        if fs.exists(other):
            fs.get_file(other, str(folder / PurePosixPath(other).name))
    rows = module_of(kind).open_rows(local, options)
    weakref.finalize(rows, shutil.rmtree, folder, ignore_errors=True)
    return rows


class _Remote:
    """A remote file that is opened again for each pass; ``path`` is its name as it may be shown."""

    def __init__(self, fs: Any, name: str, shown: str) -> None:
        self.fs, self.name, self.path = fs, name, shown

    def open(self, mode: str = "rb") -> Any:
        """Open for reading."""
        return self.fs.open(self.name, mode)


@contextmanager
def uploaded(
    path: RemotePath, *, overwrite: bool = False, prepare: Callable[[Path, Path], None] | None = None
) -> Iterator[Path]:
    """Yield a local path to write to, and upload the result: the remote :func:`relatent._files.atomic_write`.

    Everything is uploaded under a hidden name and then moved. What describes the others (a sidecar, the manifest of a
    folder) is moved first, so that a reader in between finds the old file or refuses. Stores of objects have no step
    that refuses to replace: a file that appears between the check and the move is lost.
    """
    fs, inside = _at(path, "write")
    replace = _may_replace(fs, inside, path, overwrite)
    with tempfile.TemporaryDirectory(prefix="relatent-") as made:
        folder, name = Path(made, "new"), PurePosixPath(inside).name
        folder.mkdir()
        yield folder / name
        if prepare is not None:
            prepare(folder / name, _fetched(fs, inside, Path(made, "old")))
        _land(fs, folder, inside, None if replace else path)


def _may_replace(fs: Any, inside: str, path: RemotePath, overwrite: bool) -> bool:
    if not fs.exists(inside):
        return False
    if fs.isdir(inside) and fs.find(inside):
        raise FileError(f"{path} is a folder that is not empty: write to a new one, or delete it first.")
    if not overwrite:
        raise exists_already(path)
    return True


def _fetched(fs: Any, inside: str, folder: Path) -> Path:
    """Fetch the file that is to be replaced, and its sidecar, as far as they are there."""
    folder.mkdir()
    for name in (inside, inside + SUFFIX):
        if fs.isfile(name):
            fs.get_file(name, str(folder / PurePosixPath(name).name))
    return folder / PurePosixPath(inside).name


def _land(fs: Any, folder: Path, inside: str, new: RemotePath | None) -> None:
    """Upload files under hidden names and move them; a path that is to be ``new`` must be free until then."""
    parent, name = str(PurePosixPath(inside).parent), PurePosixPath(inside).name
    tmp = f"{parent}/.relatent-{secrets.token_hex(4)}.part"
    fs.makedirs(tmp, exist_ok=True)
    files = [file.relative_to(folder).as_posix() for file in sorted(folder.rglob("*")) if file.is_file()]
    files.sort(key=lambda file: (file != f"{name}/{MANIFEST}", file.startswith(f"{name}/"), file == name))
    try:
        for file in files:
            fs.makedirs(str(PurePosixPath(tmp, file).parent), exist_ok=True)
            fs.put_file(str(folder / file), f"{tmp}/{file}")
        if new is not None and fs.exists(inside):
            raise FileExistsError(f"{new} appeared while it was being written, and is kept: write to another path.")
        for file in files:
            fs.makedirs(str(PurePosixPath(parent, file).parent), exist_ok=True)
            fs.mv(f"{tmp}/{file}", f"{parent}/{file}")
    finally:
        with suppress(OSError):
            fs.rm(tmp, recursive=True)
