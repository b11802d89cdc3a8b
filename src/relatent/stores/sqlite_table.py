"""A table of SQLite with vectors: what it holds, and what stands beside it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from relatent._array import suggest
from relatent._errors import StoreError
from relatent.exports.sql.literals import quoted
from relatent.spaces.io.columns import VECTOR_NAMES
from relatent.stores.address import Address
from relatent.stores.fields import Dtype, Field, Metric, Roles

INTEGERS, TEXTS = pa.int64(), pa.large_string()
# How sqlite-vec declares a vector of each type, makes one of bytes, and how many bytes eight coordinates take.
DECLARED: dict[str, str] = {"float32": "float", "int8": "int8", "bit": "bit"}
MADE: dict[str, str] = {"float32": "vec_f32({})", "int8": "vec_int8({})", "bit": "vec_bit({})"}
EIGHT: dict[str, int] = {"float32": 32, "int8": 8, "bit": 1}
ALIASES: dict[str, Dtype] = {"float": "float32", "f32": "float32", "int8": "int8", "i8": "int8", "bit": "bit"}
# A vec0 table has no inner product: its vectors are compared by scalar functions.
METRICS: dict[Metric, str] = {"cosine": " distance_metric=cosine", "l2": " distance_metric=L2", "inner": ""}
VEC0 = re.compile(r"create\s+virtual\s+table\b.*?\busing\s+vec0\s*\((?P<arguments>.*)\)", re.IGNORECASE | re.DOTALL)
VECTOR = re.compile(
    r"(?P<name>\w+)\s+(?P<type>float|f32|int8|i8|bit)\s*\[\s*(?P<dim>\d+)\s*\](\s*distance_metric\s*=\s*(?P<metric>\w+))?",
    re.IGNORECASE,
)
KEY = re.compile(r"(?P<name>\w+)\s+(?P<type>\w+)\s+primary\s+key", re.IGNORECASE)
# Arrow's type by what the declared type contains, as SQLite finds its own; the others are read as texts.
AFFINITIES = {
    "INT": INTEGERS,
    "CHAR": TEXTS,
    "CLOB": TEXTS,
    "TEXT": TEXTS,
    "BLOB": pa.large_binary(),
    "REAL": pa.float64(),
    "FLOA": pa.float64(),
    "DOUB": pa.float64(),
}


@dataclass(frozen=True)
class Table:
    """A table of items: ``vec0``, or a plain one with a column of BLOBs."""

    name: str
    key: str
    kind: pa.DataType
    """Of the keys: integers or texts."""
    vector: str
    """The column of the vectors, under which the view shows what is served."""
    columns: dict[str, pa.DataType]
    """All that the view shows, in order, with the key and the vector."""
    arguments: tuple[str, ...] = ()
    """What a vec0 table was made with; none for a plain one."""
    defaults: tuple[tuple[str, str], ...] = ()
    has_vector: bool = True
    """Whether the table, or its own column of vectors, is still there."""
    is_required: bool = False
    """Whether its column of vectors is NOT NULL."""

    @property
    def is_vec0(self) -> bool:
        """Whether it is a virtual table of sqlite-vec."""
        return bool(self.arguments)

    @property
    def view(self) -> str:
        """The view that shows what is served, quoted."""
        return quoted(f"{self.name}__served")

    @property
    def payload(self) -> list[str]:
        """The columns but the vector, the key among them."""
        return [name for name in self.columns if name != self.vector]

    def holds(self, of: Field) -> bool:
        """Return whether the vectors of a field are the table's own."""
        return of.name == self.vector

    def place(self, of: Field) -> str:
        """Return the table that holds the vectors of a field, quoted."""
        return quoted(self.name if self.holds(of) else f"{self.name}__{of.name}")

    def source(self, of: Field, join: str = "CROSS JOIN", on: str = "") -> str:
        """Return what to select the items of a field from, as ``b``, and their vectors from, as ``n``."""
        if self.is_vec0 or self.holds(of):
            return f"{self.place(of)} AS b{on}"
        return f"{quoted(self.name)} AS b{on} {join} {self.place(of)} AS n ON n.key = b.{quoted(self.key)}"

    def vector_of(self, of: Field) -> str:
        """Return the vector of a field, in what :meth:`source` selects from."""
        return f"b.{quoted(self.vector)}" if self.is_vec0 or self.holds(of) else "n.vector"

    def has(self, of: Field) -> str:
        """Return the condition that an item has a vector; one of length zero stands where a column is NOT NULL."""
        return "true" if self.is_vec0 else f"length({self.vector_of(of)}) > 0"

    def create(self, new: Field, place: str) -> str:
        """Return the statement that makes the table of a field: of vec0 one like this, else keys and vectors."""
        if not self.is_vec0:
            kind = "INTEGER" if self.kind == INTEGERS else "TEXT"
            return f"CREATE TABLE {place} (key {kind} PRIMARY KEY NOT NULL, vector BLOB NOT NULL)"
        dim = 8 * size_of(new) if new.dtype == "bit" else new.dim
        made = f"{self.vector} {DECLARED[new.dtype]}[{dim}]{METRICS.get(new.metric, '')}"
        listed = [made if _names(one, self.vector) else one for one in self.arguments]
        return f"CREATE VIRTUAL TABLE {place} USING vec0({', '.join(listed)})"

    def value(self, column: str, of: Field, given: str = "?") -> str:
        """Return what is inserted into a column of a vec0 table: vectors by their type."""
        if column == self.vector:
            return MADE[of.dtype].format(given)
        found = next((VECTOR.match(one) for one in self.arguments if _names(one, column)), None)
        return given if found is None else MADE[ALIASES[found["type"].lower()]].format(given)

    def note(self) -> dict[str, Any]:
        """Return what cannot be told once the old vectors are dropped."""
        return {"vec0": self.is_vec0, "vector": self.vector, "position": [*self.columns].index(self.vector)}


