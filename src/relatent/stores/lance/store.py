"""The store over one Lance table; :mod:`relatent.stores.lance` says how it is laid out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._errors import needs
from relatent.spaces.chunks import Chunk, Layout, chunk_rows
from relatent.stores.address import Address, StoreError
from relatent.stores.checks import (
    NUMERIC_METRICS,
    RoleKeeper,
    as_queries,
    as_vectors,
    cannot_read,
    check_addable,
    check_kind,
    check_new,
    check_old,
    check_one_of,
    cut,
    key_column,
    readable,
    same_kind,
)
from relatent.stores.lance.filters import all_of, quoted, within
from relatent.stores.lance.merge import merge
from relatent.stores.lance.roles import Added, Roles, list_type, read_roles
from relatent.stores.locks import file_lock
from relatent.stores.parts import Parts
from relatent.stores.store import Field, Hits, Shard, Unreadable

# Within the table's folder, where Lance leaves alone what is not its own.
FOLDER = "_relatent"
TAG = "relatent-before-switch"
METRICS = {"cosine": "cosine", "inner": "dot", "l2": "l2"}
HELD = dict.fromkeys(("float32", "float16"), NUMERIC_METRICS)
NO_CODES = (
    "Lance compares no codes of eight bits that it is given: have its index code float16 vectors (?index=IVF_HNSW_SQ)."
)
# Times that a merge is begun again because the application changed the same rows meanwhile.
ATTEMPTS = 5


class LanceStore(RoleKeeper):
    """A table (:mod:`relatent.stores.lance`). Every operation looks at its latest version."""

    writes_while_read = True

    def __init__(self, address: Address) -> None:
        self.address = address
        self._folder = address.file / FOLDER
        self._parts = Parts(self._folder / "parts")
        if not address.file.is_dir():
            raise StoreError(f"{address} is not there: check the path.")
        self._look()

    # Roles ---------------------------------------------------------------------------------------------------------

    def _current(self) -> Roles:
        return self._look()[1]

    def _look(self) -> tuple[Any, Roles]:
        """Return the latest version of the table, and the roles of its columns."""
        with self._reporting():
            table = needs("lance", "lance", "open Lance tables").dataset(str(self.address.file))
        return table, read_roles(self.address, table)

    def _column(self, roles: Roles, of: Field) -> str:
        return roles.columns[check_one_of(self.address, of, roles.served, roles.new, roles.old).name]

    # Rows ----------------------------------------------------------------------------------------------------------

    def count(self, of: Field, shard: Shard | None = None) -> int:
        """Count the vectors of a column, and those that are still to be merged into it."""
        table, roles = self._look()
        column, among = quoted(self._column(roles, of)), within(roles.key, shard)
        count = int(table.count_rows(all_of(f"{column} IS NOT NULL", among)))
        if of != roles.new or not (waiting := self._parts.all_keys()):
            return count
        rest = table.to_table(columns=[roles.key], filter=all_of(f"{column} IS NULL", among))[roles.key]
        return count + int(pc.is_in(key_column(rest), value_set=pa.concat_arrays(waiting)).true_count)

    def shards(self, rows: int) -> list[Shard]:
        """Cut the sorted keys into shards of so many rows."""
        table, roles = self._look()
        return cut(self._keys(table, roles.key), rows)

    def state(self, shard: Shard) -> str | None:
        """Return which files hold the keys and the served vectors, and what was deleted from them."""
        table, roles = self._look()
        names = {roles.key, roles.columns[roles.served.name]}
        ids = {column.id() for column in table.lance_schema.fields() if column.name() in names}
        parts = []
        for fragment in (one.metadata for one in table.get_fragments()):
            files = [file.path for file in fragment.files if ids & {*file.fields}]
            parts.append((fragment.id, files, getattr(fragment.deletion_file, "id", None)))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def scan(
        self,
        of: Field,
        *,
        shard: Shard | None = None,
        rows: int | None = None,
        columns: Sequence[str] | None = (),
        unreadable: Unreadable | None = None,
    ) -> Iterator[Chunk]:
        """Read a range of keys at a time, all from the version that is the latest when the scan begins."""
        self._settle(of)
        table, roles = self._look()
        column = self._column(roles, of)
        # Of the new field, a null is an item that was not written yet; elsewhere it is a vector that cannot be read.
        filled = f"{quoted(column)} IS NOT NULL" if of == roles.new else None
        keys = self._keys(table, roles.key, all_of(filled, within(roles.key, shard)))
        others = [name for name in table.schema.names if name not in roles.columns.values()]
        names = [roles.key, *(name for name in (others if columns is None else columns) if name != roles.key)]
        size, start = chunk_rows(of.dim, np.dtype(of.dtype), rows), 0
        for first in range(0, len(keys), size):
            part = Shard(keys[first].as_py(), keys[first + size].as_py() if first + size < len(keys) else None)
            bounds = all_of(filled, within(roles.key, part), within(roles.key, shard))
            read = table.to_table(columns=[*names, column], filter=bounds).sort_by(roles.key)
            chunk = self._chunk(read, column, of, Layout(of.name, roles.key, (*names, of.name)), start, unreadable)
            yield chunk
            start += len(chunk)

    def _keys(self, table: Any, key: str, condition: str | None = None) -> pa.Array:
        """Read keys and sort them; keys that are missing or repeated name no row."""
        keys = table.to_table(columns=[key], filter=condition)[key].combine_chunks()
        if keys.null_count:
            raise StoreError(f"{keys.null_count} rows of {self.address} have no key in column {key!r}: give them one.")
        keys = keys.take(pc.sort_indices(keys))
        twice = keys[1:].filter(pc.equal(keys[1:], keys[:-1]))
        if len(twice):
            raise StoreError(
                f"{twice[0].as_py()!r} is the key of several rows of {self.address}: name another column with ?key=, "
                "or drop these rows."
            )
        return keys

    def _chunk(
        self, read: pa.Table, column: str, of: Field, layout: Layout, start: int, unreadable: Unreadable | None
    ) -> Chunk:
        """Return the rows that can be read."""
        sizes = pc.fill_null(pc.list_value_length(read[column]), -1).to_numpy()
        for row in np.flatnonzero(sizes != of.dim):
            reason = "it is null" if sizes[row] < 0 else f"it has {sizes[row]} coordinates, not {of.dim}"
            cannot_read(self.address, read[layout.key][int(row)].as_py(), reason, unreadable)
        read = read.filter(pa.array(sizes == of.dim))
        # A null inside of a vector becomes NaN, which is not finite.
        flat = read[column].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        vectors = flat.reshape(len(read), of.dim).astype(of.dtype, copy=False)
        others = read.drop_columns([column])
        fine = readable(self.address, others[layout.key], vectors, unreadable)
        if not fine.all():
            vectors, others = vectors[fine], others.filter(pa.array(fine))
        return Chunk(start, vectors, others, layout)

    # The new field -------------------------------------------------------------------------------------------------

    def add(self, new: Field) -> Field:
        """Add a column of nulls: a version of the table that rewrites nothing."""
        table, roles = self._look()
        if not check_addable(self.address, new, roles.new, roles.old):
            return new
        check_kind(self.address, new, HELD, NO_CODES)
        added = Added(new.name, roles.columns[roles.served.name], new.metric, dict(new.provenance))
        taken = {added.name, added.aside} & {*table.schema.names, roles.served.name}
        if taken:
            raise StoreError(f"{self.address} has a field or column {taken.pop()!r} already: give another name.")
        self._parts.remove()
        self._parts.make_folder()
        with self._reporting():
            table.add_columns(added.column(list_type(new)))
        return new

    def write(self, into: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Write a part beside the table; it is merged when the column is read, indexed or served."""
        table, roles = self._look()
        new = check_new(self.address, roles.new, into)
        kept = as_vectors(self.address, new, vectors)
        if len(kept):
            kind = key_column(pa.array([], table.schema.field(roles.key).type)).type
            self._parts.write(same_kind(self.address, keys, kind), kept)

    def _settle(self, of: Field) -> None:
        """Merge what was written into the new column, all of it in one version of the table."""
        if of != self.new or not self._parts.files():
            return
        with file_lock(self._folder / "merging", self.address):
            for attempt in range(ATTEMPTS):
                try:
                    self._merge(of)
                    return
                except OSError as error:
                    if "conflict" not in str(error).lower() or attempt == ATTEMPTS - 1:
                        raise self._error(error) from error

    def _merge(self, of: Field) -> None:
        files = self._parts.files()
        table, roles = self._look()
        merge(table, roles.key, self._column(roles, of), list(self._parts.newest_first()))
        self._parts.forget(files)

    def remove_orphans(self, of: Field) -> int:
        """Merge what was written; a row that was deleted has taken its vector with it."""
        self._settle(check_new(self.address, self.new, of))
        return 0

    def build_index(self, of: Field) -> None:
        """Build the kind of index that was asked for, or that the served column has; without either, searches scan."""
        self._settle(of)
        table, roles = self._look()
        column, served = self._column(roles, of), roles.columns[roles.served.name]
        built = {tuple(index.field_names): index for index in table.describe_indices()}
        kind = self.address.options.get("index") or getattr(built.get((served,)), "index_type", None)
        segments = getattr(built.get((column,)), "segments", ())
        covered = {fragment for segment in segments for fragment in segment.fragment_ids}
        if kind is None or covered >= {fragment.fragment_id for fragment in table.get_fragments()}:
            return
        with self._reporting():
            table.create_index(quoted(column), kind, metric=METRICS[of.metric], replace=True)

    def search(self, vectors: np.ndarray, k: int, *, of: Field | None = None, exact: bool = False) -> Hits:
        """Search by Lance itself; what an index finds is measured anew, so that scores are exact."""
        if of is not None:
            self._settle(of)
        table, roles = self._look()
        field = roles.served if of is None else of
        queries = as_queries(self.address, field, vectors)
        asked = {"column": self._column(roles, field), "k": k, "metric": METRICS[field.metric], "use_index": not exact}
        keys: list[list[Any]] = []
        scores = np.full((len(queries), k), -np.inf, np.float32)
        for row, query in enumerate(queries):
            with self._reporting():
                nearest = {**asked, "q": query, "refine_factor": 2}
                found = table.to_table(columns=[roles.key, "_distance"], nearest=nearest)
            keys.append(found[roles.key].to_pylist())
            scores[row, : len(found)] = _score(found["_distance"].to_numpy(), field.metric)
        return Hits(keys, scores)

    # Cutover -------------------------------------------------------------------------------------------------------

    def switch(self) -> None:
        """Rename both columns in one version of the table; the version before is tagged."""
        self._settle(check_new(self.address, self.new))
        table, roles = self._look()
        added = _record(table, self._column(roles, check_new(self.address, roles.new)))
        with self._reporting():
            (table.tags.update if TAG in table.tags.list() else table.tags.create)(TAG, table.version)
            _rename(table, {added.serves: added.aside, added.name: added.serves})

    def switch_back(self) -> None:
        """Rename both columns back in one version of the table."""
        table, roles = self._look()
        check_old(self.address, roles.old)
        added = _record(table, roles.columns[roles.served.name])
        with self._reporting():
            _rename(table, {added.serves: added.name, added.aside: added.serves})
            if TAG in table.tags.list():
                table.tags.delete(TAG)

    def drop_new(self) -> None:
        """Remove the column from the latest version, and what was not merged into it."""
        table, roles = self._look()
        column = self._column(roles, check_new(self.address, roles.new))
        with self._reporting():
            table.drop_columns([column])
        self._parts.remove()

    def drop_old(self) -> None:
        """Remove the column from the latest version. Earlier ones keep it until their owner cleans them up."""
        table, roles = self._look()
        column = self._column(roles, check_old(self.address, roles.old))
        with self._reporting():
            if TAG in table.tags.list():  # it would keep the version that has both columns
                table.tags.delete(TAG)
            table.drop_columns([column])

    def lock(self) -> AbstractContextManager[None]:
        """Lock a file in our folder."""
        self._folder.mkdir(exist_ok=True)
        return file_lock(self._folder / "lock", self.address)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Say in a store's words what Lance refuses."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> StoreError:
        return StoreError(f"{self.address} was refused by Lance: {str(error).splitlines()[0]}")


def _record(table: Any, column: str) -> Added:
    added = Added.of(table.schema.field(column))
    assert added is not None  # it is of a role that only an added column has
    return added


def _rename(table: Any, names: dict[str, str]) -> None:
    table.alter_columns(*({"path": quoted(old), "name": new} for old, new in names.items()))


def _score(distances: np.ndarray, metric: str) -> np.ndarray:
    """Return the cosine or inner product, or minus the distance, of which Lance gives the square."""
    return np.asarray(-np.sqrt(distances) if metric == "l2" else 1 - distances)
