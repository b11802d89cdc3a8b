"""How far to trust the translation of single rows: the probability that each finds its own item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from relatent._array import row_chunks
from relatent.steps import Map
from relatent.translate.goals import Solution
from relatent.translate.pairs import Pairs
from relatent.translate.quality import DEPTH, prepared
from relatent.translate.ridge import LeaveOneOut, RidgeFit

if TYPE_CHECKING:
    from relatent.translate.translator import Translator

# Fewer pairs leave folds too small to search in.
FOLDS, MIN_PAIRS = 5, 50
# Anchors to hold out: further folds tell little more.
HELD_OUT = 1_000
# Directions in which the leverage is exact.
RANK = 64
# Best other items of a query, to which its own is compared. More would mix items of other clusters in.
RIVALS = 4
# Quantiles of the rivals' excesses that are kept; beyond the last the tail is exponential.
LEVELS = np.linspace(0.0, 0.95, 96)
BLOCK_ROWS, TINY = 2_048, 1e-12


@dataclass(frozen=True, eq=False)
class Leverage:
    r"""How little anchors say about a row: :math:`h(x) = c^\top (A^\top A + \lambda I)^{-1} c`, c = x less the mean.

    λ is that of the ridge of least leave-one-out error, whose squared error on x is in proportion to 1 + h.
    Beyond the ``RANK`` main directions of the anchors, all eigenvalues count as their mean.
    """

    mean: np.ndarray
    directions: np.ndarray
    """(d, r), orthonormal columns."""
    inverse: np.ndarray
    """Of the eigenvalues with the penalty, less ``rest``, (r,)."""
    rest: float
    """The same of all other directions."""
    penalty: float
    """λ."""

    @staticmethod
    def of(pairs: Pairs, penalty: float | None = None) -> Leverage:
        """Decompose the scatter of the source: of the sample, where it was not summed in full."""
        if not pairs.full[0]:
            pairs = replace(pairs, count=len(pairs.sample), sums=None, full=(True, False))
        p = pairs.normalized("iso")
        ridge, square = RidgeFit.of(p, None if penalty is None else 0.0), float(p.source.normalizer.scale[0]) ** 2
        path = ridge.path
        penalty = ridge.penalty * path.unit / square if penalty is None else penalty
        values, vectors = path.values[::-1] / square, path.vectors[:, ::-1][:, :RANK]
        rest = 1 / (float(np.sum(values[RANK:])) / max(pairs.dims[0] - RANK, 1) + penalty)
        basis = vectors if p.source.basis is None else p.source.basis @ vectors
        return Leverage(p.source.normalizer.mean, basis, 1 / (values[:RANK] + penalty) - rest, rest, penalty)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Return that of each row, (n,)."""
        c = x - self.mean
        return np.asarray(np.maximum(self.rest * np.vecdot(c, c) + (c @ self.directions) ** 2 @ self.inverse, 0.0))


@dataclass(frozen=True, eq=False)
class Signal:
    r"""How far a map takes a row from the mean, over the error to expect.

    .. math:: s(x) = \frac{\lVert t(x) - \bar t \rVert^2}{v\, (1 + h(x))}

    v is the variance of the translated anchors, which makes maps of different scale comparable.
    """

    center: np.ndarray
    variance: float

    @staticmethod
    def of(fitted: Map, pairs: Pairs) -> Signal:
        """Take the mean and the variance of translated anchors."""
        rows = np.asarray(fitted(pairs.sample.x[:HELD_OUT]), dtype=np.float64)
        return Signal(np.mean(rows, axis=0), float(np.sum(np.var(rows, axis=0))) + TINY)

    def log(self, translated: np.ndarray, leverage: np.ndarray) -> np.ndarray:
        """Return its logarithm for rows that were translated."""
        about = translated.astype(np.float64, copy=False) - self.center
        return np.asarray(np.log(np.vecdot(about, about) / self.variance + TINY) - np.log1p(leverage))


