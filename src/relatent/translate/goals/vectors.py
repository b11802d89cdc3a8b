"""Come as close as possible to the target's own vectors: a ridge, with a Gaussian kernel where that wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from relatent.spaces.sample import shuffled_rows
from relatent.steps import Map
from relatent.translate.goals import Choice, Selection, Settings, Solution, per_pair
from relatent.translate.kernel import Kernel, Regression, Rows, leave_one_out, left_out_predictions, regress
from relatent.translate.maps import Affine, fold
from relatent.translate.pairs import Frame, NormalizedPairs, Pairs
from relatent.translate.ridge import LIKELY, MANY_ROWS, LeaveOneOut, RidgeFit, first_valley

# σ² in median squared distances, and weights beside the linear kernel, in mean squared norms.
BANDWIDTHS, WEIGHTS, FIRST_WEIGHT = (0.125, 0.25, 0.5, 1.0), (2.0, 32.0), 8.0
# In mean eigenvalues of the centered kernel: powers of ten to choose the kernel by, half powers for the chosen one.
PENALTIES = tuple(float(p) for p in np.logspace(-6, 3, 19))
COARSE = PENALTIES[::2]
# Anchors to choose the kernel and its penalty on. How many there are changes the best kernel little, and the best
# penalty, which is the variance of the noise, hardly more.
KERNEL_ROWS = 500
# Anchors to tell by how much the predictions shrink.
LEFT_OUT_ROWS = 1_000
# By which share of the error, and how many standard errors, a kernel must be closer than a linear ridge.
EARNED, CLEAR = 0.01, 2.0
# A kernel map holds a matrix between all coordinates; that of more entries than this is not formed.
MAX_ENTRIES = 2**26


@dataclass(frozen=True)
class RidgeChoice(Choice):
    """A ridge with its penalty: linear, in units of the mean eigenvalue, or of a kernel, as it is."""

    penalty: float
    kernel: Kernel | None
    seed: int

    def stricter(self, factor: float) -> RidgeChoice:
        """Multiply the penalty."""
        return replace(self, penalty=factor * self.penalty)

    @property
    def words(self) -> tuple[str, ...]:
        """The kernel and the penalty."""
        return (self.normalize, *([] if self.kernel is None else [str(self.kernel)]), f"λ={self.penalty:.3g}")

    def left_out(self, p: NormalizedPairs) -> tuple[np.ndarray, np.ndarray]:
        """Return leave-one-out predictions of some pairs it was chosen on, and their targets, about the mean."""
        if self.kernel is not None:
            return left_out_predictions(self.kernel, self.penalty, _drawn(p, self.seed, LEFT_OUT_ROWS))
        errors = LeaveOneOut.of(RidgeFit.of(p, self.penalty).path, p)
        return errors.predictions(self.penalty), errors.y

    def regression(self, p: NormalizedPairs, pairs: Pairs) -> Regression:
        """Solve for pairs; a kernel takes rows in the coordinates of their space."""
        if self.kernel is not None:
            return regress(self.kernel, self.penalty, _rows(p), self.seed)
        ridge = RidgeFit.of(p, per_pair(self.penalty, self, pairs))
        return Regression(ridge.matrix, p.summary.mean_x, p.summary.mean_y)


def needs(settings: Settings) -> tuple[bool, bool]:
    """Return whether the full scatter of the source and of the target is needed."""
    return True, settings.normalize == "whiten"


def choose(pairs: Pairs, settings: Settings) -> RidgeChoice:
    """Choose a linear ridge, or a kernel where that is clearly closer and no penalty or cost rules it out."""
    p = pairs.normalized(settings.normalize)
    if settings.penalty is not None or not may_bend(pairs, settings):
        linear = RidgeFit.of(p, settings.penalty)
        selection = Selection.best("cross-validation error", {"ridge": linear.error(p)}, smallest=True)
        return RidgeChoice(settings.normalize, len(pairs), selection, linear.penalty, None, settings.seed)
    straight, best = _straight_and_best(p, settings.seed)
    earned = best.clearly_closer_than(straight)
    order = (best, straight) if earned else (straight, best)
    (first, score), (second, beaten) = ((str(trial.kernel), trial.error) for trial in order)
    selection = Selection("leave-one-out error", first, score, second, beaten)
    kernel, penalty = (best.kernel, best.penalty) if earned else (None, RidgeFit.of(p).penalty)
    return RidgeChoice(settings.normalize, len(pairs), selection, penalty, kernel, settings.seed)


def best_kernel(pairs: Pairs, settings: Settings) -> RidgeChoice:
    """Return the kernel of least leave-one-out error, whether or not a linear ridge is better."""
    p = pairs.normalized(settings.normalize)
    _, best = _straight_and_best(p, settings.seed)
    return RidgeChoice(settings.normalize, len(pairs), None, best.penalty, best.kernel, settings.seed)


def _straight_and_best(p: NormalizedPairs, seed: int) -> tuple[KernelTrial, KernelTrial]:
    """Return the trial of the linear kernel, and the one of least error of the others."""
    straight, *curved = kernel_trials(_drawn(p, seed, KERNEL_ROWS))
    return straight, min(curved, key=lambda trial: trial.error)


def may_bend(pairs: Pairs, settings: Settings) -> bool:
    """Return whether a kernel may be tried: its cost is allowed, all pairs are at hand, and its matrix is small."""
    too_wide = pairs.dims[0] * pairs.dims[1] > MAX_ENTRIES
    return settings.max_cost != "affine" and pairs.complete and not too_wide


@dataclass(frozen=True)
class KernelTrial:
    """A kernel, and its leave-one-out errors."""

    kernel: Kernel
    left_out: LeaveOneOut

    @cached_property
    def losses_with(self) -> Callable[[float], np.ndarray]:
        """The squared error of each row with a penalty, computed once for each."""
        return cache(self.left_out.losses)

    def error_with(self, penalty: float) -> float:
        """Return the mean error with a penalty."""
        return float(self.left_out.weights @ self.losses_with(penalty))

    @cached_property
    def coarse(self) -> float:
        """The penalty that suits it, to the nearest power of ten."""
        # Of many rows the error has one valley, so that the search may begin amid the penalties.
        return first_valley(self.error_with, COARSE, LIKELY if len(self.left_out.y) >= MANY_ROWS else None)

    @property
    def error(self) -> float:
        """With that penalty."""
        return self.error_with(self.coarse)

    def clearly_closer_than(self, linear: KernelTrial) -> bool:
        """Return whether it earns its keep: it translates several times slower, and keeps the anchors."""
        gain = linear.losses_with(linear.coarse) - self.losses_with(self.coarse)
        return bool(np.mean(gain) > max(EARNED * linear.error, CLEAR * np.std(gain) / len(gain) ** 0.5))

    @property
    def penalty(self) -> float:
        """The penalty that suits it, to half a power of ten, as it is."""
        near = [penalty for penalty in PENALTIES if 0.3 < penalty / self.coarse < 4]
        return min(near, key=self.error_with) * self.left_out.unit


def kernel_trials(rows: Rows) -> list[KernelTrial]:
    """Return trials of the linear kernel, of bandwidths, then of weights at the best bandwidth."""

    def tried(bandwidth: float, weight: float) -> KernelTrial:
        kernel = rows.kernel(bandwidth, weight)
        return KernelTrial(kernel, leave_one_out(kernel, rows))

    narrowest, narrow, wide, widest = BANDWIDTHS
    by_bandwidth = {bandwidth: tried(bandwidth, FIRST_WEIGHT) for bandwidth in (narrow, wide)}
    # The error has one valley: beyond the worse of the two it only rises.
    outer = narrowest if by_bandwidth[narrow].error < by_bandwidth[wide].error else widest
    by_bandwidth[outer] = tried(outer, FIRST_WEIGHT)
    best = min(by_bandwidth, key=lambda bandwidth: by_bandwidth[bandwidth].error)
    return [tried(1.0, 0.0), *by_bandwidth.values(), *(tried(best, weight) for weight in WEIGHTS)]


def solve(pairs: Pairs, choice: RidgeChoice) -> Solution:
    """Return the ridge's map."""
    p = pairs.normalized(choice.normalize)
    return Solution(folded(choice.regression(p, pairs), p, pairs.dtype).guarded(*pairs.target_spread))


def folded(found: Regression, p: NormalizedPairs, dtype: np.dtype) -> Map:
    """Fold a regression into a map of the two spaces."""
    solved = Affine(found.matrix, found.mean_y - found.mean_x @ found.matrix)
    source = p.source if found.features is None else Frame(p.source.normalizer)
    return fold(solved, source, p.target, dtype=dtype, features=found.features)


def _drawn(p: NormalizedPairs, seed: int, size: int) -> Rows:
    """Return at most ``size`` rows, in random order."""
    return _rows(replace(p, sample=p.sample.part(shuffled_rows(len(p.sample), size, seed)), rows=None))


def _rows(p: NormalizedPairs) -> Rows:
    """Return all coordinates of the source: distances from anchors need those too that no anchor reaches."""
    return Rows(Frame(p.source.normalizer).apply(p.sample.x), p.y, p.sample.weights)
