"""What is in a space: size, columns, norms, and what would give trouble later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relatent._terminal import Result, progress_bar
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.join import duplicate_keys
from relatent.spaces.keys import is_key_type
from relatent.spaces.space import Space


@dataclass(frozen=True)
class Inspection(Result):
    """A space at a glance. ``norms`` are the smallest, mean and largest of the finite rows."""

    name: str
    rows: int
    dim: int
    dtype: str
    columns: dict[str, str]
    key: str | None
    key_type: str | None
    duplicate_keys: int | None
    """How many keys are on several rows; None where the key column holds what cannot be keys."""
    not_finite: int
    first_not_finite: int | None
    zero: int
    norms: tuple[float, float, float] | None
    fingerprint: Fingerprint

    def __str__(self) -> str:
        f = self.fingerprint
        known = [f"{n} {getattr(f, n)}" for n in ("model", "revision", "pooling", "normalization") if getattr(f, n)]
        norms = "{0:.4g} to {2:.4g}, mean {1:.4g}".format(*self.norms) if self.norms else "no finite row"
        where = "" if self.first_not_finite is None else f", first in row {self.first_not_finite}"
        lines = {
            "rows": f"{self.rows:,} × {self.dim} {self.dtype}",
            "keys": self._keys(),
            "columns": ", ".join(f"{name} ({kind})" for name, kind in self.columns.items()) or "no others",
            "norms": norms,
            "zero rows": f"{self.zero:,}",
            "NaN or infinity": f"{self.not_finite:,} rows{where}",
            "fingerprint": ", ".join(known) or "no model recorded; known by its statistics only",
        }
        return "\n".join([self.name, *(f"  {label:<16} {text}" for label, text in lines.items())])

    def _keys(self) -> str:
        if self.key is None:
            return "none, rows are known by their number"
        if self.duplicate_keys is None:
            return f"none: column {self.key!r} is named like a key, and values of {self.key_type} cannot be keys"
        return f"column {self.key!r}, {self.duplicate_keys:,} of them on several rows"


def inspect_space(space: Space, *, progress: bool | None = None) -> Inspection:
    """Read a space once, in chunks, and say what is in it.

    >>> found = inspect_space(Space([[3.0, 4.0], [0.0, 0.0]], keys=["a", "a"]))
    >>> found.norms, found.zero, found.duplicate_keys
    ((0.0, 2.5, 5.0), 1, 1)
    """
    low, high, total, finite, zero, bad, first = np.inf, 0.0, 0.0, 0, 0, 0, None
    with progress_bar(len(space), space.name or "reading", progress) as advance:
        for chunk in space.chunks():
            fine = np.isfinite(chunk.vectors).all(axis=1)
            norms = np.linalg.norm(chunk.vectors[fine].astype(np.float64), axis=1)
            if first is None and not fine.all():
                first = chunk.start + int(np.argmin(fine))
            bad, finite, zero = bad + int(np.sum(~fine)), finite + len(norms), zero + int(np.sum(norms == 0))
            if len(norms):
                low, high = min(low, float(norms.min())), max(high, float(norms.max()))
                total += float(norms.sum())
            advance(len(chunk))
    kind = None if space.layout.key is None else space.schema.field(space.layout.key).type
    return Inspection(
        name=space.name,
        rows=len(space),
        dim=space.dim,
        dtype=str(space.dtype),
        columns={f.name: str(f.type) for f in space.schema if f.name not in (space.layout.vector, space.layout.key)},
        key=space.layout.key,
        key_type=None if kind is None else str(kind),
        duplicate_keys=len(duplicate_keys(space)) if kind is None or is_key_type(kind) else None,
        not_finite=bad,
        first_not_finite=first,
        zero=zero,
        norms=(low, total / finite, high) if finite else None,
        fingerprint=space.fingerprint,
    )
