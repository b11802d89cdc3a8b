"""What every store checks, in the same words: roles, names, dimensions, keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent._errors import StoreError, with_remedy
from relatent._files import locked
from relatent.spaces.keys import key_texts
from relatent.stores.address import Address
from relatent.stores.fields import CODES, NUMERIC_METRICS, Field, Roles, encoded, is_coded


class Checks:
    """The checks of one store; an error is a :class:`StoreError` that names ``str(address)``, never the password."""

    address: Address
    holds: ClassVar[Mapping[str, tuple[str, ...]]] = {"float32": NUMERIC_METRICS}
    """The dtypes that a new field can have, and the metrics of each."""
    no_codes: ClassVar[str] = ""
    """What to choose instead, where it holds no codes."""

    def _find(self, roles: Roles, given: Field) -> Field:
        """Return the field of the store that has the name given."""
        if given.name not in roles.fields:
            raise StoreError(f"{self.address} has no vector field {given.name!r}.{suggest(given.name, roles.fields)}")
        return roles.fields[given.name]

    def _new(self, roles: Roles, given: Field | None = None) -> Field:
        """Return the new field if there is one, and if it is the one given."""
        if roles.new is None:
            raise StoreError(f"{self.address} has no new field: add one first.")
        if given is not None and given.name != roles.new.name:
            raise StoreError(
                f"{given.name!r} is not the new field of {self.address}: only {roles.new.name!r} can be written."
            )
        return roles.new

    def _old(self, roles: Roles) -> Field:
        if roles.old is None:
            raise StoreError(f"{self.address} has no old field: nothing was switched, or it was dropped since.")
        return roles.old

    def _check_kind(self, new: Field) -> None:
        """Refuse a field that the store cannot hold or compare."""
        if new.metric not in self.holds.get(new.dtype, ()):
            kinds = "; ".join(f"{any_of(dtypes)} with {any_of(metrics)}" for dtypes, metrics in alike(self.holds))
            remedy = self.no_codes if self.no_codes and new.dtype in CODES else "Choose one of these."
            raise StoreError(
                f"{self.address} was asked for {new.dtype} vectors and the metric {new.metric}: expected {kinds}. "
                f"{remedy}"
            )
        if new.dtype in CODES and new.scale is None:
            raise StoreError(
                f"{new.name!r} is to hold {new.dtype} codes, and what they stand for is not known: give the field a "
                "scale (relatent.stores.calibrated)."
            )

    def _check_addable(self, roles: Roles, asked: Field) -> None:
        """Refuse a field beside another new one, or before an earlier migration is finished."""
        if roles.new is not None:
            raise StoreError(
                f"{self.address} has a new field {roles.new.name!r} already, of {roles.new.dim} coordinates: expected "
                f"none or the same as {asked.name!r}. Resume that migration, or drop its field first."
            )
        check_no_old(self.address, roles.old)

    def _check_name(self, new: Field, taken: Iterable[str]) -> None:
        if new.name in taken:
            raise StoreError(f"{new.name!r} of {self.address} is taken: give the new field another name.")

    def _as_vectors(self, into: Field, vectors: Any) -> np.ndarray:
        """Return finite vectors of the dimension of a field, as they are kept."""
        array: np.ndarray = np.asarray(vectors)
        if array.ndim != 2 or array.shape[1] != into.dim:
            raise StoreError(
                f"The vectors have shape {array.shape} and {into.name!r} of {self.address} takes {into.dim} "
                "coordinates: expected the same last axis. Translate them first, or add another field."
            )
        if not np.isfinite(array).all():
            row = int(np.argmin(np.isfinite(array).all(axis=1)))
            raise StoreError(f"The vector in row {row} is not finite: {self.address} takes none such. Leave it out.")
        if into.dtype == "bit":
            return np.asarray(array > 0)
        if is_coded(into):
            return encoded(into, array)
        return array.astype(np.float16 if into.dtype == "float16" else np.float32, copy=False)

    def _as_queries(self, of: Field, vectors: Any) -> np.ndarray:
        """Return queries of the dimension of a field."""
        array = np.asarray(vectors, dtype=np.float32)
        if array.ndim != 2 or array.shape[1] != of.dim:
            raise StoreError(
                f"The queries have shape {array.shape} and {of.name!r} of {self.address} has {of.dim} coordinates: "
                "expected the same last axis. Encode them with the model of these vectors."
            )
        return array

    def _check_keys(self, keys: pa.Array, kind: pa.DataType) -> None:
        """Refuse keys of another kind than the store's."""
        if keys.type != kind:
            raise StoreError(
                f"The keys are {keys.type} and those of {self.address} are {kind}: give keys of that kind."
            )


def check_no_old(address: Address, old: Field | None) -> None:
    """Refuse to begin a migration before an earlier one is finished."""
    if old is not None:
        raise with_remedy(
            StoreError(f"{address} still keeps {old.name!r}, which was served before."),
            python="Go back to it (relatent.migrate.roll_back) or drop it (relatent.migrate.finish_migration) first.",
            command="Go back to it (relatent migrate rollback) or drop it (relatent migrate finish) first.",
        )


def busy(address: Address) -> StoreError:
    """Return the error for a store that another migration has locked."""
    return StoreError(f"Another migration of {address} is running: wait for it to end, or stop it.")


def lock_file(path: Path, address: Address) -> AbstractContextManager[bool]:
    """Lock a file for a migration of a store, or refuse. The file is made if it is not there."""
    return locked(path, create=True, refusal=busy(address))


def key_column(keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return keys as a store compares them: integers and texts exactly as they are, all others by their texts."""
    column = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return column.cast(pa.large_string()) if text else key_texts(column)


def alike(holds: Mapping[str, tuple[str, ...]]) -> list[tuple[list[str], tuple[str, ...]]]:
    """Return the dtypes that a store holds, together where they have the same metrics."""
    return [
        ([dtype for dtype in holds if holds[dtype] == metrics], metrics) for metrics in dict.fromkeys(holds.values())
    ]


def any_of(names: Sequence[str]) -> str:
    """Return names as they are listed in a sentence.

    >>> any_of(["cosine", "inner", "l2"])
    'cosine, inner or l2'
    """
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
