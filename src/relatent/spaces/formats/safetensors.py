"""safetensors: the vectors and columns of numbers as tensors, text beside them, the fingerprint in the metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from relatent._atomic import FileError
from relatent.spaces.chunks import ArrayRows, Chunk, Rows
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.formats.arrays import PACKED, OthersGathered, Shape, find_layout, unpack, with_key
from relatent.spaces.formats.columns import META, Reading, stored_fingerprint
from relatent.spaces.formats.mapped import MappedFile

__all__ = ["Writer", "open_rows"]

DTYPES = {
    "F16": "<f2", "F32": "<f4", "F64": "<f8", "BOOL": "?",
    "I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8",
    "U8": "<u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip
NAMES = {np.dtype(value): name for name, value in DTYPES.items()}
# Room for the header, which is known only when everything is written.
HEADER = 2**16


def open_rows(path: Path, reading: Reading) -> Rows:
    """Open a safetensors file."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy"):
            pass  # it checks the header and the length of the file
    except SafetensorError as error:
        raise FileError(f"{path} cannot be read ({error}): it is cut short or damaged. Get a new copy.") from error
    mapped = MappedFile(path)
    length = int.from_bytes(mapped.part(0, 8), "little")
    header: dict[str, Any] = json.loads(mapped.part(8, 8 + length))
    metadata = header.pop("__metadata__", {})
    shapes = {name: Shape(tuple(t["shape"]), t["dtype"][0] in "FBIU") for name, t in header.items()}
    layout = find_layout(path, shapes, reading)

    def load(name: str) -> np.ndarray:
        return _tensor(mapped, header[name], 8 + length)

    vectors = load(layout.vector)
    if vectors.dtype.kind != "f" or reading.dtype:
        vectors = vectors.astype(reading.dtype or np.float32)
    table = unpack(len(vectors), layout, load, load(PACKED) if PACKED in header else None)
    layout = with_key(path, layout, table, reading)
    recorded = {key.encode(): value.encode() for key, value in metadata.items()}
    return ArrayRows(vectors, table, layout, stored_fingerprint(recorded, path), mapped.forget)


def _tensor(mapped: MappedFile, about: dict[str, Any], base: int) -> np.ndarray:
    shape, start = tuple(about["shape"]), base + int(about["data_offsets"][0])
    if about["dtype"] == "BF16":  # the upper half of a float32
        halves = mapped.array(np.dtype("<u2"), shape, start)
        return (halves.astype(np.uint32) << 16).view(np.float32)
    if about["dtype"] not in DTYPES:
        raise FileError(f"{mapped.path} holds a tensor of {about['dtype']}: expected one of {', '.join(DTYPES)}.")
    return mapped.array(np.dtype(DTYPES[about["dtype"]]), shape, start)


class Writer:
    """Writes the vectors as they come, then the other columns, then the header into the room left for it."""

    def __init__(self, path: Path, first: Chunk, _early: Fingerprint) -> None:
        self._name, self._dim, self._dtype = first.layout.vector, first.vectors.shape[1], first.vectors.dtype
        self._file = path.open("wb")
        self._file.write(b"\0" * (8 + HEADER))
        self._others = OthersGathered()
        self._rows = 0

    def write(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self._file.write(np.ascontiguousarray(chunk.vectors, dtype=self._dtype).data if chunk.vectors.size else b"")
        self._rows += len(chunk)
        self._others.add(chunk)

    def finish(self, fingerprint: Fingerprint) -> None:
        """Write the other columns and the header."""
        packed = self._others.packed(text=False)
        stream = packed.stream()
        arrays = packed.plain if stream is None else {**packed.plain, PACKED: stream}
        end = self._rows * self._dim * self._dtype.itemsize
        header: dict[str, Any] = {"__metadata__": {META.decode(): fingerprint.to_json()}}
        header[self._name] = {"dtype": NAMES[self._dtype], "shape": [self._rows, self._dim], "data_offsets": [0, end]}
        # Wider elements first keep every tensor aligned.
        for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):
            self._file.write(np.ascontiguousarray(array).data if array.size else b"")
            offsets = [end, end + array.nbytes]
            header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
            end += array.nbytes
        self._write_header(json.dumps(header).encode())

    def release(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _write_header(self, header: bytes) -> None:
        if len(header) > HEADER:
            raise FileError(f"{self._file.name} would have a header of {len(header):,} bytes: write Parquet instead.")
        self._file.seek(0)
        self._file.write(HEADER.to_bytes(8, "little") + header.ljust(HEADER))
        self._file.flush()
