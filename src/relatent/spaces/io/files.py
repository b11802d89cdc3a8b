"""Spaces on disk: read and written by suffix, with bounded memory; files appear atomically."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._errors import with_remedy
from relatent._files import FileError, atomic_write, exists_already
from relatent._linalg import ONE_THREAD
from relatent._schemes import is_store, open_store_rows
from relatent.spaces.chunks import Chunk, Layout, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.columns import ReadOptions
from relatent.spaces.io.folders import file_identity, list_files, open_local
from relatent.spaces.io.formats import FormatWriter, format_of, module_of
from relatent.spaces.io.remote import RemotePath, exists_remote, is_remote, open_remote, remote_identity, uploaded
from relatent.spaces.multi_vectors import open_items
from relatent.spaces.probe import ProbeBuilder
from relatent.spaces.quantize import DecodedRows, Quantizer
from relatent.spaces.space import Space

AnyPath = str | os.PathLike[str]
Create = Callable[[Path, Chunk, Fingerprint], FormatWriter]

# What a command sets once for all that it reads.
_DEFAULTS: ContextVar[ReadOptions] = ContextVar("read_defaults", default=ReadOptions())  # noqa: B039 (frozen)


def read_space(
    path: AnyPath,
    *,
    vector: str | None = None,
    key: str | None = None,
    keys: AnyPath | None = None,
    name: str | None = None,
    dtype: Any = None,
    fingerprint: Fingerprint | None = None,
    verify: bool = True,
    max_memory: int | None = None,
    packed: bool = False,
) -> Space:
    """Open a file, a folder, a glob or the URL of a store as one space. Nothing but its columns and size is read yet.

    The suffix tells the format: Parquet, .npy (with ids beside it), .npz, Arrow and Feather, safetensors, HDF5, word
    vectors as .txt or .vec, .jsonl, .csv, .tsv; a folder of such files, or one that Hugging Face datasets saved to
    disk. Columns are found by name and type; say ``vector=`` and ``key=`` where the guess is wrong. ``keys`` names a
    file of ids for an .npy. The fingerprint is the recorded one if there is one. Of a store
    (``postgresql://…/table``, :func:`relatent.open_store`), the vectors that it serves are read, in order of their
    keys.

    Codes that relatent wrote (``write_space(quantize=…)``) are read as the vectors that they stand for. Other 8-bit
    integers are read as numbers, which is all that a translator needs: its map learns their scale. Bits are read as
    ±1, from a column of fixed-size binary or, with ``packed=True``, from bytes that hold eight coordinates each.

    A Parquet file whose vector column holds lists of vectors is a :class:`MultiSpace` of several vectors per item.

    What relatent wrote is compared with its checksums while it is read, unless ``verify=False``. A file that asks for
    more than ``max_memory`` bytes at once (default: the memory of the machine) is refused before they are allocated.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "old.parquet")
    >>> write_space(Space([[1.0, 2.0]], keys=["a"]), file)
    >>> read_space(file)
    Space('old', 1 × 2 float64, keys 'a' …)
    """
    defaults = _DEFAULTS.get()
    options = ReadOptions(
        vector,
        key,
        None if dtype is None else np.dtype(dtype),
        None if keys is None else Path(keys),
        verify and defaults.verify,
        max_memory or defaults.max_memory,
        packed,
    )
    if is_store(path):
        reopen = partial(open_store_rows, path, options)
        rows: Any = reopen()
        return Space.over(rows, name or rows.address.name, fingerprint, str(rows.address), reopen)
    place = _place(path)
    reopen = partial(_open, place, options)
    called = Path(str(place)).name.split(".")[0] if name is None else name
    try:
        return Space.over(reopen(), called, fingerprint, place if isinstance(place, str) else str(place), reopen)
    except FileError:  # no column of vectors; perhaps one of lists of vectors
        several = None if isinstance(place, RemotePath) else open_items(place, options, called, fingerprint)
        if several is None:
            raise
        return several


def _open(place: Path | RemotePath, options: ReadOptions) -> Rows:
    rows = open_remote(place, options) if isinstance(place, RemotePath) else open_local(place, options)
    quantizer = Quantizer("binary", 8 * rows.shape[1]) if options.packed else rows.layout.quantizer
    return rows if quantizer is None else DecodedRows(rows, quantizer)


@contextmanager
def read_defaults(*, verify: bool = True, max_memory: int | None = None) -> Iterator[None]:
    """Set how :func:`read_space` reads in this block, for a command that reads several files."""
    token = _DEFAULTS.set(ReadOptions(verify=verify, max_memory=max_memory))
    try:
        yield
    finally:
        _DEFAULTS.reset(token)


def file_row(path: AnyPath, row: int) -> tuple[str, int]:
    """Return the file in which a row of a file, folder or glob stands, and its row there."""
    place = _place(path)
    for file in list_files(place) if isinstance(place, Path) else []:
        rows = len(read_space(file))
        if row < rows:
            return str(file), row
        row -= rows
    return str(place), row


def input_identity(path: AnyPath) -> list[list[Any]]:
    """Return the files that a path stands for, each with what changes when it is written again: its size and date.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "x.npy")
    >>> write_space(Space([[1.0]]), file)
    >>> before = input_identity(file)
    >>> write_space(Space([[2.0]]), file, overwrite=True)
    >>> before == input_identity(file)
    False
    """
    place = _place(path)
    if isinstance(place, RemotePath):
        return remote_identity(place)
    return [[str(file.resolve()), *file_identity(file)] for file in list_files(place)]


def writes_folder(path: AnyPath, format: str | None = None) -> bool:
    """Return whether a path becomes a local folder of Parquet files."""
    return format is None and not is_remote(path) and (str(path).endswith("/") or not Path(path).suffix)


def write_space(
    space: Space,
    path: AnyPath,
    *,
    format: str | None = None,
    others: bool = True,
    overwrite: bool = False,
    quantize: str | Quantizer | None = None,
) -> None:
    """Write a space with its keys, its other columns and its fingerprint, chunk by chunk and atomically.

    A path without a suffix becomes a folder of Parquet files; ``format="datasets"`` a folder for Hugging Face
    datasets. With ``others=False`` only keys and vectors are written. An existing file is replaced only with
    ``overwrite=True``. ``quantize`` writes codes with their scale (see :func:`relatent.spaces.space_writer`).
    """
    known = space.fingerprint
    with (
        ONE_THREAD,  # there are only the small products of the probe
        space_writer(path, fingerprint=known, format=format, overwrite=overwrite, quantize=quantize) as out,
    ):
        for chunk in space.chunks():
            out.write(chunk if others else _bare(chunk))


@contextmanager
def space_writer(
    path: AnyPath,
    *,
    fingerprint: Fingerprint | None = None,
    format: str | None = None,
    overwrite: bool = False,
    quantize: str | Quantizer | None = None,
) -> Iterator[SpaceWriter]:
    """Open a space for writing, chunk by chunk. The file appears when the block ends without an error.

    The fingerprint says what is known of the new vectors; its probe is measured while they pass. ``quantize`` writes
    int8, uint8 or binary codes into Parquet or Arrow files, with their scale, which is that of the first chunk unless
    a fitted :class:`Quantizer` is given.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "doubled.npy")
    >>> with space_writer(file) as out:
    ...     for chunk in Space([[1.0], [2.0]], keys=["a", "b"]).chunks(rows=1):
    ...         out.write(chunk.with_vectors(2 * chunk.vectors))
    >>> read_space(file).vectors.tolist()
    [[2.0], [4.0]]
    """
    _refuse_store(path)
    place = _place(path)
    create, merge = _format(place, format)
    if quantize is not None and not create.__module__.endswith((".parquet", ".arrow")):
        raise ValueError(f"{place} cannot hold codes with their scale: write them to Parquet or Arrow.")
    prepare = None if merge is None else partial(merge, overwrite=overwrite)
    begin: Any = partial(uploaded, place) if isinstance(place, RemotePath) else partial(atomic_write, place)
    with begin(overwrite=overwrite, prepare=prepare) as tmp:
        writer = SpaceWriter(create, tmp, fingerprint, quantize)
        try:
            yield writer
            writer.finish()
        finally:
            writer.close()


class SpaceWriter:
    """Takes chunks in order. The first one tells the columns, the dimension and the dtype."""

    def __init__(
        self, create: Create, path: Path, known: Fingerprint | None, quantize: str | Quantizer | None = None
    ) -> None:
        self._create, self._path, self._known, self._quantize = create, path, known, quantize
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
        if isinstance(self._quantize, str):
            fitted = Quantizer.fit(chunk.vectors, self._quantize) if len(chunk) else None
            self._quantize = fitted or Quantizer(self._quantize, chunk.vectors.shape[1])
        chunk = replace(chunk, layout=replace(chunk.layout, quantizer=self._quantize))
        if self._writer is None:
            self._columns = columns
            self._writer = self._create(self._path, chunk, self._fingerprint())
        self._writer.write(chunk)

    def finish(self) -> None:
        """Complete the file."""
        if self._writer is None:
            raise ValueError(f"Nothing was written to {self._path.name}: write at least one chunk, even an empty one.")
        self._writer.finish(self._fingerprint())

    def close(self) -> None:
        """Close the file, complete or not."""
        if self._writer is not None:
            self._writer.close()

    def _fingerprint(self) -> Fingerprint:
        known = self._known or Fingerprint(dim=self._columns[0])
        if known.dim != self._columns[0]:
            raise ValueError(
                f"The fingerprint says {known.dim} coordinates and the chunk has {self._columns[0]}: expected the same."
            )
        return replace(known, probe=self._probe.probe())


def check_new(path: AnyPath, *inputs: Space | AnyPath | None, overwrite: bool = False) -> None:
    """Refuse to write vectors to a store, and whatever :func:`check_output` refuses."""
    _refuse_store(path)
    check_output(path, *inputs, overwrite=overwrite)


def check_output(path: AnyPath, *inputs: Space | AnyPath | None, overwrite: bool = False) -> None:
    """Refuse to write over what is there, unless allowed, and over anything that is being read in any case.

    ``inputs`` are the spaces that are read and the paths of other files that are, such as a translator's.
    """
    place = _place(path)
    for given in inputs:
        source = given.path if isinstance(given, Space) else given
        if source is not None and _touches(place, _place(source)):
            raise FileError(f"{place} is what is read: nothing is written in place. Write to another path.")
    there = exists_remote(place) if isinstance(place, RemotePath) else os.path.lexists(place)
    if there and not overwrite:
        raise exists_already(place)


def _refuse_store(path: AnyPath) -> None:
    """Refuse to write to a store as if it were a file."""
    if is_store(path):
        name = Path(os.fspath(path).split("?")[0]).name
        problem = f"{name} is in a store, where a migration adds vectors beside the old ones and then serves them."
        words = "Use {}, or give a path that ends in .parquet to write a file."
        remedies = {"python": words.format("relatent.migrate"), "command": words.format("relatent migrate")}
        raise with_remedy(FileError(problem), **remedies)


def _place(path: AnyPath) -> Path | RemotePath:
    """Return a local path as such, one with file:// too, and a remote one as its URL."""
    if isinstance(path, RemotePath):
        return path
    return RemotePath(str(path)) if is_remote(path) else Path(str(path).removeprefix("file://"))


