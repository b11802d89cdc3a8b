"""Vector fields of a store: what they hold, which of them is served, and 8-bit codes by the scale of their field.

Vectors that are compared by cosine are coded at norm 1, so that one scale is right for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from relatent._errors import StoreError
from relatent._linalg import unit_norm
from relatent.spaces.quantize import Quantizer

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
