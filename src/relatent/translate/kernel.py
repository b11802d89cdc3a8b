"""Kernel ridge: a linear map plus what a smooth nonlinear one adds, on all anchors or on landmarks made from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from relatent._linalg import eigh, positive_inverse, spectrum, squared_distances
from relatent.spaces.sample import shuffled_rows
from relatent.steps import Features, gaussian_kernel
from relatent.translate.ridge import LeaveOneOut

# Up to this many anchors, each is a center. A fit then takes about ten times as long as a linear ridge if spaces have
# 384 coordinates, and four times as long where they have 768 (`python -m benchmarks kernel`).
ALL_ANCHORS = 3_000
# Beyond, this many landmarks stand for them; more cost more than they give.
LANDMARKS = 1_024
# Directions in which landmarks differ by less than this share of the largest are rounding noise in single precision.
DISTINCT = 1e-7


@dataclass(frozen=True)
class Kernel:
    r"""A linear kernel plus a Gaussian one: :math:`a \cdot b + w\, e^{-\lVert a-b \rVert^2 / 2\sigma^2}`.

    Without the second part it is that of the linear ridge.
    """

    width: float
    """2σ²."""
    weight: float

    def weighted_similarities(self, gram: np.ndarray) -> np.ndarray:
        """Return the weight times the Gaussian similarity of every two rows, from their inner products."""
        squares = np.diagonal(gram) / self.width
        found = gram * (2 / self.width)  # these matrices are large: what follows is in place
        found -= squares
        found -= (squares - np.log(self.weight))[:, None]
        return np.asarray(np.exp(found, out=found))

    def __str__(self) -> str:
        if not self.weight:
            return "ridge"
        return f"kernel ridge, σ {np.sqrt(self.width / 2):.3g}, weight {self.weight:.3g}"


@dataclass(frozen=True)
class Rows:
    """Normalized parallel rows in the coordinates of their space, and how much each counts."""

    x: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.x)

    def part(self, rows: np.ndarray) -> Rows:
        """Return some of the rows."""
        return Rows(self.x[rows], self.y[rows], None if self.weights is None else self.weights[rows])

    @property
    def share(self) -> np.ndarray:
        """Of each row in the mean."""
        return np.full(len(self), 1 / len(self)) if self.weights is None else self.weights / np.sum(self.weights)

    @property
    def root(self) -> np.ndarray:
        """Root of the weight of each row, a column."""
        return np.ones((len(self), 1)) if self.weights is None else np.sqrt(self.weights)[:, None]

    @cached_property
    def typical_square(self) -> float:
        """Median squared distance between two rows, or the mean where most are the same."""
        distances = squared_distances(self.x, self.x)[np.triu_indices(len(self), 1)]
        return float(np.median(distances)) or float(np.mean(distances)) or 1.0

    def kernel(self, bandwidth: float, weight: float) -> Kernel:
        """Return a kernel in units of the rows: σ² in median squared distances, the weight in mean squared norms."""
        return Kernel(2 * bandwidth * self.typical_square, weight * float(np.sum(np.var(self.x, axis=0))))

    def system(self, kernel: Kernel) -> System:
        """Return the kernel of every two rows about their mean, each weighed by its root."""
        share = self.share
        # About the mean the expanded squares of the distances keep their digits.
        centered = self.x - share @ self.x
        gram, similar = centered @ centered.T, np.zeros(len(self))
        if kernel.weight:
            close = kernel.weighted_similarities(gram)
            similar = share @ close / kernel.weight
            gram += close
        means = gram @ share
        gram -= means
        gram -= (means - share @ means)[:, None]
        return System(gram if self.weights is None else self.root * gram * self.root.T, similar)


@dataclass(frozen=True)
class System:
    """What a kernel ridge is solved from."""

    matrix: np.ndarray
    """The kernel of every two rows about their mean, each weighed by its root."""
    similar: np.ndarray
    """Mean Gaussian similarity of the rows to each of them."""


@dataclass(frozen=True)
class Regression:
    """A regression before it is folded: a matrix for features, or for rows where there are none, through the means."""

    matrix: np.ndarray
    mean_x: np.ndarray
    """Of the features."""
    mean_y: np.ndarray
    features: Features | None = None


def leave_one_out(kernel: Kernel, rows: Rows) -> LeaveOneOut:
    """Return the exact leave-one-out errors of a kernel: one decomposition serves every penalty."""
    values, left = spectrum(rows.system(kernel).matrix)
    about, root = rows.y - rows.share @ rows.y, rows.root
    unit = float(np.sum(values)) / len(rows) or 1.0
    return LeaveOneOut(values, left, left.T @ (root * about), about, root, rows.share, unit)


def left_out_predictions(kernel: Kernel, penalty: float, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    r"""Return leave-one-out predictions with one penalty, and the targets, about the mean.

    With :math:`A = (HKH + \lambda I)^{-1}` the residuals are :math:`\lambda A Y` and the leverages
    :math:`1 - \lambda A_{ii}`: an inverse takes a fraction of the time of the decomposition that serves every penalty.
    """
    system, about, root = rows.system(kernel).matrix, rows.y - rows.share @ rows.y, rows.root
    system[np.diag_indices(len(system))] += penalty
    inverse = penalty * positive_inverse(system)
    left = 1 - rows.share - (1 - np.diagonal(inverse))
    return about - inverse @ (root * about) / root / np.maximum(left, 1e-12)[:, None], about


def regress(kernel: Kernel, penalty: float, rows: Rows, seed: int = 0) -> Regression:
    r"""Solve :math:`\min_{f,b} \sum_i \lVert y_i - f(x_i) - b \rVert^2 + \lambda \lVert f \rVert^2_\kappa`.

    Every anchor is a center up to ``ALL_ANCHORS`` of them; the coefficients then solve :math:`(H K H + \lambda I)
    \alpha = H Y` with the centering H. Beyond, landmarks span an approximation (Nyström), and the mean of what it
    misses of :math:`\kappa(x_i, x_i)` is added to the penalty.

    References: Saunders, Gammerman & Vovk, ICML 1998 (kernel ridge); Williams & Seeger, NeurIPS 2001 (Nyström);
    Snelson & Ghahramani, NeurIPS 2006 (what is missed is noise).
    """
    return (_on_anchors if len(rows) <= ALL_ANCHORS else _on_landmarks)(kernel, penalty, rows, seed)


def _on_anchors(kernel: Kernel, penalty: float, rows: Rows, seed: int) -> Regression:
    system, mean = rows.system(kernel), rows.share @ rows.y
    # The coefficients sum to zero, as the centered rows do, so bare similarities serve as well as centered ones.
    solved = rows.root * _solved(system.matrix, penalty, rows.root * (rows.y - mean))
    matrix = np.concatenate([rows.x.T @ solved, kernel.weight * solved])
    return Regression(
        matrix, np.concatenate([rows.share @ rows.x, system.similar]), mean, Features(rows.x, kernel.width)
    )


def _on_landmarks(kernel: Kernel, penalty: float, rows: Rows, seed: int) -> Regression:
    features, d = Features(_landmarks(rows.x, seed), kernel.width, mixed=True), rows.x.shape[1]
    values, vectors = eigh(gaussian_kernel(features.centers, features.centers, kernel.width))
    live = values > DISTINCT * values[-1]
    # Inner products of what this makes of the similarities approximate the kernel.
    whitened = np.sqrt(kernel.weight) * vectors[:, live] / np.sqrt(values[live])
    found = features.step(rows.x)
    mean_x, mean_y = rows.share @ found, rows.share @ rows.y
    similar = found[:, d:] @ whitened
    # What landmarks miss of a row's kernel is its own: to all other rows it is noise.
    missed = np.mean(rows.root[:, 0] ** 2 * (kernel.weight - np.vecdot(similar, similar)))
    found = rows.root * np.concatenate([found[:, :d] - mean_x[:d], similar - mean_x[d:] @ whitened], axis=1)
    solved = _solved(found.T @ found, penalty + missed, found.T @ (rows.root * (rows.y - mean_y)))
    return Regression(np.concatenate([solved[:d], whitened @ solved[d:]]), mean_x, mean_y, features)


def _solved(system: np.ndarray, penalty: float, right: np.ndarray) -> np.ndarray:
    """Return (A + λI)⁻¹ B, overwriting A."""
    from scipy.linalg import cho_factor, cho_solve

    system[np.diag_indices(len(system))] += penalty
    # Symmetric, so the transpose is the same, and in the order that LAPACK need not copy.
    factor = cho_factor(system.T, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, right, overwrite_b=True, check_finite=False))


def _landmarks(x: np.ndarray, seed: int) -> np.ndarray:
    """Make landmarks: each the sum of two centered rows over √2, of the same spread as they, and neither of them."""
    mean, rows = np.mean(x, axis=0), shuffled_rows(len(x), 2 * LANDMARKS, seed)
    first, second = np.split(x[rows] - mean, 2)
    return np.asarray((first + second) / np.sqrt(2) + mean)
