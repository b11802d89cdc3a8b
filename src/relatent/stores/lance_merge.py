"""Merge vectors into a column of a Lance table: one new data file per fragment that has any, committed in one version.

The files that the table had are kept as they are; the version before is still there to go back to. Whatever was in
the column and is not replaced is carried over.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._errors import needs
from relatent.spaces.io.columns import as_matrix
from relatent.stores.fields import key_column

# Rows that are put together in memory at a time.
ROWS = 8_192
# The row address of Lance: the fragment in the upper half, the row of the fragment in the lower.
OFFSET = 0xFFFFFFFF
# The id of a field that a data file holds and that is not read any more.
TOMBSTONE = -2


def merge(table: Any, key: str, name: str, parts: Sequence[tuple[pa.Array, np.ndarray]]) -> None:
    """Set the vectors of these keys in a column; of two vectors of a key the first counts. Other keys are ignored."""
    operation = needs("lance", "lance", "write Lance tables").LanceOperation
    keys = pa.concat_arrays([part for part, _ in parts])
    vectors = _Stacked([matrix for _, matrix in parts])
    column = next(one for one in table.lance_schema.fields() if one.name() == name)
    updated = []
    for fragment in table.get_fragments():
        rows = key_column(fragment.to_table(columns=[key])[key])
        found = pc.fill_null(pc.index_in(rows, value_set=keys), -1).to_numpy()
        if (found >= 0).any():
            file = f"{uuid.uuid4()}.lance"
            _write(Path(table.uri, "data", file), table, name, _values(fragment, name, found, vectors))
            updated.append(_with_file(fragment.metadata, file, column.id(), table.data_storage_version))
    if updated:
        changes = operation.Update(
            updated_fragments=updated, fields_modified=[column.id()], update_mode="rewrite_columns"
        )
        type(table).commit(table, changes, read_version=table.version)


class _Stacked:
    """Matrices under each other, of which rows are taken without putting the matrices together."""

    def __init__(self, matrices: list[np.ndarray]) -> None:
        self._matrices = matrices
        self._starts = np.cumsum([0, *(len(matrix) for matrix in matrices)])

    def take(self, rows: np.ndarray) -> np.ndarray:
        which = np.searchsorted(self._starts, rows, side="right") - 1
        taken = np.empty((len(rows), self._matrices[0].shape[1]), self._matrices[0].dtype)
        for one in np.unique(which):
            inside = which == one
            taken[inside] = self._matrices[one][rows[inside] - self._starts[one]]
        return taken


def _values(fragment: Any, name: str, found: np.ndarray, vectors: _Stacked) -> Iterator[pa.Array]:
    """Return the column for every physical row of a fragment: null where it was deleted or has no vector."""
    at = done = 0
    for batch in fragment.to_batches(columns=[name], with_row_address=True, batch_size=ROWS):
        offsets = (batch["_rowaddr"].to_numpy() & OFFSET).astype(np.int64)
        fresh = found[at : at + len(batch)]
        kept = (fresh < 0) & batch[name].is_valid().to_numpy(zero_copy_only=False)
        values = np.zeros((int(offsets[-1]) + 1 - done, batch[name].type.list_size), vectors.take(fresh[:0]).dtype)
        values[offsets[fresh >= 0] - done] = vectors.take(fresh[fresh >= 0])
        values[offsets[kept] - done] = as_matrix(batch[name].filter(pa.array(kept)), name, 0, values.shape[1])
        empty = np.ones(len(values), bool)
        empty[offsets[(fresh >= 0) | kept] - done] = False
        flat = pa.array(values.reshape(-1))
        yield pa.FixedSizeListArray.from_arrays(flat, values.shape[1], mask=pa.array(empty))
        at, done = at + len(batch), int(offsets[-1]) + 1
    yield pa.nulls(fragment.physical_rows - done, fragment.schema.field(name).type)


def _write(path: Path, table: Any, name: str, columns: Iterator[pa.Array]) -> None:
    writer = needs("lance.file", "lance", "write Lance tables").LanceFileWriter
    schema = pa.schema([pa.field(name, table.schema.field(name).type)])
    with writer(str(path), schema, version=table.data_storage_version) as file:
        for column in columns:
            file.write_batch(pa.record_batch([column], schema=schema))


def _with_file(fragment: Any, path: str, column: int, version: str) -> Any:
    """Return the metadata of a fragment whose column is in another file."""
    data_file = needs("lance.fragment", "lance", "write Lance tables").DataFile
    for file in fragment.files:
        file.fields = [TOMBSTONE if one == column else one for one in file.fields]
    kept = [file for file in fragment.files if {*file.fields} - {TOMBSTONE}]
    fragment.files = [*kept, data_file(path, [column], [0], *map(int, version.split(".")))]
    return fragment
