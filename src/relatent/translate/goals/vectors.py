"""Come as close as possible to the target's own vectors: a ridge, on nonlinear features where they win."""

from __future__ import annotations

from dataclasses import dataclass, replace

from relatent.translate.augmented import Features, landmark_features
from relatent.translate.folded import fold
from relatent.translate.goals.choice import Choice, Selection, Settings, Solution, per_pair
from relatent.translate.maps import Affine
from relatent.translate.pairs import NormalizedPairs, Pairs
from relatent.translate.ridge import RidgeFit

__all__ = ["Kernel", "RidgeChoice", "choose", "needs", "solve"]

# A nonlinear map needs many anchors, and must earn its cost.
AUGMENT_FROM, AUGMENT_GAIN = 300, 0.98


@dataclass(frozen=True)
class Kernel:
    """Features of a Gaussian kernel: bandwidth in median squared distances, and weight beside the vectors."""

    bandwidth: float
    weight: float

    def features(self, p: NormalizedPairs, seed: int) -> Features:
        """Return the features, with landmarks made from the pairs."""
        return landmark_features(p.x, self.bandwidth, self.weight, seed)

    def __str__(self) -> str:
        """Name it for a person."""
        return f"augmented, bandwidth {self.bandwidth:g}, weight {self.weight:g}"


KERNELS = (Kernel(0.5, 1.0), Kernel(0.5, 2.0), Kernel(2.0, 2.0))


@dataclass(frozen=True)
class RidgeChoice(Choice):
    """A ridge with its penalty, on vectors alone or with the features of a kernel."""

    penalty: float
    kernel: Kernel | None
    seed: int

    def stricter(self, factor: float) -> RidgeChoice:
        """Multiply the penalty."""
        return replace(self, penalty=factor * self.penalty)

    @property
    def shrinks(self) -> bool:
        """Whether there is a penalty."""
        return True

    @property
    def words(self) -> tuple[str, ...]:
        """The penalty."""
        return (self.normalize, f"λ={self.penalty:.3g}")

    def fit(self, pairs: Pairs) -> tuple[NormalizedPairs, RidgeFit]:
        """Fit the ridge to pairs."""
        p = pairs.normalized(self.normalize)
        features = None if self.kernel is None else self.kernel.features(p, self.seed)
        return p, RidgeFit.of(p, features, per_pair(self.penalty, self, pairs))


def needs(settings: Settings) -> tuple[bool, bool]:
    """Return whether the full scatter of the source and of the target is needed."""
    return True, settings.normalize == "whiten"


def choose(pairs: Pairs, settings: Settings) -> RidgeChoice:
    """Choose between a ridge on the vectors and ridges on features, unless a penalty says which ridge is wanted."""
    p = pairs.normalized(settings.normalize)
    fits: dict[Kernel | None, RidgeFit] = {None: RidgeFit.of(p, None, settings.penalty)}
    if settings.penalty is None and len(pairs.sample) >= AUGMENT_FROM and pairs.complete:
        fits |= {kernel: RidgeFit.of(p, kernel.features(p, settings.seed)) for kernel in KERNELS}
    errors = {kernel: fit.error(p) / (1 if kernel is None else AUGMENT_GAIN) for kernel, fit in fits.items()}
    kernel = min(errors, key=errors.__getitem__)
    named = {str(key or "ridge"): error for key, error in errors.items()}
    selection = Selection.best("cross-validation error", named, smallest=True)
    return RidgeChoice(settings.normalize, len(pairs), selection, fits[kernel].penalty, kernel, settings.seed)


def solve(pairs: Pairs, choice: RidgeChoice) -> Solution:
    """Return the ridge's map."""
    p, ridge = choice.fit(pairs)
    solved = Affine.through_means(ridge.path.matrix(ridge.penalty), ridge.summary)
    return Solution(fold(solved, p.source, p.target, dtype=pairs.dtype, features=ridge.features).guarded(pairs))
