"""Local files, folders and globs of files as rows: which files count, and what is refused before it is opened."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

import numpy as np
import pyarrow as pa

from relatent._files import FileError, no_file, readable
from relatent.spaces.chunks import Chunk, Joined, Rows, entries_of, mapped_vectors
from relatent.spaces.io.columns import ReadOptions
from relatent.spaces.io.formats import FORMATS, format_of, module_of, suffix_of
from relatent.spaces.io.matrix import Shape, check_inflation

GLOB = "*?["
# How files of each format begin, to name a file under a wrong suffix for what it is.
MAGIC = {
    b"\x93NUMPY": "npy",
    b"PK\x03\x04": "npz",
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\x89HDF\r\n\x1a\n": "hdf5",
}
NOT_FILES = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def open_local(path: Path, options: ReadOptions) -> Rows:
    """Open a file, a folder or a glob."""
    if any((path / name).exists() for name in ("state.json", "dataset_dict.json")):  # saved by Hugging Face datasets
        with readable(path):
            rows: Rows = module_of("arrow").open_folder(path, options)
        return rows
    files = list_files(path)
    if path.is_dir():
        _check_one_format(path, files)
        _check_manifest(path, files, options)
    return join_files([_open_file(file, options) for file in files], [str(file) for file in files])


def list_files(path: Path) -> list[Path]:
    """Return the files that a path, a folder or a glob stands for, in order, without hidden and accompanying ones."""
    if path.is_dir():
        files = [f for f in sorted(path.rglob("*")) if f.is_file() and visible(f.relative_to(path))]
        files = [f for f in files if not _accompanies(f, files)]
        if not files:
            raise FileError(f"{path} is an empty folder: expected files of vectors.")
        return files
    if path.exists() or not any(mark in str(path) for mark in GLOB):
        return [path]
    pattern = path.relative_to(path.anchor)
    found = [f for f in sorted(Path(path.anchor).glob(str(pattern))) if visible(f, pattern.parts)]
    if not found:
        raise FileNotFoundError(f"No file matches {path}: check the pattern.")
    return found


def visible(path: PurePath, asked: Sequence[str] = ()) -> bool:
    """Return whether no part of a path is hidden, that is begins with a dot or an underscore, unless it was asked for.

    Tools put there what is not data: checkpoints of notebooks, files of a run that is not finished.

    >>> visible(PurePath("year=2024/part-0.parquet")), visible(PurePath("_temporary/part-0.parquet"))
    (True, False)
    """
    return not any(part.startswith((".", "_")) and part not in (".", "..", *asked) for part in path.parts)


def join_files(parts: Sequence[Rows], names: Sequence[str]) -> Rows:
    """Join the rows of files; refuse files that differ in kind or whose records name two models."""
    rows = parts[0] if len(parts) == 1 else Joined(parts, names)
    known = [(name, part.fingerprint.recorded()) for name, part in zip(names, parts, strict=True) if part.fingerprint]
    for name, fingerprint in known[1:]:
        match = known[0][1].matches(fingerprint)
        if not match:
            raise FileError(
                f"{known[0][0]} and {name} are not of one model: {match.reason}. Read them apart, or move one away."
            )
    return rows


def _open_file(path: Path, options: ReadOptions) -> Rows:
    if path.is_dir():  # a glob may match folders
        return open_local(path, options)
    if not path.suffix and not path.exists():
        raise no_file(path)
    kind = format_of(path)
    if options.keys is not None and kind != "npy":
        raise ValueError(f"keys= names the ids of an .npy file, and {path} is none: say key= for a column of it.")
    with readable(path):
        before = file_identity(path)
        _check_content(path, kind)
        rows: Rows = module_of(kind).open_rows(path, options)
        check_inflation(path, Shape(rows.shape, rows.dtype), options)
        return UnchangedFile(rows, path, before)


class UnchangedFile:
    """The rows of a file, as long as it is the one that was opened: old vectors never meet the keys of a new file."""

    def __init__(self, rows: Rows, path: Path, identity: tuple[int, ...]) -> None:
        self._rows, self._path, self._opened = rows, path, identity
        self.shape, self.dtype, self.layout = rows.shape, rows.dtype, rows.layout
        self.fingerprint, self.schema, self.entries = rows.fingerprint, rows.schema, entries_of(rows)

    def chunks(self, start: int, stop: int, size: int) -> Iterator[Chunk]:
        """Yield the chunks of the file."""
        for chunk in self._rows.chunks(start, stop, size):
            self._check()
            yield chunk

    def mapped(self) -> np.ndarray | None:
        """Return all vectors as they are mapped from the file, if they are."""
        self._check()
        vectors = mapped_vectors(self._rows)
        self._check()
        return vectors

    def others(self, names: list[str] | None = None) -> pa.Table:
        """Return every column but the vectors, or some of them."""
        table = self._rows.others(names)
        self._check()
        return table

    def _check(self) -> None:
        if file_identity(self._path) != self._opened:
            raise FileError(f"{self._path} was changed or replaced after it was opened: read it again from the start.")


def file_identity(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is replaced or written again: its inode, its size and its date."""
    about = path.stat()
    return about.st_ino, about.st_size, about.st_mtime_ns


def _check_content(path: Path, kind: str) -> None:
    """Refuse at once what is no file, is empty, or begins like a file of another format."""
    mode = stat.S_IFMT(path.stat().st_mode)
    if mode in NOT_FILES:
        raise FileError(f"{path} is {NOT_FILES[mode]}: expected a regular file. Save what it yields to a file first.")
    with path.open("rb") as file:
        head = file.read(8)
    if not head and kind not in ("word_vectors", "jsonl"):
        raise FileError(f"{path} is empty: get a new copy.")
    other = next((name for mark, name in MAGIC.items() if head.startswith(mark)), kind)
    if other != kind:
        suffix = next(suffix for suffix, name in FORMATS.items() if name == other)
        raise FileError(
            f"{path} holds {suffix} data under another suffix: rename it to {path.with_suffix(suffix).name}."
        )


def _accompanies(file: Path, files: Iterable[Path]) -> bool:
    """Return whether a file only accompanies another one."""
    endings = ((".relatent.json", ""), (".keys.parquet", ".npy"))
    owners = [file.name.removesuffix(end) + add for end, add in endings if file.name.endswith(end)]
    return any(file.with_name(owner) in files for owner in owners)


def _check_one_format(folder: Path, files: list[Path]) -> None:
    kinds = {file: FORMATS.get(suffix_of(file), "") for file in files}
    usual = max(set(kinds.values()) - {""}, key=list(kinds.values()).count, default="")
    foreign = [file for file, kind in kinds.items() if kind != usual or not kind]
    if foreign:
        example = next((f.suffix for f, kind in kinds.items() if kind == usual and kind), ".parquet")
        raise FileError(
            f"{folder} holds {foreign[0].relative_to(folder)}"
            + (f" and {len(foreign) - 1} more" if len(foreign) > 1 else "")
            + f" among its {usual or 'unknown'} files: expected files of one format. "
            f"Move it away, or read {folder / f'*{example}'}."
        )


def _check_manifest(folder: Path, files: list[Path], options: ReadOptions) -> None:
    parquet = module_of("parquet")
    manifest = folder / parquet.MANIFEST
    if options.verify and manifest.exists():
        named = {file.relative_to(folder).as_posix(): file for file in files}
        with readable(folder):
            parquet.check_manifest(folder, manifest.read_text("utf8"), named)
