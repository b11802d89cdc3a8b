"""How alike the predictions of two models are: what they do, where other measures ask how they represent it."""

from __future__ import annotations

from typing import Any

import numpy as np

from relatent._array import to_numpy

# How far the sum of probabilities may be from 1.
TOLERANCE = 1e-3


def agreement(p: Any, q: Any) -> float:
    """Return the share of items for which two models predict the same class.

    ``p`` and ``q`` are row-aligned: classes (n,), or scores (n, c) of the same classes, of which the largest counts.
    Two models that guess the most frequent class agree too: :func:`cohen_kappa` takes away what chance gives.

    References: Madani et al., 2004; Klabunde et al., ICLR 2025 (ReSi).

    >>> agreement(["a", "b", "b"], ["a", "b", "a"]) == 2 / 3
    True
    """
    a, b = _classes(p, q)
    return float(np.mean(a == b))


def cohen_kappa(p: Any, q: Any) -> float:
    r"""Return the agreement of two models beyond that of chance.

    .. math:: \kappa = \frac{a - a_0}{1 - a_0}, \quad a_0 = \sum_c P_p(c) P_q(c)

    1: the same predictions; 0: no more agreement than if each model drew from its own frequencies of classes; below 0:
    less. Where both models predict one and the same class throughout, chance explains everything: 0.
    ``p`` and ``q`` are as in :func:`agreement`.

    References: Cohen, 1960; Geirhos et al., NeurIPS 2020 (error consistency).

    >>> cohen_kappa([0, 1, 0, 1], [0, 1, 0, 1]), cohen_kappa([0, 1, 0, 1], [0, 0, 1, 1])
    (1.0, 0.0)
    """
    a, b = _classes(p, q)
    classes = np.union1d(a, b)
    chance = sum(float(np.mean(a == c) * np.mean(b == c)) for c in classes)
    return (float(np.mean(a == b)) - chance) / (1 - chance) if chance < 1 else 0.0


def jensen_shannon(p: Any, q: Any) -> float:
    r"""Return the mean Jensen–Shannon divergence of two models' predicted probabilities, in bits.

    .. math:: \frac1n \sum_i \tfrac12 \operatorname{KL}(p_i \,\|\, m_i) + \tfrac12 \operatorname{KL}(q_i \,\|\, m_i),
              \quad m_i = \tfrac12 (p_i + q_i)

    0: the same probabilities; 1: no class that both think possible. Sees what classes alone hide: how sure each model
    is. ``p`` and ``q`` are row-aligned probabilities (n, c) of the same classes.

    References: Lin, 1991; Klabunde et al., ICLR 2025 (ReSi).

    >>> jensen_shannon([[1.0, 0.0]], [[0.0, 1.0]]), jensen_shannon([[0.5, 0.5]], [[0.5, 0.5]])
    (1.0, 0.0)
    """
    a, b = (_probabilities(values, name) for values, name in ((p, "p"), (q, "q")))
    _check_alike(a, b)
    middle = (a + b) / 2
    return float(np.mean(np.sum(_divergence(a, middle) + _divergence(b, middle), axis=1)) / 2)


def _divergence(p: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Return p log₂(p / m) of each class, which is 0 where p is."""
    inside = p > 0
    return np.where(inside, p * np.log2(np.where(inside, p, 1) / np.where(inside, m, 1)), 0)


def _classes(p: Any, q: Any) -> tuple[np.ndarray, np.ndarray]:
    a, b = (np.asarray(to_numpy(values)) for values in (p, q))
    for values, name in ((a, "p"), (b, "q")):
        if values.ndim not in (1, 2) or not values.size:
            raise ValueError(f"{name} has shape {values.shape}: expected classes (n,) or scores (n, c).")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"{name} holds NaN or infinity: expected a class or scores for every item.")
    if a.ndim == b.ndim == 2:
        _check_alike(a, b)
    a, b = (np.argmax(values, axis=1) if values.ndim == 2 else values for values in (a, b))
    if len(a) != len(b):
        raise ValueError(f"p has {len(a)} items and q has {len(b)}: expected predictions of the same items.")
    return a, b


def _probabilities(values: Any, name: str) -> np.ndarray:
    found = np.asarray(to_numpy(values), dtype=np.float64)
    if found.ndim != 2 or not found.size:
        raise ValueError(f"{name} has shape {found.shape}: expected probabilities (n, c).")
    sums = found.sum(axis=1)
    wrong = ~(np.isfinite(sums) & (found >= 0).all(axis=1) & (np.abs(sums - 1) <= TOLERANCE))
    if wrong.any():
        raise ValueError(
            f"Row {int(np.argmax(wrong))} of {name} holds no probabilities: expected numbers from 0 that sum to 1. "
            "Take the softmax of logits first."
        )
    return np.asarray(found / sums[:, None])


def _check_alike(a: np.ndarray, b: np.ndarray) -> None:
    if a.shape != b.shape:
        raise ValueError(f"p has shape {a.shape} and q has {b.shape}: expected the same items and classes.")
