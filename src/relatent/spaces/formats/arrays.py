"""Named arrays: what .npz, safetensors and HDF5 share. One matrix, and one array per other column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._atomic import FileError
from relatent.spaces.chunks import Chunk, Layout, empty_others
from relatent.spaces.formats.columns import VECTOR_NAMES, Reading, choose, refuse_keys
from relatent.spaces.formats.columns import with_key as with_key_column

__all__ = ["PACKED", "Packed", "Shape", "find_layout", "pack", "unpack"]

# Columns that are not plain numbers travel in one Arrow stream under this name.
PACKED = "others.arrow"


@dataclass(frozen=True)
class Shape:
    """The shape of a stored array and whether it holds numbers."""

    shape: tuple[int, ...]
    floating: bool
    flaw: str = ""
    """Why it cannot be read, if so."""


@dataclass(frozen=True)
class Packed:
    """Other columns as arrays; those that cannot be one are in ``rest``."""

    plain: dict[str, np.ndarray]
    rest: pa.Table

    def stream(self) -> np.ndarray | None:
        """Give the rest as the bytes of one Arrow stream, or None when there is none."""
        if not self.rest.column_names:
            return None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.rest.schema) as writer:
            writer.write_table(self.rest)
        return np.frombuffer(sink.getvalue(), np.uint8)


def find_layout(path: Path, shapes: dict[str, Shape], reading: Reading) -> Layout:
    """Find the matrix and the keys among named arrays."""
    matrices = [name for name, s in shapes.items() if len(s.shape) == 2 and s.floating]
    vector = choose(path, "vector", reading.vector, shapes, matrices, VECTOR_NAMES)
    if vector is None or len(shapes[vector].shape) != 2:
        listed = ", ".join(f"{name} {s.shape}" for name, s in shapes.items()) or "nothing"
        raise FileError(f"{path} holds {listed}: expected a matrix of numbers, one vector per row.")
    rows = shapes[vector].shape[0]
    columns = [name for name, s in shapes.items() if s.shape == (rows,) and name not in (vector, PACKED)]
    others = {name: s for name, s in shapes.items() if name not in (vector, PACKED, *columns)}
    refuse_keys(path, {name: s.flaw or f"has shape {s.shape} beside {rows} vectors" for name, s in others.items()})
    return Layout(vector, None, (*columns, vector))


def with_key(path: Path, layout: Layout, table: pa.Table, reading: Reading) -> Layout:
    """Find the keys among the other columns."""
    layout = Layout(layout.vector, None, (*table.column_names, layout.vector))
    return with_key_column(path, layout, table.schema, reading)


def pack(others: pa.Table, text: bool) -> Packed:
    """Give columns of numbers (and of text, if the format has it) as arrays, and the rest as a table."""
    plain, rest = {}, []
    for name in others.column_names:
        column = others.column(name)
        kind = column.type
        number = (pa.types.is_integer(kind) or pa.types.is_floating(kind)) and not column.null_count
        if number or (text and pa.types.is_string(kind) and not column.null_count):
            plain[name] = np.asarray(column.to_numpy())
        else:
            rest.append(name)
    return Packed(plain, others.select(rest))


def unpack(rows: int, layout: Layout, load: Callable[[str], Any], stream: np.ndarray | None) -> pa.Table:
    """Put arrays and the Arrow stream back into one table."""
    columns = {name: _column(load(name)) for name in layout.order if name != layout.vector}
    if stream is not None:
        rest = pa.ipc.open_stream(pa.py_buffer(np.ascontiguousarray(stream))).read_all()
        columns |= {name: rest.column(name) for name in rest.column_names}
    return pa.table(columns) if columns else empty_others(rows)


def _column(array: np.ndarray) -> Any:
    if array.dtype.kind in "US":
        return pa.array(array.astype(str).tolist(), pa.string())
    if array.dtype.kind == "O":
        values = [value.decode("utf8") if isinstance(value, bytes) else value for value in array]
        return pa.array(values, pa.string())
    return pa.array(np.ascontiguousarray(array))


class OthersGathered:
    """Other columns, gathered over chunks: small beside the vectors."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []

    def add(self, chunk: Chunk) -> None:
        """Keep the other columns of a chunk."""
        self._tables.append(chunk.others)

    def packed(self, text: bool) -> Packed:
        """Give all of them, ready to be stored."""
        return pack(pa.concat_tables(self._tables, promote_options="permissive"), text)