def size_of(of: Field) -> int:
    """Return how many bytes a vector of a field takes; bits fill the last one with zeros."""
    return -(-of.dim * EIGHT[of.dtype] // 8)


def find_table(db: Any, address: Address, note: dict[str, Any] | None) -> Table:
    """Describe the table of an address; a vec0 table that was dropped by the one that is served in its place."""
    name = address.name
    if note is not None and note["table"]["vec0"] and _definition(db, name) is None:
        name = f"{name}__{Roles.of_note(note['roles']).served.name}"
    definition = _definition(db, name)
    if definition is None:
        raise _not_there(db, address)
    vec0 = VEC0.match(definition)
    noted = {} if note is None else note["table"]
    if vec0 is not None:
        arguments = tuple(part.strip() for part in vec0["arguments"].split(",") if part.strip())
        return _vec0_table(db, address, name, arguments, noted)
    if definition.upper().startswith("CREATE VIRTUAL"):
        raise StoreError(f"{address} is a virtual table of another module: expected one of vec0, or a plain table.")
    return _plain_table(db, address, noted)


def own_field(db: Any, table: Table, address: Address) -> Field:
    """Describe the table's own vectors: of vec0 by its definition, of BLOBs by the first of them."""
    if table.is_vec0:
        found = next(VECTOR.match(one) for one in table.arguments if _names(one, table.vector))
        assert found is not None  # the table was found by it
        dtype = ALIASES[found["type"].lower()]
        metric: Any = (found["metric"] or "l2").lower()
        if metric not in ("cosine", "l2"):
            raise StoreError(f"{address} compares by {metric}: expected a vec0 column with cosine or L2.")
        return Field(table.vector, int(found["dim"]), dtype, "hamming" if dtype == "bit" else metric)
    options: dict[str, Any] = address.options
    dtype = options.get("dtype", "float32")
    metric = options.get("metric", "hamming" if dtype == "bit" else "cosine")
    if dtype not in EIGHT or metric not in (*METRICS, "hamming"):
        raise StoreError(
            f"{address} names the type {dtype!r} and the metric {metric!r}: expected float32, int8 or bit, and cosine, "
            "inner, l2 or hamming."
        )
    size = f"SELECT length({quoted(table.vector)}) AS size FROM {quoted(table.name)} WHERE size > 0 LIMIT 1"
    found_size = db.execute(size).fetchone()
    return Field(table.vector, 0 if found_size is None else found_size[0] * 8 // EIGHT[dtype], dtype, metric)


def _definition(db: Any, name: str) -> str | None:
    found = db.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)).fetchone()
    return None if found is None else str(found[0])


