"""Scale: how the norms of vectors are distributed, and what a model makes of vectors of another norm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import Array, array_namespace, as_labels, as_matrix, is_space, suggest, to_numpy
from relatent._linalg import row_norms, unit_norm
from relatent._terminal import render

# A norm is an outlier beyond this many quartile ranges outside of the middle half (Tukey's fences).
FENCE = 1.5


@dataclass(frozen=True)
class NormDistribution:
    """The norms of the vectors of a space.

    ``outlier_share`` lies beyond Tukey's fences. ``normality`` is the Jarque–Bera statistic, near 2 for a normal
    distribution, and ``normality_p`` the probability of one at least as large from normal ones. ``counts`` are the
    norms between consecutive ``edges``.
    """

    n: int
    mean: float
    std: float
    skew: float
    kurtosis: float
    outlier_share: float
    normality: float
    normality_p: float
    counts: np.ndarray
    edges: np.ndarray

    def __str__(self) -> str:
        return (
            f"{self.n} vectors of norm {self.mean:.4g} ± {self.std:.3g}, skew {self.skew:.2f}, "
            f"{self.outlier_share:.1%} outliers, normality {self.normality:.3g} (p = {self.normality_p:.2g})"
        )


def norms(x: Array, bins: int = 50) -> NormDistribution:
    r"""Return the distribution of norms.

    .. math:: \text{normality} = \frac n6 \left(S^2 + \frac{K^2}{4}\right)

    S is the skew, K the excess kurtosis. A relative or cosine decoder can only lose the norm of a vector; where
    norms are nearly normal and narrow, one mean norm replaces them at little cost. Unchanged by rotation.

    References: Maiorca et al., 2024 (well-behaved scale distributions); Jarque & Bera, 1980.

    >>> norms(np.eye(3)).mean, norms(np.eye(3)).std
    (1.0, 0.0)
    """
    norm = to_numpy(row_norms(as_matrix(x))).astype(np.float64)
    mean, std = float(np.mean(norm)), float(np.std(norm))
    # Norms that differ by rounding only have no shape.
    z = (norm - mean) / std if std > 1e-6 * mean else np.zeros_like(norm)
    skew, kurtosis = float(np.mean(z**3)), float(np.mean(z**4)) - 3 if np.any(z) else 0.0
    normality = len(z) / 6 * (skew**2 + kurtosis**2 / 4)
    counts, edges = np.histogram(norm, bins=bins)
    p = float(np.exp(-normality / 2))  # the tail of χ² with two degrees of freedom
    outliers = _outlier_share(norm)
    return NormDistribution(len(z), mean, std, skew, kurtosis, outliers, normality, p, counts, edges)


def rescale(x: Array, alpha: float) -> Array:
    r"""Return every vector with the norm α: :math:`\alpha\, x / \lVert x \rVert`. A zero vector stays zero.

    >>> rescale(np.asarray([[3.0, 4.0]]), 10).tolist()
    [[6.0, 8.0]]
    """
    return alpha * unit_norm(as_matrix(x))


@contextmanager
def rescaled(model: Any, layer: str | None, alpha: float, *, axis: int | None = None) -> Iterator[Any]:
    """Let a torch model compute with the output of one layer rescaled to norm α, while the context is open.

    ``layer`` is a name from ``model.named_modules()``; None is the model's input. ``axis=None`` takes all that a
    sample has at that layer for one vector; ``axis=-1`` rescales each token or position. The hook is removed when the
    context closes, also when the model raises.

    References: Maiorca et al., 2024 (rescale injection).
    """
    if layer is None:
        handle = model.register_forward_pre_hook(lambda _, inputs: (_rescaled(inputs[0], alpha, axis), *inputs[1:]))
    else:
        handle = _named(model, layer).register_forward_hook(lambda _, __, output: _rescaled(output, alpha, axis))
    with handle:
        yield model


@dataclass(frozen=True)
class ScaleCurve:
    """Accuracy of a model as a function of the norm α of the vectors at one layer; ``unchanged`` is without."""

    layer: str | None
    alphas: tuple[float, ...]
    accuracies: tuple[float, ...]
    unchanged: float

    def __str__(self) -> str:
        rows = [("unchanged", f"{self.unchanged:.4f}")]
        rows += [(f"{a:g}", f"{acc:.4f}") for a, acc in zip(self.alphas, self.accuracies, strict=True)]
        return render(("alpha", "accuracy"), rows, numbers=(0, 1))


def scale_curve(
    model: Callable[[Any], Any],
    x: Array,
    labels: Sequence[Any] | Array,
    alphas: Sequence[float],
    *,
    layer: str | None = None,
    axis: int | None = None,
) -> ScaleCurve:
    """Return the accuracy when vectors are rescaled to each norm, at the input or at a named layer.

    ``model`` maps x to labels, or to one score per class. At the input it may be any function; a named layer needs a
    torch module. Gradients are not recorded.

    References: Maiorca et al., 2024 (rescale injection).

    >>> threshold = lambda x: (x[:, 0] > 1).astype(int)
    >>> scale_curve(threshold, np.asarray([[2.0], [3.0]]), [1, 1], [0.5, 2.0]).accuracies
    (0.0, 1.0)
    """
    labels = as_labels(labels)
    x = np.asarray(x) if is_space(x) else x  # a model is given arrays, of any shape
    if len(labels) != x.shape[0]:
        raise ValueError(f"labels has {len(labels)} entries and x {x.shape[0]} rows: expected one label per row.")
    accuracies = []
    for alpha in alphas:
        given = _rescaled(x, alpha, axis) if layer is None else x
        with nullcontext() if layer is None else rescaled(model, layer, alpha, axis=axis):
            accuracies.append(_accuracy(model, given, labels))
    return ScaleCurve(layer, tuple(map(float, alphas)), tuple(accuracies), _accuracy(model, x, labels))


def _accuracy(model: Callable[[Any], Any], x: Array, labels: np.ndarray) -> float:
    predicted = to_numpy(model(x))
    predicted = np.argmax(predicted, axis=-1) if predicted.ndim == 2 else predicted
    return float(np.mean(predicted == labels))


def _rescaled(output: Any, alpha: float, axis: int | None) -> Any:
    """Rescale a layer's output, or the first part of it where the layer gives several."""
    if isinstance(output, tuple):
        return (_rescaled(output[0], alpha, axis), *output[1:])
    xp = array_namespace(output)
    shape = (output.shape[0], -1) if axis is None else output.shape
    flat = xp.reshape(output, shape)
    norm = xp.linalg.vector_norm(flat, axis=-1 if axis is None else axis, keepdims=True)
    return xp.reshape(alpha * flat / xp.where(norm == 0, xp.ones_like(norm), norm), output.shape)


def _named(model: Any, layer: str) -> Any:
    known = dict(model.named_modules()) if hasattr(model, "named_modules") else {}
    if layer not in known or not layer:
        raise ValueError(f"The model has no layer {layer!r}.{suggest(layer, [name for name in known if name])}")
    return known[layer]


def _outlier_share(norm: np.ndarray) -> float:
    low, high = np.quantile(norm, [0.25, 0.75])
    # Rounding alone does not make an outlier of a unit vector.
    fence = FENCE * (high - low) + 1e-6 * high
    return float(np.mean((norm < low - fence) | (norm > high + fence)))
