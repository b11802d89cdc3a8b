"""What a fit refuses, each with what to do instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from relatent._array import Array, as_same_space, to_numpy
from relatent.spaces.space import Space
from relatent.translate.pairs import Pairs


def refuse_labels(Y: Any) -> Any:
    """Return the target unless it is class labels, which a scikit-learn pipeline would pass on to be fitted on."""
    if Y is None:
        raise ValueError("A Translator requires y to be passed, but the target y is None: give the target's vectors.")
    y = Y if hasattr(Y, "ndim") and hasattr(Y, "dtype") else np.asarray(Y)
    if y.ndim == 1 or "int" in str(y.dtype) or "bool" in str(y.dtype):
        raise ValueError(
            f"Y has shape {tuple(y.shape)} and dtype {y.dtype}, like class labels: expected the target's vectors, one "
            "float row per row of X. In a scikit-learn pipeline, fit the translator first and pass it in a "
            "sklearn.frozen.FrozenEstimator. For quantized vectors, convert them with Y.astype('float32')."
        )
    return Y


def check_pairs(pairs: Pairs) -> None:
    """Refuse pairs that show nothing: fewer than two, or of one source vector."""
    if len(pairs) < 2:
        raise ValueError(
            f"n_samples={len(pairs)}: too few pairs of anchors to show how two spaces relate. Give at least 2, and "
            "for a good translation about as many as the spaces have coordinates."
        )
    x = pairs.sample.all_x
    # Two different rows settle it; only rows that begin alike are looked at to the end.
    if not (np.any(x[:2] != x[0]) or np.any(x != x[0])):
        raise ValueError(f"All {len(pairs)} source anchors are the same vector: give at least two different ones.")


def checked_bank(X: Array | Space, bank: Array | Space, *, wanted: bool) -> np.ndarray:
    """Return the rows of a bank, if it is of the source's space and there is a use for it."""
    if not wanted:
        raise ValueError(
            'bank was given, and only goal="retrieval" with both sides moved and a bank_size above 0 has use for it: '
            "leave it out."
        )
    given = [a.vectors if isinstance(a, Space) else a for a in (X, bank)]
    return to_numpy(as_same_space(X=given[0], bank=given[1])[1])


def check_judge(head: Any, labels: Any, X: Array | Space, *, blends: bool) -> None:
    """Refuse a head and labels where they settle nothing, or cannot be told apart."""
    given = [name for name, value in (("head", head), ("labels", labels)) if value is not None]
    if given and not blends:
        raise ValueError(
            f"{' and '.join(given)} were given, and this translator does not blend by them: use "
            'goal="stitching" without a named map, or leave them out.'
        )
    if labels is not None and isinstance(X, Space):
        raise ValueError(
            "labels were given for spaces, whose rows are joined on keys first: join them (rl.parallel) and give "
            "arrays with one label per pair."
        )