def _not_there(db: Any, address: Address) -> StoreError:
    kinds = dict(db.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')").fetchall())
    if kinds.get(address.name) == "view":
        return StoreError(f"{address} is a view: expected a table. Name the table that it shows.")
    tables = [name for name, kind in kinds.items() if kind == "table"]
    return StoreError(f"{address} is not there: the file has no table {address.name!r}.{suggest(address.name, tables)}")


def _names(argument: str, column: str) -> bool:
    """Return whether an argument of vec0 declares a column."""
    return re.match(rf"\+?\s*{re.escape(column)}\b", argument) is not None


def _vec0_table(db: Any, address: Address, name: str, arguments: tuple[str, ...], noted: dict[str, Any]) -> Table:
    vectors = [found["name"] for one in arguments if (found := VECTOR.match(one))]
    vector = noted.get("vector") or _chosen(address, vectors)
    keys = [found for one in arguments if (found := KEY.match(one))]
    key, kind = (keys[0]["name"], _arrow(keys[0]["type"])) if keys else ("rowid", INTEGERS)
    asked = address.options.get("key", key)
    if asked != key:
        raise StoreError(f"{address} names the key {asked!r}: a vec0 table has one, {key!r}. Leave it out.")
    names = [one for (one,) in db.execute("SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", (name,))]
    declared = {one: next((a for a in arguments if _names(a, one)), "") for one in names}
    columns = {one: _arrow(declared[one].removeprefix("+").strip()[len(one) :]) for one in names} | {key: kind}
    return Table(address.name, key, kind, vector, columns, arguments, has_vector=name == address.name)


def _plain_table(db: Any, address: Address, noted: dict[str, Any]) -> Table:
    found = db.execute(
        'SELECT name, type, pk, "notnull", dflt_value FROM pragma_table_xinfo(?) WHERE hidden = 0', (address.name,)
    ).fetchall()
    columns, keys = {row[0]: _arrow(row[1]) for row in found}, [row[0] for row in found if row[2]]
    blobs = [name for name, kind in columns.items() if kind == pa.large_binary() or name.lower() in VECTOR_NAMES]
    vector = noted.get("vector") or _chosen(address, blobs)
    has_vector = vector in columns
    if not has_vector:
        listed = [*columns.items()]
        listed.insert(noted.get("position", len(listed)), (vector, pa.large_binary()))
        columns = dict(listed)
    key = address.options.get("key") or (keys[0] if len(keys) == 1 else "")
    if key not in columns or not (keys == [key] or _is_unique(db, address.name, key)):
        raise StoreError(
            f"{address} has no primary key of one column: name a column with a unique index by ?key=. A rowid is none, "
            "since VACUUM may change it."
        )
    plain = [row for row in found if row[0] not in (vector, key)]
    defaults = tuple((row[0], row[4]) for row in plain if row[4] is not None)
    required = any(row[0] == vector and row[3] for row in found)
    kind = _kind(db, address, key, columns[key])
    return Table(address.name, key, kind, vector, columns, (), defaults, has_vector, required)


def _chosen(address: Address, vectors: list[str]) -> str:
    """Return the column of the vectors: that of the URL, else one with a usual name, else the only one."""
    given = address.options.get("vector")
    if given in vectors:
        return given
    usual = sorted((n for n in vectors if n.lower() in VECTOR_NAMES), key=lambda n: VECTOR_NAMES.index(n.lower()))
    if given is None and (usual or len(vectors) == 1):
        return (usual or vectors)[0]
    listed = ", ".join(vectors) or "none"
    asked = "" if given is None else f" and {given!r} was asked for"
    raise StoreError(f"{address} has these columns of vectors: {listed}{asked}. Name one of them with ?vector=.")


def _is_unique(db: Any, name: str, key: str) -> bool:
    """Return whether a column has a unique index of its own, of all rows."""
    query = 'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial'
    indexes = [row[0] for row in db.execute(query, (name,))]
    return any(db.execute("SELECT name FROM pragma_index_info(?)", (one,)).fetchall() == [(key,)] for one in indexes)


def _kind(db: Any, address: Address, key: str, declared: pa.DataType) -> pa.DataType:
    """Return what the keys are: as declared, or as the first one is where the declaration leaves it open."""
    if declared == INTEGERS:
        return INTEGERS
    found = db.execute(f"SELECT typeof({quoted(key)}) FROM {quoted(address.name)} LIMIT 1").fetchone()
    return INTEGERS if found == ("integer",) else TEXTS


def _arrow(declared: str) -> pa.DataType:
    return next((kind for part, kind in AFFINITIES.items() if part in declared.upper()), TEXTS)
