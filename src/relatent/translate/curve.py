"""Learning curves: how quality grows with the number of anchors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from relatent.evaluate.interval import Estimate, Statistic, bootstrap

__all__ = ["LearningCurve", "by_odds", "to_a_ceiling"]

# Falling powers of the number of anchors by which what is missing may shrink.
POWERS = (0.25, 0.5, 0.75, 1.0, 1.5)


@dataclass(frozen=True)
class LearningCurve:
    r"""How quality grows with the number of anchors, and what more of them would give.

    Two shapes bound what is plausible. What is missing shrinks by a power of the number of anchors k, as it does on
    the way to a ceiling:

    .. math:: q(k) = a - b\,k^{-c} \qquad b \ge 0

    (a and b by least squares, c the best of five powers); or the odds of success keep growing as they did over the last
    step, as they do on the way up: :math:`\operatorname{logit} q = \alpha + \beta \log k`, β ≥ 0. A gain is the mean of
    what the two say, its interval that of both together. ``scores`` (queries, sizes) are those of the same held-out
    queries at every size, so that gains are differences of pairs.

    What breaks it: going beyond a few times the anchors at hand is guessing, whatever the interval.

    >>> sizes = (100, 200, 400)
    >>> curve = LearningCurve("mrr", sizes, np.tile([0.5, 0.6, 0.67], (20, 1)))
    >>> 0.02 < curve.gain(400, 800).value < 0.08
    True
    """

    measure: str
    anchors: tuple[int, ...]
    scores: np.ndarray

    @property
    def values(self) -> tuple[float, ...]:
        """Mean score at each number of anchors."""
        return tuple(np.mean(self.scores, axis=0).tolist())

    def gain(self, start: float, stop: float) -> Estimate:
        """Estimate how much the mean score changes from one number of anchors to another."""
        sizes = np.asarray(self.anchors, dtype=np.float64)
        told = [bootstrap(self.scores, shape(sizes, start, stop)) for shape in (to_a_ceiling, by_odds)]
        return Estimate((told[0].value + told[1].value) / 2, min(e.low for e in told), max(e.high for e in told))


def to_a_ceiling(sizes: np.ndarray, start: float, stop: float) -> Statistic:
    """Fit a − b·k^−c to mean scores, many sets of them at once, and give what it says between two sizes."""

    def gain(means: np.ndarray) -> np.ndarray:
        errors, gains = [], []
        for power in POWERS:
            basis = -(sizes**-power)
            basis -= np.mean(basis)
            slope = np.maximum((means - np.mean(means, axis=1, keepdims=True)) @ basis, 0.0) / np.sum(basis**2)
            errors.append(np.var(means - slope[:, None] * basis, axis=1))
            gains.append(slope * (start**-power - stop**-power))
        return np.asarray(np.take_along_axis(np.stack(gains), np.argmin(np.stack(errors), axis=0)[None], axis=0)[0])

    return gain


def by_odds(sizes: np.ndarray, start: float, stop: float) -> Statistic:
    """Let the log-odds grow with log k as they did between the last two sizes."""

    def gain(means: np.ndarray) -> np.ndarray:
        odds = logit(np.clip(means[:, -2:], 1e-3, 1 - 1e-3))
        slope = np.maximum(odds[:, 1] - odds[:, 0], 0.0) / np.log(sizes[-1] / sizes[-2])
        first, last = (odds[:, 1] + slope * np.log(k / sizes[-1]) for k in (start, stop))
        return np.asarray(expit(last) - expit(first))

    return gain
