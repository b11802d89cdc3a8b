"""safetensors: the vectors and columns of numbers as tensors, text beside them, the fingerprint in the metadata."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from relatent._files import FileError
from relatent.spaces.chunks import Chunk, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.arrays import Container, VectorWriter, file_notes, open_container
from relatent.spaces.io.columns import ReadOptions
from relatent.spaces.io.matrix import Shape, StoredMatrix

DTYPES = {
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "BOOL": "?",
    "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "U8": "<u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip
NAMES = {np.dtype(value): name for name, value in DTYPES.items()}
# Space for the header, which is known only when everything is written.
HEADER = 2**16


def open_rows(path: Path, options: ReadOptions) -> Rows:
    """Open a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy"):
            pass  # it checks the header and the length of the file
    except SafetensorError as error:
        raise FileError(f"{path} cannot be read ({error}): it is cut short or damaged. Get a new copy.") from error
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(length))
    notes = header.pop("__metadata__", {})
    tensors = {name: _matrix(path, about, 8 + length) for name, about in header.items()}
    shapes = {name: Shape(tensor.shape, tensor.stored) for name, tensor in tensors.items()}

    def load(name: str) -> np.ndarray:
        with path.open("rb") as file:
            file.seek(tensors[name].offset)
            raw = np.frombuffer(file.read(shapes[name].nbytes), shapes[name].dtype)
        return tensors[name].decoded(raw.reshape(shapes[name].shape))

    def matrix(name: str, sums: np.ndarray | None) -> StoredMatrix:
        return replace(tensors[name], sums=sums)

    return open_container(Container(path, shapes, load, notes, matrix), options)


def _matrix(path: Path, about: dict[str, Any], base: int) -> StoredMatrix:
    bfloat16 = about["dtype"] == "BF16"
    if about["dtype"] not in DTYPES and not bfloat16:
        raise FileError(f"{path} holds a tensor of {about['dtype']}: expected one of {', '.join(DTYPES)}, BF16.")
    stored = np.dtype("<u2" if bfloat16 else DTYPES[about["dtype"]])
    offset = base + int(about["data_offsets"][0])
    return StoredMatrix(path, tuple(about["shape"]), stored, offset, bfloat16=bfloat16)


class Writer(VectorWriter):
    """Writes the vectors as they come, then the other columns, then the header into the space left for it."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        super().__init__(path.open("wb"), first)
        self._file.write(b"\0" * (8 + HEADER))

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write the other columns and the header."""
        arrays, shape = self._arrays(text=False), self.shape
        end = shape.nbytes
        header: dict[str, Any] = {"__metadata__": file_notes(self._name, shape, arrays, fingerprint)}
        header[self._name] = {"dtype": NAMES[shape.dtype], "shape": list(shape.shape), "data_offsets": [0, end]}
        # Wider elements first keep every tensor aligned.
        for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):
            self._file.write(np.ascontiguousarray(array).data if array.size else b"")
            offsets = [end, end + array.nbytes]
            header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
            end += array.nbytes
        self._write_header(json.dumps(header).encode())

    def _write_header(self, header: bytes) -> None:
        if len(header) > HEADER:
            raise FileError(f"{self._file.name} would have a header of {len(header):,} bytes: write Parquet instead.")
        self._file.seek(0)
        self._file.write(HEADER.to_bytes(8, "little") + header.ljust(HEADER))
        self._file.flush()