@dataclass(frozen=True, eq=False)
class Confidence:
    r"""The probability that a translated row finds its own item in the first ten, calibrated on anchors out of fold.

    What an anchor reaches out of fold is its **margin**: by how much its own target scores above the fourth best of the
    other targets of the fold, in mean excesses of these four. For other rows it is predicted from the row itself, by a
    ridge, and from the signal that the translation has over its noise:

    .. math:: m(x) = \beta_0 + w \cdot x + \beta \log s(x), \qquad
              c(x) = \sigma(a_N + b_N\, m(x)) \min(1, h_{max} / h(x))

    m is the arsinh of the margin, s the :class:`Signal` and h the :class:`Leverage`. The two numbers of the logistic
    function are fitted to whether the margins of the anchors exceed what ten of N other items would, each margin
    predicted from all other anchors. Rows of more leverage than any anchor had out of fold are beyond what was
    calibrated, and lose in proportion.

    The definition is the same for every goal: the translated row is the query, and the items are vectors of the target
    (``transform_target``), anchors excluded. Unchanged by rotations, offsets and scales of either space, as far as the
    translator is. What breaks it: rows unlike the anchors (confidence falls, by less than the truth where a whole class
    is missing), near-copies of items, and N far beyond the anchors, where the tail of the scores is extrapolated.
    N below half the number of anchors counts as that.

    References: Platt 1999 (the logistic calibration); Pickands, Annals of Statistics 3, 1975 (the tail).
    """

    leverage: Leverage
    signal: Signal
    weights: np.ndarray
    """Of the row about the mean, (d,)."""
    slope: float
    """Of the log of the signal; not negative."""
    offset: float
    reach: float
    """The largest leverage of an anchor out of fold."""
    predicted: np.ndarray
    """Margins of anchors, as predicted from all others, (n,)."""
    margins: np.ndarray
    """What they were, (n,)."""
    tail: np.ndarray
    """Excesses of the best other items, at ``LEVELS``."""
    excess: float
    """Mean of what exceeds the last of them."""
    share: float
    """Of the other items that those best ones are."""

    @staticmethod
    def of(t: Translator) -> Confidence:
        """Calibrate a fitted translator on the pairs that it kept: at most five times the work of solving for them."""
        leverage = Leverage.of(t.pairs_)
        trials = list(_trials(t, leverage.penalty))
        columns = zip(*(one.columns for one in trials), strict=True)
        x, margins, signal, reach = (np.concatenate(parts) for parts in columns)
        excesses = np.concatenate([one.excesses for one in trials])
        found = _Regression.of(x - leverage.mean, signal, np.arcsinh(margins))
        tail = np.quantile(excesses, LEVELS)
        beyond = float(np.mean(excesses[excesses >= tail[-1]] - tail[-1]))
        share = float(np.mean([one.share for one in trials]))
        numbers = (found.weights[:-1], float(found.weights[-1]), found.offset, float(np.max(reach)))
        return Confidence(
            leverage, Signal.of(t.map_, t.pairs_), *numbers, found.predicted, np.arcsinh(margins), tail, beyond, share
        )

    def __call__(self, fitted: Map, x: np.ndarray, items: int) -> np.ndarray:
        """Return the confidence in the map's translation of each row, in a search among n items, (rows,)."""
        parts = [self._some(fitted, x[rows], items) for rows in row_chunks(len(x), BLOCK_ROWS)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _some(self, fitted: Map, x: np.ndarray, items: int) -> np.ndarray:
        leverage = self.leverage(x)
        signal = self.signal.log(np.asarray(fitted(x)), leverage)
        margin = self.offset + (x - self.leverage.mean) @ self.weights + self.slope * signal
        intercept, slope = self.calibrated(items)
        return np.asarray(expit(intercept + slope * margin) * np.minimum(1, self.reach / np.maximum(leverage, TINY)))

    def calibrated(self, items: int) -> tuple[float, float]:
        """Return intercept and slope of the logistic function that tells by a margin what is found among items."""
        if items not in self._calibrations:
            found = self.margins > np.arcsinh(self.needed(items))
            self._calibrations[items] = _logistic(self.predicted, found)
        return self._calibrations[items]

    @cached_property
    def _calibrations(self) -> dict[int, tuple[float, float]]:
        return {}

    def needed(self, items: int) -> float:
        """Return the margin that as many of the other items exceed as may be before the tenth."""
        exceeding = min(DEPTH / items / self.share, 1.0)
        if exceeding >= 1 - LEVELS[-1]:
            return float(np.interp(1 - exceeding, LEVELS, self.tail))
        return float(self.tail[-1] + self.excess * np.log((1 - LEVELS[-1]) / exceeding))

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the arrays to save, in single precision."""
        found = vars(self) | vars(self.leverage) | vars(self.signal)
        return {f"{prefix}{name}": a.astype(np.float32) for name, a in found.items() if isinstance(a, np.ndarray)}

    def about(self) -> dict[str, float]:
        """Return the numbers to save."""
        found = vars(self) | vars(self.leverage) | vars(self.signal)
        return {name: value for name, value in found.items() if isinstance(value, float)}

    @staticmethod
    def from_saved(arrays: dict[str, np.ndarray], about: dict[str, float], prefix: str) -> Confidence:
        """Rebuild from what :meth:`arrays` and :meth:`about` gave."""
        known: dict[str, Any] = {**about}
        known |= {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        leverage = Leverage(**{field.name: known.pop(field.name) for field in fields(Leverage)})
        signal = Signal(**{field.name: known.pop(field.name) for field in fields(Signal)})
        return Confidence(leverage, signal, **known)


@dataclass(frozen=True)
class _Trial:
    """What anchors of one fold reached by what all others teach."""

    columns: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
    """Source rows, margins, log of signal over noise, leverages."""
    excesses: np.ndarray
    """Of the best other items."""
    share: float


def _trials(t: Translator, penalty: float) -> Iterator[_Trial]:
    """Hold out folds, as many as give enough anchors."""
    sample = t.pairs_.sample
    if len(sample) < MIN_PAIRS:
        raise ValueError(f"There are {len(sample)} pairs: expected at least {MIN_PAIRS} to calibrate confidence on.")
    count = min(FOLDS, -(-HELD_OUT * FOLDS // len(sample)))
    for rest, rows in islice(t.pairs_.folds(FOLDS), count):
        solved: Solution = t.goal_.solve(rest, t.choice_)
        x, leverage = sample.x[rows].astype(np.float64), Leverage.of(rest, penalty)
        translated = np.asarray(solved.source(sample.x[rows]))
        margins, excesses = _margins(translated @ prepared(solved, sample.y[rows]).T)
        reach = leverage(x)
        signal = Signal.of(solved.source, rest).log(translated, reach)
        yield _Trial((x, margins, signal, reach), excesses, RIVALS / (len(rows) - 1))


def _margins(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return by how much own items (the diagonal) exceed the last of the best others, and by how much those do.

    In units of the mean of the latter, so that the scale of the scores of a query does not matter.
    """
    own = np.diagonal(scores)[:, None].copy()
    np.fill_diagonal(scores, -np.inf)
    best = np.partition(scores, len(scores) - RIVALS, axis=1)[:, -RIVALS:]
    last = np.min(best, axis=1, keepdims=True)
    unit = np.maximum(np.mean(best - last, axis=1, keepdims=True), TINY)
    return ((own - last) / unit)[:, 0], ((best - last) / unit).ravel()


@dataclass(frozen=True)
class _Regression:
    """A ridge from rows and their signal to margins."""

    weights: np.ndarray
    offset: float
    predicted: np.ndarray
    """From all other rows."""

    @staticmethod
    def of(x: np.ndarray, signal: np.ndarray, margins: np.ndarray) -> _Regression:
        """Fit, without the signal where more of it would mean less confidence: far rows must not gain by that."""
        spread = np.full(x.shape[1], np.sqrt(np.mean(np.vecdot(x, x)))), [np.std(signal) or 1.0]
        scale, rows = np.concatenate(spread), np.column_stack([x, signal])
        p = Pairs.of(rows / scale, margins[:, None]).normalized("center")
        ridge = RidgeFit.of(p)
        weights = (ridge.matrix if p.source.basis is None else p.source.basis @ ridge.matrix)[:, 0] / scale
        if weights[-1] < 0:
            return _Regression.of(x, np.zeros(len(x)), margins)
        mean = float(np.mean(margins))
        left_out = LeaveOneOut.of(ridge.path, p).predictions(ridge.penalty)[:, 0]
        offset = mean - float(np.mean(rows, axis=0) @ weights)
        return _Regression(weights, offset, left_out + mean)


def _logistic(x: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    """Return intercept and slope, not negative, of a logistic regression, with Platt's targets instead of 0 and 1."""
    hits = int(np.sum(found))
    wanted = np.where(found, (hits + 1) / (hits + 2), 1 / (len(found) - hits + 2))

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        at = parameters[0] + parameters[1] * x
        error = expit(at) - wanted
        return float(np.sum(np.logaddexp(0, at) - wanted * at)), np.asarray([np.sum(error), error @ x])

    fitted = minimize(loss, np.zeros(2), jac=True, bounds=[(None, None), (0, None)])
    return float(fitted.x[0]), float(fitted.x[1])
