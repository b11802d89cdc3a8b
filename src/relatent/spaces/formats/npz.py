"""NumPy's .npz: the vectors, keys and columns as named arrays; vectors are memory-mapped unless compressed."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from relatent._atomic import FileError
from relatent.spaces.chunks import ArrayRows, Chunk, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.formats.arrays import PACKED, OthersGathered, Shape, find_layout, unpack, with_key
from relatent.spaces.formats.columns import META, Reading, stored_fingerprint
from relatent.spaces.formats.mapped import MappedFile
from relatent.spaces.formats.npy import NpyVectors, array_at

__all__ = ["Writer", "open_rows"]

FINGERPRINT = META.decode()


def open_rows(path: Path, reading: Reading) -> Rows:
    """Open an .npz file."""
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        load = _loader(path, file)
        shapes = {name: _shape(file, name) for name in file.files if name != FINGERPRINT}
        layout = find_layout(path, shapes, reading)
        stream = load(PACKED) if PACKED in file.files else None
        recorded = {META: str(load(FINGERPRINT)).encode()} if FINGERPRINT in file.files else None
        vectors, mapped = _vectors(path, file, layout.vector)
        if vectors.dtype.kind != "f" or reading.dtype:
            vectors = vectors.astype(reading.dtype or np.float32)
        table = unpack(len(vectors), layout, load, stream)
    forget = None if mapped is None else mapped.forget
    return ArrayRows(vectors, table, with_key(path, layout, table, reading), stored_fingerprint(recorded, path), forget)


def _loader(path: Path, file: Any) -> Any:
    def load(name: str) -> np.ndarray:
        try:
            return np.asarray(file[name])
        except ValueError as error:
            raise FileError(f"{path} holds Python objects under {name!r} or is damaged ({error}).") from error

    return load


def _shape(file: Any, name: str) -> Shape:
    """Read the header of a member, not its data."""
    with file.zip.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = reader(member)
    if dtype.hasobject:
        return Shape((), False, "holds Python objects, which would have to be unpickled")
    return Shape(shape, dtype.kind in "fiu")


def _vectors(path: Path, file: Any, name: str) -> tuple[np.ndarray, MappedFile | None]:
    offset = _stored_at(file.zip, file.zip.getinfo(f"{name}.npy"))
    if offset is None:
        return np.asarray(file[name]), None
    mapped = MappedFile(path)
    return array_at(mapped, offset), mapped


def _stored_at(file: zipfile.ZipFile, info: zipfile.ZipInfo) -> int | None:
    """Find where a member of a zip file begins, if it is stored as it is."""
    if info.compress_type != zipfile.ZIP_STORED or file.fp is None:
        return None
    file.fp.seek(info.header_offset + 26)
    name, extra = (int.from_bytes(file.fp.read(2), "little") for _ in range(2))
    return int(info.header_offset + 30 + name + extra)


class Writer:
    """Writes vectors aside and packs them with the other columns at the end, since a zip cannot be patched."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        self._path, self._name = path, first.layout.vector
        self._aside = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115 (closed in release)
        self._vectors = NpyVectors(self._aside, first.vectors.shape[1], first.vectors.dtype)
        self._others = OthersGathered()

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self._vectors.append(chunk.vectors)
        self._others.add(chunk)

    def finish(self, fingerprint: Fingerprint) -> None:
        """Pack everything into one file."""
        self._vectors.finish()
        packed = self._others.packed(text=True)
        arrays = {**packed.plain, FINGERPRINT: np.asarray(fingerprint.to_json())}
        stream = packed.stream()
        with zipfile.ZipFile(self._path, "w", allowZip64=True) as file:
            self._aside.seek(0)
            with file.open(f"{self._name}.npy", "w", force_zip64=True) as member:
                while block := self._aside.read(2**22):
                    member.write(block)
            for name, array in (arrays if stream is None else {**arrays, PACKED: stream}).items():
                with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                    plain = array.astype(str) if array.dtype.kind == "O" else array
                    np.lib.format.write_array(member, plain, allow_pickle=False)

    def release(self) -> None:
        """Let go of the file aside."""
        self._aside.close()
