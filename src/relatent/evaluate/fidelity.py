"""How true a translation is: translated against target vectors, decoded outputs, and what a task keeps.

The plain measures are differentiable in torch. Those that compare scores of the same rows return an
:class:`Estimate` with its bootstrap interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import Array, array_namespace, as_labels, as_parallel, as_same_space, to_numpy
from relatent._linalg import row_norms, unit_norm
from relatent.evaluate.interval import Estimate, Report, bootstrap, column, ratio, report, share_of_gain
from relatent.evaluate.linear import check_varies, scalar
from relatent.evaluate.neighbors import nearest
from relatent.evaluate.retrieval import Relevant, query_scores


def mean_cosine(x: Array, y: Array) -> float:
    r"""Return the mean cosine between translated and target vectors: :math:`\frac1n \sum_i \cos(x_i, y_i)`.

    Unchanged by the norm of either vector; a zero vector counts 0. Differentiable.

    References: Maiorca et al., 2023 and 2024 (lcos).

    >>> mean_cosine(np.eye(2), 3 * np.eye(2))
    1.0
    """
    x, y = _pair(x, y)
    return scalar(array_namespace(x).mean(_row_cosine(x, y)))


def mse(x: Array, y: Array) -> float:
    r"""Return the mean squared error per coordinate: :math:`\frac1{nd} \sum_i \lVert x_i - y_i \rVert^2`.

    Unchanged when one rotation or offset is applied to both. Differentiable.

    References: Maiorca et al., 2023 and 2024 (lmse).

    >>> mse(np.zeros((2, 2)), np.ones((2, 2)))
    1.0
    """
    x, y = _pair(x, y)
    return scalar(array_namespace(x).mean((x - y) ** 2))


def r2(x: Array, y: Array) -> float:
    r"""Return the share of the target's variance that the translation explains.

    .. math:: 1 - \frac{\sum_i \lVert x_i - y_i \rVert^2}{\sum_i \lVert y_i - \bar y \rVert^2}

    1: exact; 0: no better than always answering the mean of y; below 0: worse than that. Pooled over the coordinates,
    so that dead ones cannot divide by zero. Unchanged by one rotation, scale and offset of both. Differentiable.

    >>> y = np.asarray([[0.0], [2.0]])
    >>> r2(y, y), r2(np.ones((2, 1)), y)
    (1.0, 0.0)
    """
    x, y = _pair(x, y)
    check_varies(y=y)
    xp = array_namespace(x)
    return scalar(1 - xp.sum((x - y) ** 2) / xp.sum(_apart(y) ** 2))


def norm_ratio(x: Array, y: Array) -> float:
    r"""Return the mean norm of the translated vectors over that of the targets: below 1 the translation shrinks.

    >>> norm_ratio(np.eye(2), 2 * np.eye(2))
    0.5
    """
    x, y = _pair(x, y)
    check_not_zero(y)
    xp = array_namespace(x)
    return scalar(xp.mean(row_norms(x)) / xp.mean(row_norms(y)))


def fidelity_report(x: Array, y: Array, slices: Any = None, *, seed: int = 0) -> Report:
    """Return cosine, MSE, R² and norm ratio of translated against target vectors, with bootstrap intervals.

    ``slices`` gives each row a label, and the report one line per label; R² of a slice is against the slice's own
    mean squared distance from the mean of all rows.

    >>> y = np.random.default_rng(0).normal(size=(100, 4))
    >>> f = fidelity_report(0.9 * y, y, slices=["even", "odd"] * 50)
    >>> round(f["norm_ratio"].value, 6), round(f["odd", "cosine"].value, 6)
    (0.9, 1.0)
    """
    x, y = _pair(x, y)
    check_varies(y=y)
    check_not_zero(y)
    measures = {
        "cosine": column(0),
        "mse": lambda means: means[:, 1] / y.shape[1],
        "r2": lambda means: 1 - means[:, 1] / means[:, 2],
        "norm_ratio": ratio(3, 4),
    }
    return report(_columns(x, y), measures, slices, seed=seed)


def reconstruction_mse(decoded: Array, original: Array, slices: Any = None, *, seed: int = 0) -> Report:
    """Return the mean squared error of decoded outputs, of any shape (n, …), against what was encoded.

    >>> float(reconstruction_mse(np.zeros((9, 2, 2)), np.ones((9, 2, 2)))["mse"])
    1.0
    """
    decoded, original = to_numpy(decoded), to_numpy(original)
    if decoded.shape != original.shape:
        raise ValueError(f"decoded has shape {decoded.shape} and original {original.shape}: expected the same.")
    x, y = as_parallel(decoded=decoded.reshape(len(decoded), -1), original=original.reshape(len(original), -1))
    error = np.mean((x - y) ** 2, axis=1, keepdims=True, dtype=np.float64)
    return report(np.asarray(error), {"mse": column(0)}, slices, seed=seed)


@dataclass(frozen=True)
class TaskKept:
    """What a task keeps of its score when its decoder reads translated vectors.

    ``kept`` is stitched / own; ``recovered`` is (stitched − untranslated) / (own − untranslated).
    """

    stitched: Estimate
    own: Estimate
    untranslated: Estimate
    kept: Estimate
    recovered: Estimate


def task_kept(stitched: Any, own: Any, untranslated: Any, *, seed: int = 0) -> TaskKept:
    """Return what a task keeps, from scores per row of one decoder under three encoders.

    A score is, say, 1 where the prediction is right.
    ``own`` reads the vectors it was trained on, ``untranslated`` the other encoder's as they are, ``stitched`` the
    translated ones.

    >>> kept = task_kept([1, 1, 1, 0], [1, 1, 1, 1], [0, 1, 0, 0])
    >>> kept.kept.value, round(kept.recovered.value, 6)
    (0.75, 0.666667)
    """
    columns = _scores(stitched=stitched, own=own, untranslated=untranslated)
    translated, ceiling, floor = (bootstrap(scores, seed=seed) for scores in columns.T)
    kept, recovered = bootstrap(columns, ratio(0, 1), seed=seed), gain_recovered(stitched, untranslated, own, seed=seed)
    return TaskKept(translated, ceiling, floor, kept, recovered)


def gain_recovered(translated: Any, old: Any, new: Any, *, seed: int = 0) -> Estimate:
    r"""Return the share of the gain of a new model that translation recovers, from scores per row.

    .. math:: \frac{\text{translated} - \text{old}}{\text{new} - \text{old}}

    0: no better than staying with the old; 1: as good as re-embedding everything. Undefined (NaN) without a gain.

    >>> gain_recovered([1, 0, 1, 1], [0, 0, 1, 1], [1, 1, 1, 1]).value
    0.5
    """
    columns = _scores(translated=translated, old=old, new=new)
    return bootstrap(columns, share_of_gain(0, 1, 2), seed=seed)


def arr(
    x: Array,
    gallery: Array,
    y: Array,
    y_gallery: Array,
    k: int = 10,
    metric: str = "cosine",
    relevant: Relevant | None = None,
    *,
    measure: str = "recall",
    seed: int = 0,
) -> Estimate:
    r"""Return the ARR: the score of the translated search relative to having re-embedded everything.

    .. math:: \text{ARR} = \frac{\operatorname{score@k}(x \to \text{gallery})}
              {\operatorname{score@k}(y \to \text{y\_gallery})}

    x are the queries as they search now (translated, or in a translated gallery); y and ``y_gallery`` the same queries
    and items under the new model. The ``measure`` is "recall", "mrr" or "ndcg"; a :class:`relatent.decide.Verdict` has
    the ARR of the measure that decides. ``relevant`` as in :func:`relatent.evaluate.recall`; by default what y finds
    in ``y_gallery``, and then the denominator is 1.

    References: Drift-Adapter, EMNLP 2025 (ARR).

    >>> g = np.random.default_rng(0).normal(size=(50, 4))
    >>> arr(g[:9], g, -g[:9], -g).value
    1.0
    """
    if relevant is None:
        relevant = nearest(y, y_gallery, k, metric).indices
    now = query_scores(x, gallery, k, metric, relevant, measure)
    ideal = query_scores(y, y_gallery, k, metric, relevant, measure)
    return bootstrap(np.stack([now, ideal], axis=1), ratio(0, 1), seed=seed)


def check_not_zero(y: Array) -> None:
    """Check that not every target vector is zero."""
    if not bool(array_namespace(y).any(y != 0)):
        raise ValueError("y holds only zero vectors: expected vectors with a norm above 0.")


def _pair(x: Array, y: Array) -> tuple[Array, Array]:
    x, y = as_parallel(x=x, y=y)
    x, y = as_same_space(x=x, y=y)
    return x, y


def _apart(y: Array) -> Array:
    xp = array_namespace(y)
    around = y - y[:1, :]  # a float32 mean of vectors far from the origin would be off by more than their spread
    return around - xp.mean(around, axis=0, keepdims=True)


def _row_cosine(x: Array, y: Array) -> Array:
    return array_namespace(x).sum(unit_norm(x) * unit_norm(y), axis=1)


def _columns(x: Array, y: Array) -> np.ndarray:
    """Return for each row: cosine, squared error, squared distance of the target from its mean, and both norms."""
    xp = array_namespace(x)
    square, variance = xp.sum((x - y) ** 2, axis=1), xp.sum(_apart(y) ** 2, axis=1)
    columns = [_row_cosine(x, y), square, variance, row_norms(x), row_norms(y)]
    return np.stack([to_numpy(column).astype(np.float64) for column in columns], axis=1)


def _scores(**named: Any) -> np.ndarray:
    columns = {name: as_labels(scores, name).astype(np.float64) for name, scores in named.items()}
    if len({len(c) for c in columns.values()}) > 1:
        given = ", ".join(f"{name} {len(c)}" for name, c in columns.items())
        raise ValueError(f"The numbers of scores are {given}: expected one score per row of the same rows.")
    return np.stack(list(columns.values()), axis=1)
