"""Spaces on disk: read and write by suffix, whole or not at all, with bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._atomic import FileError, staged
from relatent.spaces.chunks import Chunk, Joined, Layout, Rows
from relatent.spaces.fingerprint import Fingerprint, ProbeBuilder
from relatent.spaces.formats import FormatWriter, format_of, module_of
from relatent.spaces.formats.columns import Reading
from relatent.spaces.formats.errors import readable
from relatent.spaces.remote import is_remote, open_remote, uploaded
from relatent.spaces.space import Space

__all__ = ["SpaceWriter", "check_new", "read_space", "space_writer", "write_space"]

AnyPath = str | os.PathLike[str]
Create = Callable[[Path, Chunk, Fingerprint], FormatWriter]

# Files that tools leave in folders of data and that hold none.
IGNORED = ("_", ".")
GLOB = "*?["


def read_space(
    path: AnyPath,
    *,
    vector: str | None = None,
    key: str | None = None,
    keys: AnyPath | None = None,
    name: str | None = None,
    dtype: Any = None,
    fingerprint: Fingerprint | None = None,
) -> Space:
    """Open a file, a folder or a glob of files as one space. Nothing but the columns' names and sizes is read yet.

    The suffix tells the format: Parquet, .npy (with ids beside it), .npz, Arrow and Feather, safetensors, HDF5, word
    vectors as .txt or .vec, .jsonl; a folder of such files, or one that Hugging Face datasets saved to disk. Columns
    are found by name and type; say ``vector=`` and ``key=`` where the guess is wrong. ``keys`` names a file of ids for
    an .npy. The fingerprint is the recorded one if there is one.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "old.parquet")
    >>> write_space(Space([[1.0, 2.0]], keys=["a"]), file)
    >>> read_space(file)
    Space('old', 1 × 2 float64, keys 'a' …)
    """
    reading = Reading(vector, key, None if dtype is None else np.dtype(dtype), None if keys is None else Path(keys))
    reopen = partial(open_remote, str(path), reading) if is_remote(path) else partial(_open_local, Path(path), reading)
    called = Path(str(path)).name.split(".")[0] if name is None else name
    return Space.over(reopen(), called, fingerprint, str(path), reopen)


def write_space(space: Space, path: AnyPath, *, format: str | None = None, others: bool = True) -> None:
    """Write a space with its keys, its other columns and its fingerprint, chunk by chunk, whole or not at all.

    A path without a suffix becomes a folder of Parquet files; ``format="datasets"`` a folder for Hugging Face
    datasets. With ``others=False`` only keys and vectors are written.
    """
    with space_writer(path, fingerprint=space.fingerprint, format=format) as out:
        for chunk in space.chunks():
            out.write(chunk if others else _bare(chunk))


@contextmanager
def space_writer(
    path: AnyPath, *, fingerprint: Fingerprint | None = None, format: str | None = None
) -> Iterator[SpaceWriter]:
    """Open a space for writing, chunk by chunk. It appears under its name when the block ends without an error.

    The fingerprint says what is known of the new vectors; its probe is measured while they pass.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "doubled.npy")
    >>> with space_writer(file) as out:
    ...     for chunk in Space([[1.0], [2.0]], keys=["a", "b"]).chunks(rows=1):
    ...         out.write(chunk.with_vectors(2 * chunk.vectors))
    >>> read_space(file).vectors.tolist()
    [[2.0], [4.0]]
    """
    create, sidecars = _format(path, format)
    place = partial(uploaded, str(path)) if is_remote(path) else partial(staged, Path(path), sidecars)
    with place() as aside:
        writer = SpaceWriter(create, aside, fingerprint)
        try:
            yield writer
            writer.finish()
        finally:
            writer.release()


class SpaceWriter:
    """Takes chunks in order. The first one tells the columns, the dimension and the dtype."""

    def __init__(self, create: Create, path: Path, known: Fingerprint | None) -> None:
        self._create, self._path, self._known = create, path, known
        self._writer: FormatWriter | None = None
        self._columns: tuple[int, np.dtype] = (0, np.dtype(np.float32))
        self._probe = ProbeBuilder()

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        if chunk.vectors.dtype.kind != "f" or chunk.vectors.ndim != 2:
            raise ValueError(f"The chunk has {chunk.vectors.dtype} vectors: expected float16, float32 or float64.")
        columns = (chunk.vectors.shape[1], chunk.vectors.dtype)
        if self._writer is not None and columns != self._columns:
            raise ValueError(
                f"A chunk of {columns[0]} × {columns[1]} came after chunks of "
                f"{self._columns[0]} × {self._columns[1]}: expected the same throughout."
            )
        self._probe.add(chunk.vectors)
        if self._writer is None:
            self._columns = columns
            self._writer = self._create(self._path, chunk, self._fingerprint())
        self._writer.write(chunk)

    def finish(self) -> None:
        """Complete the file."""
        if self._writer is None:
            raise ValueError(f"Nothing was written to {self._path.name}: write at least one chunk, even an empty one.")
        self._writer.finish(self._fingerprint())

    def release(self) -> None:
        """Let go of the file, complete or not."""
        if self._writer is not None:
            self._writer.release()

    def _fingerprint(self) -> Fingerprint:
        known = self._known or Fingerprint(dim=self._columns[0])
        if known.dim != self._columns[0]:
            raise ValueError(
                f"The fingerprint says {known.dim} coordinates and the chunk has {self._columns[0]}: expected the same."
            )
        return replace(known, probe=self._probe.probe())


def check_new(path: AnyPath, space: Space | None = None, *, overwrite: bool = False) -> None:
    """Refuse to write over what is there, and over the space that is being read in any case."""
    if is_remote(path):
        return
    there = Path(path)
    if space is not None and space.path is not None and _touches(there, space.path):
        raise FileError(f"{path} is the space that is read: nothing is written in place. Write to another path.")
    if there.exists() and not overwrite:
        raise FileExistsError(
            f"{path} exists: write to another path, or have it replaced (--force, or overwrite=True)."
        )


def _open_local(path: Path, reading: Reading) -> Rows:
    if not path.exists() and any(mark in str(path) for mark in GLOB):
        inside = path.relative_to(path.anchor)
        found = sorted(Path(path.anchor).glob(str(inside)))
        if not found:
            raise FileNotFoundError(f"No file matches {path}: check the pattern.")
        return _join(found, reading)
    if path.is_dir():
        return _open_folder(path, reading)
    kind = format_of(path)
    if reading.keys is not None and kind != "npy":
        raise ValueError(f"keys= names the ids of an .npy file, and {path} is none: say key= for a column of it.")
    with readable(path):
        rows: Rows = module_of(kind).open_rows(path, reading)
    return rows


def _open_folder(path: Path, reading: Reading) -> Rows:
    if (path / "state.json").exists() or (path / "dataset_dict.json").exists():
        with readable(path):
            rows: Rows = module_of("arrow").open_folder(path, reading)
        return rows
    files = [f for f in sorted(path.rglob("*")) if f.is_file() and not f.name.startswith(IGNORED)]
    files = [f for f in files if not _beside_another(f, files)]
    if not files:
        raise FileError(f"{path} is an empty folder: expected files of vectors.")
    _check_one_format(path, files)
    return _join(files, reading)


def _beside_another(file: Path, files: list[Path]) -> bool:
    """Tell whether a file only accompanies another one."""
    owners = (
        file.with_name(file.name.removesuffix(end) + add)
        for end, add in ((".relatent.json", ""), (".keys.parquet", ".npy"))
        if file.name.endswith(end)
    )
    return any(owner in files for owner in owners)


def _check_one_format(folder: Path, files: list[Path]) -> None:
    kinds = {}
    for file in files:
        try:
            kinds[file] = format_of(file)
        except FileError:
            kinds[file] = ""
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


def _join(files: list[Path], reading: Reading) -> Rows:
    parts = [_open_local(file, reading) for file in files]
    return parts[0] if len(parts) == 1 else Joined(parts, [str(file) for file in files])


def _format(path: AnyPath, format: str | None) -> tuple[Create, list[Path]]:
    """Find what writes a path, and which files may stand beside it."""
    if format == "datasets":
        return module_of("arrow").FolderWriter, []
    if format is not None:
        raise ValueError(f"There is no format {format!r} for folders.{suggest(format, ['datasets'])}")
    if str(path).endswith("/") or not Path(str(path)).suffix:
        return module_of("parquet_folder").Writer, []
    if str(path).endswith(".gz"):
        raise FileError(f"{path} cannot be written compressed: leave out .gz.")
    module = module_of(format_of(str(path)))
    sidecars: Callable[[Path], list[Path]] = getattr(module, "sidecars", lambda _: [])
    return module.Writer, sidecars(Path(str(path)))


def _bare(chunk: Chunk) -> Chunk:
    names = [] if chunk.layout.key is None else [chunk.layout.key]
    order = tuple(name for name in chunk.layout.order if name in (*names, chunk.layout.vector))
    return replace(
        chunk, others=chunk.others.select(names), layout=Layout(chunk.layout.vector, chunk.layout.key, order)
    )


def _touches(path: Path, source: str) -> bool:
    """Tell whether a path is what is read, a folder around it, or a file among those read."""
    if is_remote(source):
        return False
    there, read = path.resolve(), Path(source).resolve()
    return there == read or there in read.parents or (read.is_dir() and read in there.parents) or there.match(str(read))
