"""Which column is served, which is new and which is old: told by their names and by what an added column records.

A field keeps its name whatever its role, a column does not: the served field is always in the column that searches
read.

==============  ==============================  ===============================
role            before the switch               after it
==============  ==============================  ===============================
served          column ``vector``               column ``vector``: the added one
new, old        column ``new``: the added one   column ``vector_old``
==============  ==============================  ===============================
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from relatent.spaces.io.columns import ReadOptions, guess_layout, vector_dtype
from relatent.stores.address import Address, StoreError
from relatent.stores.lance.filters import quoted
from relatent.stores.store import Field

META = b"relatent.added"


@dataclass(frozen=True)
class Added:
    """What a column that was added records of itself, in the metadata of its schema. Renaming the column keeps it."""

    name: str
    """The name of its field, and of the column while it is new."""
    serves: str
    """The name of the column once it is served, and of the field that was served before."""
    metric: str = "cosine"
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def aside(self) -> str:
        """The name of the column that was served before, while this one is."""
        return f"{self.serves}_old"

    def column(self, kind: pa.DataType) -> pa.Field:
        """Return the column to add."""
        return pa.field(self.name, kind, metadata={META: json.dumps(asdict(self))})

    @staticmethod
    def of(column: pa.Field) -> Added | None:
        """Read what :meth:`column` wrote; None for a column that we did not add."""
        text = (column.metadata or {}).get(META)
        return None if text is None else Added(**json.loads(text))


@dataclass(frozen=True)
class Roles:
    """The key column, the vector fields by what they are for, and the column that each field is in."""

    key: str
    served: Field
    new: Field | None
    old: Field | None
    columns: Mapping[str, str]


def read_roles(address: Address, table: Any) -> Roles:
    """Find the roles of the columns of a table."""
    schema: pa.Schema = table.schema
    added = {column.name: record for column in schema if (record := Added.of(column)) is not None}
    vector = address.options.get("vector") or next((record.serves for record in added.values()), None)
    layout = guess_layout(address, schema, ReadOptions(vector=vector, key=address.options.get("key")))
    if layout.key is None:
        raise StoreError(f"{address} has no column that is named like a key: name it with ?key=.")
    served = layout.vector
    new = next((name for name, record in added.items() if name == record.name and record.serves == served), None)
    old = added[served].aside if served in added else None
    places = [name if name in schema.names else None for name in (served, new, old)]
    fields = [None if name is None else _field(table, name, served, address) for name in places]
    assert fields[0] is not None
    columns = {one.name: place for one, place in zip(fields, places, strict=True) if one is not None and place}
    return Roles(layout.key, fields[0], fields[1], fields[2], columns)


def list_type(of: Field) -> pa.DataType:
    """Return the Arrow type of the vectors of a field."""
    return pa.list_(pa.float16() if of.dtype == "float16" else pa.float32(), of.dim)


def _field(table: Any, column: str, served: str, address: Address) -> Field:
    """Describe a column. One that we did not add is the field that was served first, whatever it is called now."""
    kind, record = table.schema.field(column).type, Added.of(table.schema.field(column))
    dtype = str(vector_dtype(kind))
    if record is not None:
        return Field(record.name, kind.list_size, dtype, record.metric, record.provenance)
    metric = address.options.get("metric") or _index_metric(table, column) or "cosine"
    return Field(served, _dim(table, column), dtype, metric)


def _dim(table: Any, column: str) -> int:
    """Return the dimension: that of the type, or of the first vector where lists can have any length."""
    kind = table.schema.field(column).type
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    first = table.to_table(columns=[column], filter=f"{quoted(column)} IS NOT NULL", limit=1)[column]
    return len(first[0]) if len(first) else 0


def _index_metric(table: Any, column: str) -> str | None:
    """Return what the index of a column compares by, if it has one."""
    for index in table.describe_indices():
        if list(index.field_names) == [column]:
            metric = str((index.details or {}).get("metric_type", "")).lower()
            return {"dot": "inner"}.get(metric, metric) or None
    return None
