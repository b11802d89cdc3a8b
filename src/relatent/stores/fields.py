"""Vector fields of a store: what they hold, which is served, 8-bit codes by their scale, and what every store checks.

Vectors that are compared by cosine are coded at norm 1, so that one scale is right for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent._errors import StoreError, with_remedy
from relatent._files import locked
from relatent._linalg import unit_norm
from relatent.spaces.keys import key_texts
from relatent.spaces.quantize import Quantizer
from relatent.stores.address import Address

Metric = Literal["cosine", "inner", "l2", "hamming"]
Dtype = Literal["float32", "float16", "int8", "uint8", "bit"]

# What vectors of numbers are compared by, in every store.
NUMERIC_METRICS: tuple[Metric, ...] = ("cosine", "inner", "l2")
CODES = ("int8", "uint8")


@dataclass(frozen=True)
class Field:
    """A vector field of a store: a column, a named vector, or a companion collection or file."""

    name: str
    dim: int
    dtype: Dtype = "float32"
    """Bits are read as 0 and 1, and written as 1 where a coordinate is positive. 8-bit codes stand for vectors by
    ``scale`` and ``offset``; where these are not known, they are read as the integers that they are: fit on such codes
    to translate them.
    """
    metric: Metric = "cosine"
    """hamming is for bits. A store without cosines of its own keeps the vectors at norm 1."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where the vectors come from: translator, model, revision. Kept in the store, beside the vectors."""
    scale: float | None = None
    """Of codes: a coordinate is ``offset + scale * code``. None: not known. Kept in the store, beside the vectors."""
    offset: float = 0.0


@dataclass(frozen=True)
class Roles:
    """The fields of a store by what they are for; one value, which an operation reads once.

    A note of them is kept by the stores that have a place for one: JSON in a comment, in metadata or in a file.

    >>> roles = Roles(Field("a", 2), new=Field("b", 3)).switched()
    >>> roles.served.name, roles.new, roles.old.name, Roles.of_note(roles.note()) == roles
    ('b', None, 'a', True)
    >>> roles.switched_back().new.name, roles.finished().old
    ('b', None)
    """

    served: Field
    """The field that searches read."""
    new: Field | None = None
    """The field that was added and is not served yet."""
    old: Field | None = None
    """The field that was served before the last switch."""
    dropping: bool = False
    """Whether dropping the old field was begun: part of it may be gone, and it is not served again."""

    @property
    def fields(self) -> dict[str, Field]:
        """The fields by name."""
        return {one.name: one for one in (self.served, self.new, self.old) if one is not None}

    @property
    def first(self) -> Field:
        """The field that was there before the migration."""
        return self.served if self.old is None else self.old

    @property
    def second(self) -> Field | None:
        """The field that the migration added."""
        return self.new if self.old is None else self.served

    def is_new(self, of: Field) -> bool:
        """Return whether a field is the new one."""
        return self.new is not None and of.name == self.new.name

    def switched(self, now: bool = True) -> Roles:
        """Return the roles with the second field served, or with the first."""
        if self.second is None or now == (self.old is not None):
            return self
        return Roles(self.second, old=self.first) if now else Roles(self.first, new=self.second)

    def switched_back(self) -> Roles:
        """Return the roles with the first field served."""
        return self.switched(False)

    def finished(self) -> Roles:
        """Return the roles once the old field is gone: the served one stands alone."""
        return Roles(self.served)

    def note(self) -> dict[str, Any]:
        """Return the roles as plain values, for JSON."""
        first, second = (None if one is None else plain_field(one) for one in (self.first, self.second))
        return {"first": first, "second": second, "switched": self.old is not None, "dropping": self.dropping}

    @staticmethod
    def of_note(note: Mapping[str, Any]) -> Roles:
        """Return the roles that :meth:`note` noted."""
        second = None if note["second"] is None else Field(**note["second"])
        roles = Roles(Field(**note["first"]), second).switched(note["switched"])
        return replace(roles, dropping=note.get("dropping", False))


def plain_field(of: Field) -> dict[str, Any]:
    """Return a field as plain values, for JSON."""
    return asdict(replace(of, provenance=dict(of.provenance)))


# Codes ---------------------------------------------------------------------------------------------------------------


def is_coded(of: Field) -> bool:
    """Return whether a field holds codes whose scale is known."""
    return of.dtype in CODES and of.scale is not None


def quantizer(of: Field) -> Quantizer:
    """Return what codes the vectors of a coded field.

    >>> quantizer(Field("new", 2, "int8", "l2", scale=0.5)).encode(np.asarray([[1.0, -2.0]])).tolist()
    [[2, -4]]
    """
    assert of.scale is not None
    return Quantizer(of.dtype, of.dim, of.scale, of.offset)


def calibrated(field: Field, sample: Any) -> Field:
    """Return a field of codes with the scale of a sample of the vectors that it will hold; any other as it is."""
    if field.dtype not in CODES:
        return field
    x = np.asarray(sample)
    x = uncoded(field, x[np.isfinite(x).all(axis=1)])
    if not len(x):
        raise StoreError(f"There is no vector to find the scale of {field.dtype} codes by: choose float32.")
    fitted = Quantizer.fit(x, field.dtype)
    return replace(field, scale=_short(fitted.scale), offset=_short(float(fitted.offset)))


def uncoded(of: Field, vectors: np.ndarray) -> np.ndarray:
    """Return vectors as a coded field would hold them if it had numbers of any precision."""
    x = np.asarray(vectors, dtype=np.float32)
    return np.asarray(unit_norm(x)) if of.metric == "cosine" else x


def encoded(of: Field, vectors: np.ndarray) -> np.ndarray:
    """Return the codes of vectors."""
    return quantizer(of).encode(uncoded(of, vectors))


def decoded(of: Field, stored: np.ndarray) -> np.ndarray:
    """Return what was stored as vectors: codes decoded, all else as it is."""
    return quantizer(of).decode(stored) if is_coded(of) else stored


def read_as(of: Field) -> np.dtype:
    """Return the dtype of what is read from a field."""
    return np.dtype(np.float32 if is_coded(of) or of.dtype == "bit" else of.dtype)


def _short(number: float) -> float:
    """Return a number of few digits, which every store's note gives back as it was."""
    return float(f"{number:.6g}")


# What every store checks, in the same words --------------------------------------------------------------------------


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
            alike = {metrics: [d for d in self.holds if self.holds[d] == metrics] for metrics in self.holds.values()}
            kinds = "; ".join(f"{any_of(dtypes)} with {any_of(metrics)}" for metrics, dtypes in alike.items())
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
        array = np.asarray(vectors, dtype=np.float32)
        if array.ndim != 2 or array.shape[1] != of.dim:
            raise StoreError(
                f"The queries have shape {array.shape} and {of.name!r} of {self.address} has {of.dim} coordinates: "
                "expected the same last axis. Encode them with the model of these vectors."
            )
        return array

    def _check_keys(self, keys: pa.Array, kind: pa.DataType) -> None:
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


def any_of(names: Sequence[str]) -> str:
    """Return names as they are listed in a sentence.

    >>> any_of(["cosine", "inner", "l2"])
    'cosine, inner or l2'
    """
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
