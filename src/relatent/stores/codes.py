"""Codes of eight bits in a store: by the scale of their field, vectors are coded when written and decoded when read.

Of vectors that are compared by cosine, those at norm 1 are coded: so one scale is right for all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from relatent._linalg import unit_norm
from relatent.spaces.quantize import Quantizer
from relatent.stores.address import StoreError
from relatent.stores.store import Field

CODES = ("int8", "uint8")


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
    """Return a field of codes with the scale of some of the vectors that it will hold; any other field as it is."""
    if field.dtype not in CODES:
        return field
    x = np.asarray(sample)
    x = uncoded(field, x[np.isfinite(x).all(axis=1)])
    if not len(x):
        raise StoreError(f"No vector is there to find the scale of {field.dtype} codes by: choose float32.")
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
    return np.dtype(np.float32 if is_coded(of) else of.dtype)


def _short(number: float) -> float:
    """Return a number of few digits, which every store's note gives back as it was."""
    return float(f"{number:.6g}")
