r"""Profiles: means and variances along fixed random directions, which show how far data have moved.

They are projected on directions whose signs sum to zero (a shift of all coordinates at once, which every rectified
network has, says nothing). Before there were quiet directions, spaces were told apart by them: the *agreement* is
:math:`\sum_i \max(r_i - c_i, 0)` over the correlations r of the means and of the log-variances, less what chance gives:
one standard deviation of r between unrelated spaces, :math:`c = \sqrt{1/m + 1/d}` for means and :math:`\sqrt{1/m}` for
deviations. It is the only measure for files of that time, and for two probes without rows at hand. Other corpora of one
encoder often look like another encoder in it, and related encoders like one.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import Protocol

import numpy as np

# Random directions that vectors are projected on.
DIRECTIONS = 512
SEED = 20_261_117


class Profile(Protocol):
    """The mean and std of rows along the first random directions."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    @property
    def mean(self) -> tuple[float, ...]:
        """The mean along each direction."""

    @property
    def std(self) -> tuple[float, ...]:
        """The standard deviation along each direction."""


def drift(before: Profile, after: Profile) -> tuple[float, float]:
    r"""Return how far the mean moved and how far the variances changed, less what chance gives for samples so large.

    .. math::
        \text{shift}^2 = \frac{1}{m}\sum_j \frac{(\mu_j - \mu'_j)^2}{\bar\sigma^2} - \frac{1}{n} - \frac{1}{n'}
        \qquad
        \text{spread}^2 = \frac{1}{m}\sum_j \log^2\frac{\sigma_j'^2}{\sigma_j^2} - \frac{2}{n} - \frac{2}{n'}

    over the directions that both have. A shift of 1 is one standard deviation; about 0 for two samples of one dataset.
    """
    m = min(len(before.mean), len(after.mean))
    variances = [np.square(np.asarray(p.std[:m])) + 1e-300 for p in (before, after)]
    scale = float(np.mean(variances[0]))
    moved = np.mean(np.square(np.asarray(before.mean[:m]) - np.asarray(after.mean[:m]))) / scale
    noise = 1 / before.rows + float(np.mean(variances[1])) / scale / after.rows
    changed = np.mean(np.square(np.log(variances[1] / variances[0]))) - 2 / before.rows - 2 / after.rows
    return float(np.sqrt(max(moved - noise, 0.0))), float(np.sqrt(max(changed, 0.0)))


def profile_agreement(a: Profile, b: Profile, dim: int) -> tuple[float, float]:
    """Return the agreement of two profiles, and what two samples of one space of these sizes would reach."""
    m = min(len(a.mean), len(b.mean))
    agreement = possible = 0.0
    for which, chance in (("mean", sqrt(1 / m + 1 / dim)), ("std", sqrt(1 / m))):
        x, y = _profile(a, which, m), _profile(b, which, m)
        size = sqrt((x @ x) * (y @ y))
        agreement += max(float(x @ y) / size - chance, 0.0) if size > 0 else 0.0
        possible += max(_reliability(a, b, x, y, which) - chance, 0.0)
    return agreement, possible


def _profile(probe: Profile, which: str, m: int) -> np.ndarray:
    """Return the means in units of the spread, or the logarithms of the variances less their mean."""
    variance = np.square(np.asarray(probe.std[:m]))
    scale = float(np.mean(variance)) or 1.0
    if which == "mean":
        means: np.ndarray = np.asarray(probe.mean[:m]) / np.sqrt(scale)
        return means
    logs: np.ndarray = np.log(variance / scale + 1e-12)
    logs -= np.mean(logs)
    return logs


def _reliability(a: Profile, b: Profile, x: np.ndarray, y: np.ndarray, which: str) -> float:
    """Return the correlation that two samples of one space would have, given the noise of either.

    The noise of a mean is 1/n in units of the variance, that of a log-variance 2/n (normal data). A profile counts as
    signal where it is clearly above its own noise, in either sample.
    """
    noise = [(1 if which == "mean" else 2) / probe.rows for probe in (a, b)]
    power = [float(np.mean(profile**2)) for profile in (x, y)]
    signal = max((p - e if p > 3 * e else 0.0) for p, e in zip(power, noise, strict=True))
    return float(np.sqrt(np.prod([signal / (signal + e) for e in noise])))


@lru_cache(maxsize=8)
def random_directions(dim: int) -> np.ndarray:
    """Return random directions as columns of zero sum: signs, the same on every machine and in every version."""
    bits = np.random.PCG64(SEED).random_raw(-(-dim * DIRECTIONS // 64))
    signs = np.unpackbits(bits.astype("<u8").view(np.uint8))[: dim * DIRECTIONS].reshape(dim, DIRECTIONS)
    directions = 2.0 * signs - 1.0
    return np.asarray((directions - directions.mean(axis=0)) / np.sqrt(dim))
