"""Lance and LanceDB: a new field is a new column of the table, and serving it renames two columns in one version.

``lance:///folder/table.lance`` or a path that ends in ``.lance``; a table of LanceDB is such a folder.

==============  ===============================================================================================
``?vector=``    the column of the vectors, where the guess by name is wrong
``?key=``       the column of the keys, likewise; they must be unique
``?metric=``    cosine, inner or l2, for a vector column without an index; the default is cosine
``?index=``     the index to build for the new column (IVF_HNSW_SQ, IVF_PQ, …); the default is the served one's
==============  ===============================================================================================

What is written waits in ``table.lance/_relatent/parts``, one file per write: a column of a fragment is one file in
Lance, so that each write into the table would write that file again. Reading, indexing or serving the new column merges
all of it in one version (:mod:`relatent.stores.lance_merge`). Nothing that the table holds is rewritten; searching,
scanning and going back to an earlier version work as before.

A field keeps its name whatever its role, a column does not: the served field is always in the column that searches
read. Which column has which role is told by their names and by what an added column records.

==============  ==============================  ===============================
role            before the switch               after it
==============  ==============================  ===============================
served          column ``vector``               column ``vector``: the added one
new, old        column ``new``: the added one   column ``vector_old``
==============  ==============================  ===============================
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._errors import StoreError, needs
from relatent.spaces.io.columns import ReadOptions, guess_layout, vector_dtype
from relatent.spaces.sample import sample_rows
from relatent.stores.address import Address
from relatent.stores.base import Effort, Form, Found, Purpose, Rows, Scan, Session, Shard, Store, every_nth
from relatent.stores.fields import NUMERIC_METRICS, Field, Metric, Roles, key_column, lock_file
from relatent.stores.lance_index import described, read_index
from relatent.stores.lance_merge import merge
from relatent.stores.parts import Parts

# Within the table's folder, where Lance leaves alone what is not its own.
FOLDER = "_relatent"
META = b"relatent.added"
TAG = "relatent-before-switch"
METRICS = {"cosine": "cosine", "inner": "dot", "l2": "l2"}
# Rows that Lance trains an index on at least.
MIN_INDEXED = 256
# Attempts to merge while the application changes the same rows.
ATTEMPTS = 20


@dataclass(frozen=True)
class Added:
    """What a column that was added records of itself, in the metadata of its schema. Renaming the column keeps it."""

    name: str
    """The name of its field, and of the column while it is new."""
    serves: str
    """The name of the column once it is served, and of the field that was served before."""
    metric: Metric = "cosine"
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept_as(self) -> str:
        """The name of the column that was served before, while this one is."""
        return f"{self.serves}_old"

    @staticmethod
    def of(column: pa.Field) -> Added | None:
        """Read what a column records; None for one that we did not add."""
        text = (column.metadata or {}).get(META)
        return None if text is None else Added(**json.loads(text))


@dataclass(frozen=True)
class Version(Session):
    """A version of the table: what one operation reads."""

    table: Any
    columns: Mapping[str, str]
    """The column of each field, by the name of the field."""

    def column(self, of: Field) -> str:
        """Return the column of a field."""
        return self.columns[of.name]

    def added(self, of: Field) -> Added:
        """Return what the column of a field records, of one that only an added column can be."""
        added = Added.of(self.table.schema.field(self.column(of)))
        assert added is not None
        return added


class LanceStore(Store):
    """A table (:mod:`relatent.stores.lance`). Every operation reads its latest version."""

    schemes = ("lance",)
    suffixes = (".lance",)
    extra = "lance"
    forms = (
        Form(
            "Lance, LanceDB",
            "lance:///folder/table.lance",
            "a column",
            "two columns renamed in one version",
            "reads the column as before",
            "the column, from the latest version on; earlier versions keep it until they are cleaned up",
        ),
    )
    holds = dict.fromkeys(("float32", "float16"), NUMERIC_METRICS)
    no_codes = (
        "Lance compares no 8-bit codes that it is given: have its index code float16 vectors (`?index=IVF_HNSW_SQ`)."
    )
    writes_while_read = True

    def _open(self) -> None:
        self._folder = self.address.file / FOLDER
        self._parts = Parts(self._folder / "parts")
        self._places: tuple[int, np.ndarray, np.ndarray] | None = None
        if not self.address.file.is_dir():
            raise StoreError(f"{self.address} is not there: check the path.")

    @contextmanager
    def _session(self, purpose: Purpose = "read") -> Iterator[Version]:
        try:
            yield _version(self.address, self._table())
        except StoreError:
            raise
        except (OSError, RuntimeError, ValueError) as error:
            raise StoreError(f"{self.address} was refused by Lance: {str(error).splitlines()[0]}") from error

    def _table(self) -> Any:
        return needs("lance", "lance", "open Lance tables").dataset(str(self.address.file))

    # Rows ------------------------------------------------------------------------------------------------------------

    def _count(self, session: Version, of: Field, shard: Shard) -> int:
        """Count the vectors of a column, and those that are still to be merged into it."""
        table, column, among = session.table, quoted(session.column(of)), within(session.key, shard)
        count = int(table.count_rows(all_of(f"{column} IS NOT NULL", among)))
        if not session.roles.is_new(of) or not (waiting := self._parts.all_keys()):
            return count
        rest = table.to_table(columns=[session.key], filter=all_of(f"{column} IS NULL", among))[session.key]
        return count + int(pc.is_in(key_column(rest), value_set=pa.concat_arrays(waiting)).true_count)

    def unfilled(self, of: Field) -> int:
        """Count the nulls of a column, but for those that wait to be merged."""
        with self._session() as session:
            return int(session.table.count_rows()) - self._count(session, self._find(session.roles, of), Shard())

    def _keys_of(self, of: Field, shard: Shard | None) -> pa.Array:
        with self._session() as session:
            of = self._find(session.roles, of)
            session, bounds = self._merged(session, of), within(session.key, shard or Shard())
            return key_column(self._keys(session, all_of(f"{quoted(session.column(of))} IS NOT NULL", bounds)))

    def _bounds(self, session: Version, rows: int) -> list[Any]:
        return every_nth(self._keys(session), rows)

    def state(self, shard: Shard) -> str | None:
        """Return which files hold the keys and the served vectors of a shard, and what was deleted from them."""
        with self._session() as session:
            names, held = {session.key, session.column(session.roles.served)}, self._fragments(session, shard)
            ids = {column.id() for column in session.table.lance_schema.fields() if column.name() in names}
            parts = []
            for fragment in (one.metadata for one in session.table.get_fragments()):
                files = [file.path for file in fragment.files if ids & {*file.fields}]
                if fragment.id in held:
                    parts.append((fragment.id, files, getattr(fragment.deletion_file, "id", None)))
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _fragments(self, session: Version, shard: Shard) -> set[int]:
        """Return the fragments that hold keys of a shard; the keys are read once for each version of the table."""
        if self._places is None or self._places[0] != session.table.version:
            read = session.table.to_table(columns=[session.key], with_row_address=True).sort_by(session.key)
            keys = read[session.key].to_numpy()
            self._places = session.table.version, keys, read["_rowaddr"].to_numpy() >> 32
        _, keys, fragments = self._places
        low = 0 if shard.low is None else np.searchsorted(keys, shard.low)
        high = len(keys) if shard.high is None else np.searchsorted(keys, shard.high)
        return {*fragments[low:high].tolist()}

    def _scan(self, session: Version, asked: Scan) -> Rows:
        """Read a range of keys at a time, all from the version that is the latest when the scan begins.

        To ask for vectors that are not null would have Lance read the whole column for every range.
        """
        session = self._merged(session, asked.of)
        column, key, table = session.column(asked.of), session.key, session.table
        keys = self._keys(session, within(key, asked.shard))
        names = asked.names(key, [name for name in table.schema.names if name not in session.columns.values()])
        for first in range(0, len(keys), asked.rows):
            end = first + asked.rows
            part = Shard(keys[first].as_py(), keys[end].as_py() if end < len(keys) else None)
            bounds = all_of(within(key, part), within(key, asked.shard))
            read = table.to_table(columns=[*names, column], filter=bounds).sort_by(key)
            if read[column].null_count:
                read = read.filter(pc.is_valid(read[column]))
            if len(read):
                yield _readable(read, column, key, asked)

    def _keys(self, session: Version, condition: str | None = None) -> pa.Array:
        """Read keys and sort them; keys that are missing or repeated name no row."""
        key = session.key
        keys = session.table.to_table(columns=[key], filter=condition)[key].combine_chunks()
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

    # The new field ---------------------------------------------------------------------------------------------------

    def _taken(self, session: Version) -> list[str]:
        return list(session.table.schema.names)

    def _add(self, session: Version, new: Field) -> None:
        """Add a column of nulls: a version of the table that rewrites nothing."""
        added = Added(new.name, session.column(session.roles.served), new.metric, dict(new.provenance))
        if added.kept_as in session.table.schema.names or new.name == added.kept_as:
            raise StoreError(
                f"{added.kept_as!r} of {self.address} is taken, and a switch gives that name to the served column: "
                "rename the column that has it."
            )
        self._parts.remove()
        self._parts.make_folder()
        kind = pa.list_(pa.float16() if new.dtype == "float16" else pa.float32(), new.dim)
        session.table.add_columns(pa.field(new.name, kind, metadata={META: json.dumps(asdict(added))}))

    def _write(self, session: Version, new: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Write a part beside the table; it is merged when the column is read, indexed or served."""
        self._check_keys(keys, key_column(pa.array([], session.table.schema.field(session.key).type)).type)
        self._parts.write(keys, vectors)

    def _merged(self, session: Version, of: Field) -> Version:
        """Merge what was written into the new column, all of it in one version of the table; return that version."""
        if not session.roles.is_new(of) or not self._parts.files():
            return session
        with lock_file(self._folder / "merging", self.address):
            self._against_writers(lambda: self._merge_parts(session, of))
        return replace(session, table=self._table())

    def _merge_parts(self, session: Version, of: Field) -> None:
        files = self._parts.files()
        merge(self._table(), session.key, session.column(of), list(self._parts.newest_first()))
        self._parts.forget(files)

    def _against_writers(self, commit: Callable[[], None]) -> None:
        """Commit a version of the table, and try again where another writer was first."""
        for attempt in range(ATTEMPTS):
            try:
                commit()
                return
            except OSError as error:
                if "conflict" not in str(error).lower() or attempt == ATTEMPTS - 1:
                    raise

    def _overwrite(self, session: Version, served: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        """Merge the vectors into the served column, in one version of the table. Searches scan them until indexed."""
        self._check_keys(keys, key_column(pa.array([], session.table.schema.field(session.key).type)).type)
        last = {key: row for row, key in enumerate(keys.to_pylist())}
        rows = list(last.values())
        part = (keys.take(pa.array(rows)), vectors[rows])
        column = session.column(served)
        self._against_writers(lambda: merge(self._table(), session.key, column, [part]))

    def _remove_orphans(self, session: Version, new: Field, kept: frozenset[Any]) -> int:
        """Merge what was written; a row that was deleted has taken its vector with it."""
        self._merged(session, new)
        return 0

    def _build_index(self, session: Version, of: Field) -> None:
        """Build the index that was asked for, or one like that of the served column; without either, searches scan.

        That of the served column itself, whose vectors may have been replaced since, takes in what it does not cover.
        """
        session = self._merged(session, of)
        if of.name == session.roles.served.name:
            own = described(session.table).get(session.column(of))
            if own is not None:
                session.table.optimize.optimize_indices(index_names=[own.name])
            return
        table, column, asked = session.table, session.column(of), self.address.options.get("index")
        like = read_index(table, session.column(session.roles.served))
        kind = asked or (like and like.kind)
        segments = getattr(described(table).get(column), "segments", ())
        covered = {fragment for segment in segments for fragment in segment.fragment_ids}
        if kind and not covered >= {fragment.fragment_id for fragment in table.get_fragments()}:
            options = like.options(of.dim) if like and like.kind == kind else {}
            table.create_index(quoted(column), kind, metric=METRICS[of.metric], replace=True, **options)

    def _effort(self, session: Version, of: Field) -> Effort | None:
        column = session.column(of)
        index = read_index(session.table, column)
        return None if index is None else index.effort(column)

    def _search(
        self, session: Version, of: Field, queries: np.ndarray, k: int, exact: bool, effort: int | None
    ) -> list[Found]:
        """Search by Lance itself; what an index finds is measured again, so that scores are exact."""
        session, found = self._merged(session, of), []
        asked = {"column": session.column(of), "k": k, "metric": METRICS[of.metric], "use_index": not exact}
        knob = None if exact or effort is None else self._effort(session, of)
        if knob is not None and effort is not None:
            asked[knob.setting] = max(effort, 2 * k) if knob.setting == "ef" else effort
        for query in queries:
            nearest = {**asked, "q": query, "refine_factor": 2}
            rows = session.table.to_table(columns=[session.key, "_distance"], nearest=nearest)
            found.append((rows[session.key].to_pylist(), rows["_distance"].to_numpy()))
        return found

    @contextmanager
    def rehearsal(self, rows: int) -> Iterator[str]:
        """Write rows of the table into a folder beside it, with an index like that of the served column."""
        file = self.address.file
        with TemporaryDirectory(dir=file.parent, prefix=f"{file.stem}-rehearsal-") as folder:
            with self._session() as session:
                self._copy(session, str(Path(folder, file.name)), rows)
            # Without an index, nothing else tells what its vectors are compared by.
            options = {**self.address.options, "metric": session.roles.served.metric}
            yield str(replace(self.address, path=folder, options=options))

    def _copy(self, session: Version, file: str, rows: int) -> None:
        table, served = session.table, session.roles.served
        column, total = session.column(served), table.count_rows()
        taken = table.take(sample_rows(total, rows, seed=0))
        kept = taken.drop_columns([name for name in session.columns.values() if name != column])
        copied = needs("lance", "lance", "open Lance tables").write_dataset(kept, file)
        like = read_index(table, column)
        if like is not None and len(taken) >= MIN_INDEXED:
            smaller = replace(like, partitions=max(1, like.partitions * len(taken) // total)).options(served.dim)
            copied.create_index(quoted(column), like.kind, metric=METRICS[served.metric], **smaller)

    # Cutover ---------------------------------------------------------------------------------------------------------

    def _switch(self, session: Version, new: Field) -> None:
        """Rename both columns in one version of the table; the version before is tagged."""
        session = self._merged(session, new)
        table, added = session.table, session.added(new)
        (table.tags.update if TAG in table.tags.list() else table.tags.create)(TAG, table.version)
        _rename(table, {added.serves: added.kept_as, added.name: added.serves})

    def _switch_back(self, session: Version, old: Field) -> None:
        added = session.added(session.roles.served)
        _rename(session.table, {added.serves: added.name, added.kept_as: added.serves})
        _untag(session.table)

    def _drop_new(self, session: Version, new: Field) -> None:
        """Remove the column from the latest version, and what was not merged into it."""
        session.table.drop_columns([session.column(new)])
        self._parts.remove()

    def _drop_old(self, session: Version, old: Field) -> None:
        """Remove the column from the latest version. Earlier ones keep it until their owner cleans them up."""
        _untag(session.table)  # the tag would keep the version that has both columns
        session.table.drop_columns([session.column(old)])

    def lock(self) -> AbstractContextManager[object]:
        """Lock a file in our folder."""
        self._folder.mkdir(exist_ok=True)
        return lock_file(self._folder / "lock", self.address)


def _version(address: Address, table: Any) -> Version:
    schema: pa.Schema = table.schema
    added = {column.name: record for column in schema if (record := Added.of(column)) is not None}
    vector = address.options.get("vector") or next((record.serves for record in added.values()), None)
    layout = guess_layout(address, schema, ReadOptions(vector=vector, key=address.options.get("key")))
    if layout.key is None:
        raise StoreError(f"{address} has no column that is named like a key: name it with ?key=.")
    served = layout.vector
    new = next((name for name, record in added.items() if name == record.name and record.serves == served), None)
    old = added[served].kept_as if served in added else None
    places = {role: name for role, name in (("served", served), ("new", new), ("old", old)) if name in schema.names}
    fields: dict[str, Any] = {role: _field(table, name, served, address) for role, name in places.items() if name}
    columns = {fields[role].name: name for role, name in places.items() if name}
    return Version(Roles(**fields), layout.key, table, columns)


def _field(table: Any, column: str, served: str, address: Address) -> Field:
    """Describe a column. One that we did not add is the field that was served first, whatever it is called now."""
    kind, record = table.schema.field(column).type, Added.of(table.schema.field(column))
    dtype: Any = str(vector_dtype(kind))
    if record is not None:
        return Field(record.name, kind.list_size, dtype, record.metric, record.provenance)
    metric: Any = address.options.get("metric") or _index_metric(table, column) or "cosine"
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
    index = described(table).get(column)
    metric = "" if index is None else str((index.details or {}).get("metric_type", "")).lower()
    return {"dot": "inner"}.get(metric, metric) or None


def _readable(read: pa.Table, column: str, key: str, asked: Scan) -> tuple[pa.Table, np.ndarray]:
    """Return the rows whose vectors have the dimension of the field."""
    dim = asked.of.dim
    sizes = pc.list_value_length(read[column]).to_numpy()
    for row in np.flatnonzero(sizes != dim):
        asked.skip(read[key][int(row)].as_py(), f"it has {sizes[row]} coordinates, not {dim}")
    read = read.filter(pa.array(sizes == dim))
    # A null inside of a vector becomes NaN, which is not finite.
    flat = read[column].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    return read.drop_columns([column]), flat.reshape(len(read), dim).astype(asked.of.dtype, copy=False)


def _rename(table: Any, names: dict[str, str]) -> None:
    table.alter_columns(*({"path": quoted(old), "name": new} for old, new in names.items()))


def _untag(table: Any) -> None:
    if TAG in table.tags.list():
        table.tags.delete(TAG)


# Conditions, in the SQL that Lance understands -----------------------------------------------------------------------


def quoted(name: str) -> str:
    """Return a column name for SQL. Lance itself cannot read columns whose names hold a backtick."""
    return f"`{name.replace('`', '``')}`"


def within(key: str, shard: Shard) -> str | None:
    """Return the condition that keys are in a shard, or None where all are.

    >>> within("id", Shard("it's", None))
    "`id` >= 'it''s'"
    """
    bounds = ((">=", shard.low), ("<", shard.high))
    return all_of(*(None if bound is None else f"{quoted(key)} {sign} {_literal(bound)}" for sign, bound in bounds))


def all_of(*conditions: str | None) -> str | None:
    """Return the condition that all of these hold; None is no condition."""
    return " AND ".join(one for one in conditions if one is not None) or None


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, int) else "'{}'".format(str(value).replace("'", "''"))
