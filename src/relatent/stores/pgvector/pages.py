"""Rows as they are read: many at a time as one row of the database, with all their vectors in one value.

A value of megabytes crosses a socket in a few steps, where rows of their own wake up both sides every few kilobytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from relatent.spaces.chunks import Chunk, Layout
from relatent.stores.address import Address
from relatent.stores.checks import cannot_read
from relatent.stores.pgvector.table import Table
from relatent.stores.pgvector.wire import decode
from relatent.stores.store import Field, Unreadable


@dataclass(frozen=True)
class Page:
    """Rows in order of their keys."""

    dims: list[int | None]
    """The dimension of each row's vector, None where it is null."""
    vectors: bytes
    """The vectors of the field's dimension, one after the other."""
    columns: dict[str, list[Any]]
    """The values of the other columns, of every row."""

    def chunk(self, address: Address, table: Table, of: Field, start: int, unreadable: Unreadable | None) -> Chunk:
        """Return the rows that can be read, and tell of the others."""
        kinds = {name: column.arrow for name, column in zip(self.columns, table.payload([*self.columns]), strict=True)}
        others = pa.table({name: pa.array(values, kinds[name]) for name, values in self.columns.items()})
        bad = [row for row, dim in enumerate(self.dims) if dim != of.dim]
        for row in bad:
            reason = "it is null" if self.dims[row] is None else "it has another dimension than the first"
            cannot_read(address, self.columns[table.key.name][row], reason, unreadable)
        if bad:
            others = others.filter(pa.array([dim == of.dim for dim in self.dims]))
        layout = Layout(of.name, table.key.name, (*self.columns, of.name))
        return Chunk(start, decode(of.dtype, of.dim, self.vectors), others, layout)


def read_pages(
    cursor: Any, ask: Callable[[Any], Any], wanted: list[str], key: str, rows: int
) -> Generator[Page, None, None]:
    """Yield pages of so many rows; ``ask`` returns the statement of the page behind a key, of the first for None."""
    after = None
    while True:
        dims, vectors, *columns = cursor.execute(ask(after)).fetchone()
        if dims is None:
            return
        page = Page(dims, vectors or b"", dict(zip(wanted, columns, strict=True)))
        yield page
        if len(dims) < rows:
            return
        after = page.columns[key][-1]
