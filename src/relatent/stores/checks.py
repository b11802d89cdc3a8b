"""What every store checks in the same words: roles, dimensions, vectors that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent.spaces.keys import key_texts
from relatent.stores.address import Address, StoreError
from relatent.stores.codes import CODES, encoded, is_coded
from relatent.stores.store import Field, Shard, Unreadable

# What vectors of numbers are compared by, in every store.
NUMERIC_METRICS = ("cosine", "inner", "l2")


class Closing:
    """A store that is closed at the end of a ``with`` block."""

    def close(self) -> None:
        """Close the connection or file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class HasRoles(Protocol):
    """Fields by what they are for."""

    @property
    def served(self) -> Field: ...  # noqa: D102
    @property
    def new(self) -> Field | None: ...  # noqa: D102
    @property
    def old(self) -> Field | None: ...  # noqa: D102


class RoleKeeper(Closing):
    """A store that keeps which of its fields is served, is new, or was served before, and looks it up each time."""

    writes_while_read = False
    compares_codes = False

    def state(self, shard: Shard) -> str | None:
        """Return None: only reading tells whether something has changed."""
        return None

    def flush(self) -> None:
        """Do nothing: every write is durable when it returns."""
        return

    def _current(self) -> HasRoles:
        """Return the roles as the store has them now."""
        raise NotImplementedError

    @property
    def served(self) -> Field:
        """The field that searches read."""
        return self._current().served

    @property
    def new(self) -> Field | None:
        """The field that was added and is not served yet."""
        return self._current().new

    @property
    def old(self) -> Field | None:
        """The field that was served before the last switch."""
        return self._current().old


def check_kind(address: Address, new: Field, held: Mapping[str, tuple[str, ...]], no_codes: str = "") -> None:
    """Refuse a field that a store cannot hold or compare.

    ``held`` are the metrics that it has for each dtype; ``no_codes`` says what to do where it holds no codes.
    """
    if new.metric not in held.get(new.dtype, ()):
        alike = {metrics: [dtype for dtype in held if held[dtype] == metrics] for metrics in held.values()}
        kinds = "; ".join(f"{_any_of(dtypes)} with {_any_of(metrics)}" for metrics, dtypes in alike.items())
        raise StoreError(
            f"{address} was asked for {new.dtype} vectors and the metric {new.metric}: expected {kinds}. "
            f"{no_codes if no_codes and new.dtype in CODES else 'Choose one of these.'}"
        )
    if new.dtype in CODES and new.scale is None:
        raise StoreError(
            f"{new.name!r} is to hold {new.dtype} codes, and what they stand for is not said: give the field a scale "
            "(relatent.stores.calibrated)."
        )


def _any_of(names: Sequence[str]) -> str:
    """Return names as they are listed in a sentence.

    >>> _any_of(["cosine", "inner", "l2"])
    'cosine, inner or l2'
    """
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def check_addable(address: Address, asked: Field, new: Field | None, old: Field | None) -> bool:
    """Return whether a field is still to be added: not where it is there already. Refuse one beside another."""
    if new == asked:
        return False
    if new is not None:
        raise StoreError(
            f"{address} has a new field {new.name!r} already, of {new.dim} coordinates: expected none or the same as "
            f"{asked.name!r}. Go on with that migration, or drop its field first."
        )
    check_no_old(address, old)
    return True


def check_no_old(address: Address, old: Field | None) -> None:
    """Refuse to begin a migration before an earlier one is finished."""
    if old is not None:
        raise StoreError(
            f"{address} still keeps {old.name!r}, which was served before: go back to it (relatent migrate rollback) "
            "or drop it (relatent migrate finish) before another field is added."
        )


def check_new(address: Address, new: Field | None, given: Field | None = None) -> Field:
    """Return the new field if there is one, and if it is the one given."""
    if new is None:
        raise StoreError(f"{address} has no new field: add one first.")
    if given is not None and given.name != new.name:
        raise StoreError(f"{given.name!r} is not the new field of {address}, which is {new.name!r}: only that changes.")
    return new


def check_old(address: Address, old: Field | None) -> Field:
    """Return the old field if there is one."""
    if old is None:
        raise StoreError(f"{address} has no old field: nothing was switched, or it was dropped since.")
    return old


def check_whole(address: Address, old: Field | None, dropping: bool) -> Field:
    """Return the old field if there is one that can be served again."""
    field = check_old(address, old)
    if dropping:
        raise StoreError(
            f"Dropping {field.name!r} of {address} was begun, so it cannot be served again: drop it to the end "
            "(relatent migrate finish)."
        )
    return field


def check_one_of(address: Address, given: Field, *known: Field | None) -> Field:
    """Return the field of the store that has the name given."""
    names = {field.name: field for field in known if field is not None}
    if given.name not in names:
        raise StoreError(f"{address} has no vector field {given.name!r}.{suggest(given.name, names)}")
    return names[given.name]


def as_vectors(address: Address, into: Field, vectors: Any) -> np.ndarray:
    """Return finite vectors of the dimension of a field, as they are kept."""
    array: np.ndarray = np.asarray(vectors)
    if array.ndim != 2 or array.shape[1] != into.dim:
        raise StoreError(
            f"The vectors have shape {array.shape} and {into.name!r} of {address} takes {into.dim} coordinates: "
            "expected the same last axis. Translate them first, or add another field."
        )
    if not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array).all(axis=1)))
        raise StoreError(f"The vector in row {row} is not finite: {address} takes none such. Leave it out.")
    if into.dtype == "bit":
        return np.asarray(array > 0)
    if is_coded(into):
        return encoded(into, array)
    return array.astype(np.float16 if into.dtype == "float16" else np.float32, copy=False)


def as_queries(address: Address, of: Field, vectors: Any) -> np.ndarray:
    """Return queries of the dimension of a field."""
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != of.dim:
        raise StoreError(
            f"The queries have shape {array.shape} and {of.name!r} of {address} has {of.dim} coordinates: expected the "
            "same last axis. Encode them with the model of these vectors."
        )
    return array


def key_column(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return keys as a store compares them: integers and texts exactly as they are, all others by their texts."""
    column = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return column.cast(pa.large_string()) if text else key_texts(column)


def same_kind(address: Address, keys: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return keys of the kind that the store has."""
    column = key_column(keys)
    if column.type != kind:
        raise StoreError(f"The keys are {column.type} and those of {address} are {kind}: give keys of that kind.")
    return column


def readable(address: Address, keys: pa.Array, vectors: np.ndarray, unreadable: Unreadable | None) -> np.ndarray:
    """Return which rows hold finite vectors; name the first that does not, or tell of each."""
    fine: np.ndarray = np.isfinite(vectors).all(axis=1)
    for row in np.flatnonzero(~fine):
        cannot_read(address, keys[int(row)].as_py(), "it is not finite", unreadable)
    return fine


def cannot_read(address: Address, key: Any, reason: str, unreadable: Unreadable | None) -> None:
    """Tell of a row that cannot be read, or raise."""
    if unreadable is None:
        raise StoreError(f"The vector of {key!r} in {address} cannot be read: {reason}. Mend it, or skip such rows.")
    unreadable(key, reason)


def cut(keys: pa.Array, rows: int) -> list[Shard]:
    """Cut sorted keys into shards of about so many rows; the first and the last have no outer bound."""
    bounds = [keys[at].as_py() for at in range(rows, len(keys), rows)]
    return [Shard(low, high) for low, high in zip([None, *bounds], [*bounds, None], strict=True)]