def _format(path: Path | RemotePath, format: str | None) -> tuple[Create, Callable[..., None] | None]:
    """Find what writes a path, and what merges its sidecars with those of the file that it replaces, if it has any."""
    if format == "datasets":
        return module_of("arrow").FolderWriter, None
    if format is not None:
        raise ValueError(f"There is no format {format!r} for folders.{suggest(format, ['datasets'])}")
    if str(path).endswith("/") or not Path(str(path)).suffix:
        return module_of("parquet").FolderWriter, None
    if str(path).endswith(".gz"):
        raise FileError(f"{path} cannot be written compressed: leave out .gz.")
    module = module_of(format_of(str(path)))
    return module.Writer, getattr(module, "merge_sidecars", None)


def _bare(chunk: Chunk) -> Chunk:
    names = [] if chunk.layout.key is None else [chunk.layout.key]
    order = tuple(name for name in chunk.layout.order if name in (*names, chunk.layout.vector))
    layout = Layout(chunk.layout.vector, chunk.layout.key, order)
    return replace(chunk, others=chunk.others.select(names), layout=layout)


def _touches(path: Path | RemotePath, source: Path | RemotePath) -> bool:
    """Return whether a path is what is read, a folder around it, or a file among those read."""
    if isinstance(path, RemotePath) or isinstance(source, RemotePath):
        return str(path).rstrip("/") == str(source).rstrip("/")
    there, read = path.resolve(), source.resolve()
    if path.exists() and source.exists() and path.samefile(source):
        return True
    return there == read or there in read.parents or (read.is_dir() and read in there.parents) or there.match(str(read))
