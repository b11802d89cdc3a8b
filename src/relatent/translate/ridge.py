"""Ridge regression: all penalties from one decomposition, and the penalty that predicts left-out pairs best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from relatent._linalg import spectrum
from relatent.summary import Summary
from relatent.translate.pairs import NormalizedPairs

PENALTIES: tuple[float, ...] = tuple(float(p) for p in np.logspace(-9, 3, 97))
# From this many pairs on, leaving each out in turn takes long for every penalty, and approximations of it are good.
LONG = 2_000
# Where a search for the best penalty begins.
LIKELY = 1.0
# Errors of fewer rows, and errors below this share of the variance, are computed in double precision.
MANY_ROWS, NEARLY_EXACT = 200, 1e-6


@dataclass(frozen=True)
class RidgePath:
    """All ridge solutions at once: one eigen-decomposition serves every penalty.

    Penalties are in units of the mean eigenvalue of XᵀX, so that 1 means the same in every space.
    """

    n: float
    values: np.ndarray
    vectors: np.ndarray
    rotated: np.ndarray
    """Vᵀ XᵀY."""
    power: np.ndarray
    """Squared norm of each row of it."""
    unreached: float
    """Sum of squares of Y that no matrix explains."""
    unit: float

    @staticmethod
    def of(summary: Summary, decomposed: tuple[np.ndarray, np.ndarray] | None = None) -> RidgePath:
        """Decompose XᵀX, unless that is done, dropping the directions that no anchor reaches."""
        values, vectors = decomposed or spectrum(summary.xx)
        unit = trace(summary.xx) / summary.dims[0] or 1.0
        rotated = vectors.T @ summary.xy
        power, total = np.sum(rotated**2, axis=1), trace(summary.yy)
        rest = total - float(np.sum(power / values))
        return RidgePath(summary.n, values, vectors, rotated, power, rest if rest > 1e-10 * total else 0.0, unit)

    def matrix(self, penalty: float) -> np.ndarray:
        """Return W for a penalty."""
        return np.asarray(self.vectors @ (self.rotated / (self.values + penalty * self.unit)[:, None]))

    def residual(self, penalty: float) -> float:
        """Sum of squared residuals on the anchors themselves."""
        # What no matrix explains, plus what the penalty leaves unexplained: neither cancels as the penalty vanishes.
        weight = penalty * self.unit
        return self.unreached + float(np.sum(self.power / self.values * (weight / (self.values + weight)) ** 2))

    def freedom(self, penalty: float) -> float:
        """Degrees of freedom that the residuals keep: n, less the mean, less those that the matrix uses."""
        weight = penalty * self.unit
        return max(self.n - 1 - len(self.values), 0.0) + float(np.sum(weight / (self.values + weight)))

    def gcv(self, penalty: float) -> float:
        """Generalized cross-validation error: (RSS/n) / (freedom/n)²."""
        freedom = self.freedom(penalty) / self.n
        return self.residual(penalty) / self.n / freedom**2 if freedom > 0 else np.inf

    def best(self) -> float:
        """Penalty of least generalized cross-validation error."""
        return first_valley(self.gcv, PENALTIES)


def first_valley(error: Callable[[float], float], penalties: Sequence[float], near: float | None = None) -> float:
    """Return the penalty of least error, coming from strong penalties.

    The first valley counts: repeated anchors make an error collapse again where the penalty vanishes. With ``near``, a
    strong penalty that may do, the search begins there, and stronger ones are tried only if it is the best so far.
    """
    start = len(penalties) - 1 if near is None else int(np.argmin(np.abs(np.log(penalties) - np.log(near))))
    best, least = start, np.inf
    for i in range(start, -1, -1):
        found = error(penalties[i])
        if found > 1.02 * least:
            break
        if found < least:
            best, least = i, found
    while best >= start and best + 1 < len(penalties) and error(penalties[best + 1]) < least:
        best, least = best + 1, error(penalties[best + 1])
    return penalties[best]


@dataclass(frozen=True)
class LeaveOneOut:
    r"""Predict each target row from all other pairs: :math:`y - e / (1 - h - w/n)`, h being the leverages of a ridge.

    The w/n is the share of the pair in the mean, which is estimated without the pair, too. Exact for a given
    normalization; one decomposition :math:`W^{1/2} X = U S^{1/2} V^\top` serves every penalty.
    """

    values: np.ndarray
    """S, those of the scatter or of the centered kernel."""
    left: np.ndarray
    """U, one row per pair."""
    coordinates: np.ndarray
    """Uᵀ W^½ Y, over all pairs."""
    y: np.ndarray
    """Target rows about their mean."""
    root: np.ndarray
    """W^½, a column."""
    share: np.ndarray
    """Of each pair in the mean."""
    unit: float
    """What penalties are multiples of."""

    @staticmethod
    def of(path: RidgePath, p: NormalizedPairs) -> LeaveOneOut:
        """Leave out each of the sampled pairs."""
        weights = np.ones(len(p.y)) if p.sample.weights is None else p.sample.weights
        root, scale = np.sqrt(weights)[:, None], np.sqrt(path.values)
        left = root * ((p.x - p.summary.mean_x) @ path.vectors) / scale
        coordinates = path.rotated / scale[:, None]
        return LeaveOneOut(path.values, left, coordinates, p.y - p.summary.mean_y, root, weights / path.n, path.unit)

    @cached_property
    def weights(self) -> np.ndarray:
        """What each row counts in a mean over them."""
        weights = self.root[:, 0] ** 2
        return np.asarray(weights / np.sum(weights))

    def predictions(self, penalty: float) -> np.ndarray:
        """Return the predictions, about the mean."""
        return np.asarray(self.y - self._errors(penalty, *self._factors))

    def losses(self, penalty: float) -> np.ndarray:
        """Return the squared norm of the error of each of many rows, in single precision if that has the digits."""
        if len(self.y) >= MANY_ROWS:
            found = self._squared(self._errors(penalty, *self._single))
            if self.weights @ found > NEARLY_EXACT * (self.weights @ self._squared(self.y)):
                return found
        return self._squared(self._errors(penalty, *self._factors))

    def error(self, penalty: float) -> float:
        """Return the mean squared norm of the errors."""
        return float(self.weights @ self._squared(self._errors(penalty, *self._factors)))

    def best(self, penalties: Sequence[float] = PENALTIES[::3]) -> float:
        """Return the penalty of least error."""
        return first_valley(cache(lambda penalty: float(self.weights @ self.losses(penalty))), penalties, near=LIKELY)

    def _errors(self, penalty: float, left: np.ndarray, coordinates: np.ndarray, y: np.ndarray) -> np.ndarray:
        kept = self.values / (self.values + penalty * self.unit)
        leverage = self._squares @ kept + self.share
        errors = left @ (kept[:, None].astype(left.dtype) * coordinates)
        errors /= -self.root.astype(left.dtype)  # in place: this is what choosing a penalty spends its time on
        errors += y
        errors /= np.maximum(1 - leverage, 1e-12)[:, None].astype(left.dtype)
        return np.asarray(errors)

    @staticmethod
    def _squared(rows: np.ndarray) -> np.ndarray:
        return np.asarray(np.vecdot(rows, rows), dtype=np.float64)

    @property
    def _factors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.left, self.coordinates, self.y

    @cached_property
    def _single(self) -> tuple[np.ndarray, ...]:
        return tuple(factor.astype(np.float32) for factor in self._factors)

    @cached_property
    def _squares(self) -> np.ndarray:
        return np.asarray(self.left**2)


@dataclass(frozen=True)
class RidgeFit:
    """A linear ridge with its penalty, and the error to expect."""

    path: RidgePath
    penalty: float

    @staticmethod
    def of(p: NormalizedPairs, penalty: float | None = None) -> RidgeFit:
        """Fit, with a penalty or with the best one."""
        path = RidgePath.of(p.summary, p.spectrum_x)
        return RidgeFit(path, best_penalty(path, p) if penalty is None else penalty)

    @property
    def matrix(self) -> np.ndarray:
        """W."""
        return self.path.matrix(self.penalty)

    def error(self, p: NormalizedPairs) -> float:
        """Return the cross-validation error: exact leave-one-out where all pairs are at hand."""
        return LeaveOneOut.of(self.path, p).error(self.penalty) if p.complete else self.path.gcv(self.penalty)


def best_penalty(path: RidgePath, p: NormalizedPairs) -> float:
    """Return the penalty of least leave-one-out error, or of its approximation (GCV) where that would take too long."""
    return path.best() if path.n >= LONG or not p.complete else LeaveOneOut.of(path, p).best()


def trace(moments: np.ndarray) -> float:
    """Return the trace of moments given in full or as their diagonal."""
    return float(np.sum(np.diagonal(moments) if moments.ndim == 2 else moments))
