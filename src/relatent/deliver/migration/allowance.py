"""How far a stored vector may be from what was written: as far as the numbers that the field keeps require."""

from __future__ import annotations

import numpy as np

from relatent.stores import Field
from relatent.stores.codes import is_coded, quantizer, uncoded

__all__ = ["cut_off", "deviations"]

# Relative to the norm: a few units in the last place.
TOLERANCE = {"float32": 1e-5, "float16": 2e-3}
# A code is the nearest one, but for the rounding of what is coded.
STEPS = 0.51
TINY = 1e-300


def deviations(of: Field, expected: np.ndarray, stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the error of each row, and which rows are further off than the numbers of the field require.

    The error is that of :func:`relative_errors`; of bits, the share that differs.
    """
    if of.dtype == "bit":
        return _of_bits(expected, stored)
    if is_coded(of):
        return relative_errors(of, expected, stored), _off_by_a_step(of, expected, stored)
    errors = relative_errors(of, expected, stored)
    return errors, errors > TOLERANCE[of.dtype]


def relative_errors(of: Field, expected: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Return the norm of each difference relative to the norm; of directions where only the cosine counts."""
    expected, stored = expected.astype(np.float64), stored.astype(np.float64)
    norms = np.maximum(np.linalg.norm(expected, axis=1), TINY)
    if of.metric == "cosine":  # which a store may compute from vectors that it keeps at norm 1
        stored = stored * (norms / np.maximum(np.linalg.norm(stored, axis=1), TINY))[:, None]
    return np.asarray(np.linalg.norm(expected - stored, axis=1) / norms)


def cut_off(of: Field, expected: np.ndarray) -> int:
    """Count the coordinates that lie more than a step beyond the largest and the smallest code of a field."""
    if not is_coded(of):
        return 0
    x, (low, high) = uncoded(of, expected), quantizer(of).range
    step = quantizer(of).scale  # so much is only rounded
    return int(np.count_nonzero((x < low - step) | (x > high + step)))


def _off_by_a_step(of: Field, expected: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Return which rows have a coordinate that is not the nearest one that a code stands for."""
    within = np.clip(uncoded(of, expected), *quantizer(of).range)
    return np.asarray((np.abs(within - stored) > STEPS * quantizer(of).scale).any(axis=1))


def _of_bits(expected: np.ndarray, stored: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compare bits; those of coordinates that are zero but for their rounding may be either."""
    sure = np.abs(expected) > TOLERANCE["float32"] * np.linalg.norm(expected, axis=1, keepdims=True)
    differs = sure & ((expected > 0) != (stored > 0))
    return differs.mean(axis=1), differs.any(axis=1)
