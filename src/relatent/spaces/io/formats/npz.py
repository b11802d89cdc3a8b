"""NumPy's .npz: the vectors, keys and columns as named arrays, stored as they are; compressed ones are read too."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from relatent._files import FileError
from relatent.spaces.chunks import Chunk, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.arrays import CHECKS, FINGERPRINT, Container, file_notes, open_container
from relatent.spaces.io.columns import ReadOptions, refuse_keys
from relatent.spaces.io.formats.npy import NpyWriter, read_header
from relatent.spaces.io.matrix import Shape, StoredMatrix, check_size

NOTES = (FINGERPRINT, CHECKS)
PICKLED = "holds Python objects, which would have to be unpickled"


def open_rows(path: Path, options: ReadOptions) -> Rows:
    """Open an .npz file."""
    with zipfile.ZipFile(path) as archive:
        members = _Members(path, archive, options)
        notes = {name: str(members.load(name)) for name in NOTES if name in members.headers}
        shapes = {name: m.shape for name, m in members.headers.items() if name not in NOTES}
        return open_container(Container(path, shapes, members.load, notes, members.matrix), options)


class _Header:
    """The header of a member, read without its data."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        self.info = info
        with archive.open(info) as member:
            shape, self.fortran, dtype = read_header(path, member)
            self.length = member.tell()
        self.shape = Shape(shape, dtype)


class _Members:
    def __init__(self, path: Path, archive: zipfile.ZipFile, options: ReadOptions) -> None:
        self._path, self._archive, self._options = path, archive, options
        infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        headers = {info.filename.removesuffix(".npy"): _Header(path, archive, info) for info in infos}
        pickled = {name: PICKLED for name, header in headers.items() if header.shape.dtype.hasobject}
        refuse_keys(path, pickled)
        wanted = [name for name in (options.key, options.vector) if name in pickled]
        if wanted:
            raise FileError(f"{path} has {wanted[0]!r}, which {PICKLED}: save it as text (.astype(str)) or numbers.")
        self.headers = {name: header for name, header in headers.items() if name not in pickled}

    def load(self, name: str) -> np.ndarray:
        """Read an array; zipfile checks the CRC of its bytes."""
        check_size(self._path, repr(name), self.headers[name].shape.nbytes, self._options)
        with self._archive.open(self.headers[name].info) as member:
            return np.asarray(np.lib.format.read_array(member, allow_pickle=False))

    def matrix(self, name: str, sums: np.ndarray | None) -> StoredMatrix:
        """Describe where a matrix stands: in the file itself, or behind a decompressor."""
        header = self.headers[name]
        stored = header.info.compress_type == zipfile.ZIP_STORED
        matrix = StoredMatrix(
            self._path,
            header.shape.shape,  # type: ignore[arg-type]  # the layout has found it to be a matrix
            header.shape.dtype,
            header.length + (self._begin(header.info) if stored else 0),
            member=None if stored else header.info.filename,
            fortran=header.fortran,
            sums=sums,
        )
        matrix.check_length(self._path.stat().st_size if stored else header.info.file_size)
        if not stored:  # a few bytes may stand for gigabytes, and a reader may want all of them
            check_size(self._path, "its vectors", header.shape.nbytes, self._options)
        return matrix

    def _begin(self, info: zipfile.ZipInfo) -> int:
        """Find where a member that is stored as it is begins."""
        if self._archive.fp is None:
            raise FileError(f"{self._path} was closed while it was opened.")
        self._archive.fp.seek(info.header_offset + 26)
        name, extra = (int.from_bytes(self._archive.fp.read(2), "little") for _ in range(2))
        return int(info.header_offset + 30 + name + extra)


class Writer(NpyWriter):
    """Writes vectors to a temporary file and packs them at the end, since a zip cannot be patched."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        super().__init__(tempfile.TemporaryFile(dir=path.parent), first)  # noqa: SIM115 (closed in close)
        self._path = path

    def finish(self, fingerprint: Fingerprint) -> None:
        """Pack everything into one file."""
        self._write_header()
        arrays = self._arrays(text=True)
        notes = file_notes(self._name, self.shape, arrays, fingerprint)
        with zipfile.ZipFile(self._path, "w", allowZip64=True) as file:
            self._file.seek(0)
            with file.open(f"{self._name}.npy", "w", force_zip64=True) as member:
                shutil.copyfileobj(self._file, member, 2**22)
            for name, array in {**arrays, **notes}.items():
                with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
