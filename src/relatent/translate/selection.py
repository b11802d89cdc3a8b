"""What "auto" means: for each goal the map that serves it best, chosen on anchors alone.

Nothing here sees more than the anchors. Penalties come from generalised cross-validation or leave-one-out in closed
form; what must be judged by ranking is ranked out of fold, a fold being left out of a summary by subtraction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from relatent._array import random_generator
from relatent._linalg import thin_svd, unit_norm
from relatent.spaces.normalize import Normalizer
from relatent.summary import Summary, summarize
from relatent.translate.augmented import Features, landmark_features
from relatent.translate.likelihood import LikelihoodPath, LikelihoodRatio
from relatent.translate.maps import PENALTIES, Affine, RidgePath, first_valley, orthogonal, ridge, whitened
from relatent.translate.sample import Sample

__all__ = [
    "Prepared",
    "RidgeFit",
    "Selection",
    "best_penalty",
    "blend",
    "for_frozen_target",
    "for_retrieval",
    "for_stitching",
    "for_vectors",
    "likelihood_choice",
]

# From so many pairs on, leaving each out in turn takes long for every penalty, and approximations of it are good.
LONG = 2_000
# From this many pairs on, so many of them held out once choose as well as three folds do.
MANY, ENOUGH = 5_000, 1_000
# Below this many, one division into folds is a matter of luck.
STEADY = 300
# A nonlinear map needs many anchors, and must earn its cost.
AUGMENT_FROM, AUGMENT_GAIN = 300, 0.98
LIKELIHOOD_PENALTIES = tuple(float(p) for p in np.logspace(-3, 1, 9))
# Share of the orthogonal map in the blend for stitching.
BLEND = 0.3


@dataclass(frozen=True)
class Selection:
    """What was chosen, by which criterion, and what came second. Smaller is better only for errors."""

    criterion: str
    chosen: str
    score: float
    runner_up: str | None
    runner_up_score: float | None

    @staticmethod
    def best(criterion: str, scores: dict[str, float], smallest: bool = False) -> Selection:
        """Order candidates by their score."""
        order = sorted(scores, key=scores.__getitem__, reverse=not smallest)
        second = order[1] if len(order) > 1 else None
        return Selection(criterion, order[0], scores[order[0]], second, None if second is None else scores[second])


@dataclass(frozen=True)
class Prepared:
    """Anchors ready for a map: two normalisers, the summary of all normalised pairs, and a sample of the pairs."""

    source: Normalizer
    target: Normalizer
    summary: Summary
    sample: Sample

    @cached_property
    def x(self) -> np.ndarray:
        """Sampled source rows, normalised."""
        return _wide(self.source, self.sample.x)

    @cached_property
    def y(self) -> np.ndarray:
        """Sampled target rows, normalised."""
        return _wide(self.target, self.sample.y)

    def some(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give some of the sampled pairs, normalised, without looking at the others."""
        part = self.sample.part(rows)
        return _wide(self.source, part.x), _wide(self.target, part.y)

    def folds(self, count: int, seed: int = 0) -> Iterator[tuple[Summary, np.ndarray]]:
        """Give, for each fold, the summary of all other pairs and the rows held out."""
        count = min(count, len(self.sample))
        fold = random_generator(seed).permutation(len(self.sample)) % count
        for i in range(count):
            rows = np.flatnonzero(fold == i)
            yield self.summary - self.part(rows), rows

    def trials(self, seed: int = 0) -> Iterator[tuple[Summary, np.ndarray]]:
        """Give what to choose by: three folds, of few pairs several times, or one part that is large enough to tell."""
        if len(self.sample) < MANY:
            for again in range(max(1, STEADY // len(self.sample))):
                yield from self.folds(3, seed + again)
            return
        rows = random_generator(seed).permutation(len(self.sample))[:ENOUGH]
        yield self.summary - self.part(rows), rows

    def part(self, rows: np.ndarray) -> Summary:
        """Summarise some of the sampled pairs, as fully as all are summarised."""
        full = {"full_x": self.summary.xx.ndim == 2, "full_y": self.summary.yy.ndim == 2}
        return summarize(*self.some(rows), **full)


def _wide(normalizer: Normalizer, rows: np.ndarray) -> np.ndarray:
    return np.asarray(normalizer.applied(rows.astype(np.float64, copy=False)))


def for_vectors(p: Prepared, penalty: float | None = None, seed: int = 0) -> tuple[Affine, Features | None, Selection]:
    """Reconstruct the target: ridge, on augmented features where cross-validation shows that they win."""
    chosen, selection = _best_ridge(p, penalty, seed)
    matrix = chosen.path.matrix(chosen.penalty)
    return Affine.through_means(matrix, chosen.summary), chosen.features, selection


def for_stitching(
    p: Prepared, penalty: float | None = None, seed: int = 0
) -> tuple[Affine, Features | None, Selection]:
    """Feed a frozen head: the reconstruction at its full length, blended with the orthogonal map."""
    chosen, selection = _best_ridge(p, penalty, seed)
    named = replace(selection, chosen=f"{selection.chosen}, blended with orthogonal")
    return blend(p, chosen), chosen.features, named


def blend(p: Prepared, ridge: RidgeFit) -> Affine:
    r""":math:`(1 - \beta)\, g W_{ridge} + \beta W_{orthogonal}`.

    A ridge shrinks its predictions, and a head was trained on vectors of full length: g restores the size that
    leave-one-out predictions lost. The orthogonal part keeps directions that the ridge gives up on.
    """
    left_out = ridge.left_out(p)
    predicted = np.sum(left_out.predictions(ridge.penalty) ** 2)
    gain = float(np.sqrt(np.sum(left_out.y**2) / max(predicted, np.finfo(np.float64).tiny)))
    gain = min(gain, 10.0)  # anchors that predict nothing at all
    matrix = (1 - BLEND) * gain * ridge.path.matrix(ridge.penalty)
    matrix[: p.summary.dims[0]] += BLEND * orthogonal(p.summary).matrix  # features begin with the vectors themselves
    return Affine.through_means(matrix, ridge.summary)


def _best_ridge(p: Prepared, penalty: float | None, seed: int) -> tuple[RidgeFit, Selection]:
    """Choose between a ridge on the vectors and ridges on features, unless a penalty says which ridge is wanted."""
    found = {"ridge": RidgeFit.of(p, None, penalty)}
    if penalty is None and len(p.sample) >= AUGMENT_FROM and _all_at_hand(p):
        for reach, weight in ((0.5, 1.0), (0.5, 2.0), (2.0, 2.0)):
            features = landmark_features(p.x, reach, weight, seed)
            found[f"augmented, bandwidth {reach:g}, weight {weight:g}"] = RidgeFit.of(p, features)
    errors = {name: f.error / (1 if f.features is None else AUGMENT_GAIN) for name, f in found.items()}
    selection = Selection.best("cross-validation error", errors, smallest=True)
    return found[selection.chosen], selection


@dataclass(frozen=True)
class RidgeFit:
    """A ridge on rows or on features of them, with the penalty that suits it and the error to expect."""

    features: Features | None
    summary: Summary
    path: RidgePath
    penalty: float
    error: float

    @staticmethod
    def of(p: Prepared, features: Features | None, penalty: float | None = None) -> RidgeFit:
        """Fit, with a penalty or with the best one."""
        x = None if features is None else features.of(p.x)
        summary = p.summary if x is None else summarize(x, p.y, full_y=False)
        path = RidgePath.of(summary)
        penalty = best_penalty(path, p, x) if penalty is None else penalty
        error = _LeaveOneOut(path, p, x).error(penalty) if _all_at_hand(p) else path.gcv(penalty)
        return RidgeFit(features, summary, path, penalty, error)

    def left_out(self, p: Prepared) -> _LeaveOneOut:
        """Give what leaving out each of the pairs shows."""
        return _LeaveOneOut(self.path, p, None if self.features is None else self.features.of(p.x))


def for_retrieval(candidates: dict[str, Prepared], seed: int = 0) -> tuple[LikelihoodRatio, str, Selection]:
    """Search: the likelihood ratio whose preparation and penalties rank held-out pairs best.

    The two penalties are the same multiple of each side's mean eigenvalue, or of one unit for both, which suits
    spaces of different dimensions. A penalty that suits the share of the pairs which a trial leaves is, per pair, that
    much smaller for all of them.
    """
    spanned = {name: _Spanned.of(p) for name, p in candidates.items()}
    scores: dict[str, float] = {}
    for name, p in spanned.items():
        # Many pairs need no strong penalty, and a coarse grid is enough for them.
        grid = LIKELIHOOD_PENALTIES[:7:2] if len(p.pairs.sample) >= MANY else LIKELIHOOD_PENALTIES
        paths = [(LikelihoodPath.of(rest, p.dims), p.pairs.some(rows)) for rest, rows in p.pairs.trials(seed)]
        share = float(np.mean([path.summary.n for path, _ in paths])) / p.pairs.summary.n
        for tilt in sorted({1.0, p.dims[0] / p.dims[1]}):
            penalties = [(e * tilt**0.5, e / tilt**0.5) for e in grid]
            ranks = [[reciprocal_rank(*path.at(*e).vectors(*pairs)) for e in penalties] for path, pairs in paths]
            names = [f"{name}, penalties {share * x:g} and {share * y:g}" for x, y in penalties]
            scores |= dict(zip(names, _smoothed(np.mean(ranks, axis=0)).tolist(), strict=True))
    selection = Selection.best("out-of-fold reciprocal rank", scores)
    name, *chosen = likelihood_choice(selection)
    return spanned[name].ratio(*chosen), name, selection


def likelihood_choice(selection: Selection) -> tuple[str, float, float]:
    """Give the preparation and the two penalties of the likelihood ratio that was chosen."""
    name, penalties = selection.chosen.split(", penalties ")
    x, y = map(float, penalties.split(" and "))
    return name, x, y


@dataclass(frozen=True)
class _Spanned:
    """Pairs in the coordinates of the directions that they reach, where these are few.

    Directions that no anchor reaches count for nothing, so nothing is lost, and decompositions are small.
    """

    pairs: Prepared
    dims: tuple[int, int]
    bases: tuple[np.ndarray, np.ndarray] | None

    @staticmethod
    def of(p: Prepared) -> _Spanned:
        if not _all_at_hand(p) or len(p.sample) > min(p.summary.dims):
            return _Spanned(p, p.summary.dims, None)
        bases = _reached(p.x), _reached(p.y)
        x, y = p.x @ bases[0], p.y @ bases[1]
        small = Prepared(Normalizer.fit(x, "none"), Normalizer.fit(y, "none"), summarize(x, y), Sample(x, y))
        return _Spanned(small, p.summary.dims, bases)

    def ratio(self, penalty_x: float, penalty_y: float) -> LikelihoodRatio:
        ratio = LikelihoodPath.of(self.pairs.summary, self.dims).at(penalty_x, penalty_y)
        return ratio if self.bases is None else ratio.lifted(*self.bases)


def _reached(rows: np.ndarray) -> np.ndarray:
    """Orthonormal columns that span the rows about their mean."""
    _, s, vt = thin_svd(rows - np.mean(rows, axis=0))
    return np.asarray(vt[s > max(rows.shape) * np.finfo(np.float64).eps * s[0]].T)


def for_frozen_target(p: Prepared, seed: int = 0) -> tuple[Affine, Selection]:
    """Search an index that cannot be touched, by cosine: the map that ranks held-out pairs best."""
    trials: dict[str, list[float]] = {name: [] for name in FROZEN_TARGET_MAPS}
    for rest, rows in p.trials(seed):
        x, y = p.some(rows)
        raw = unit_norm(p.target.undo(y))
        for name, rule in FROZEN_TARGET_MAPS.items():
            a = rule(rest, p.target)
            predicted = unit_norm(p.target.undo(x @ a.matrix + a.offset))
            trials[name].append(reciprocal_rank(predicted, raw))
    scores = {name: float(np.mean(ranks)) for name, ranks in trials.items()}
    selection = Selection.best("out-of-fold reciprocal rank", scores)
    return FROZEN_TARGET_MAPS[selection.chosen](p.summary, p.target), selection


def _without_mean(rule: Callable[[Summary], Affine]) -> Callable[[Summary, Normalizer], Affine]:
    """Leave the target's mean out of the translation, so that queries rank by what sets them apart."""

    def bare(summary: Summary, target: Normalizer) -> Affine:
        a = rule(summary)
        return Affine(a.matrix, a.offset + target.apply(np.zeros((1, summary.dims[1])))[0])

    return bare


FROZEN_TARGET_MAPS: dict[str, Callable[[Summary, Normalizer], Affine]] = {
    "orthogonal": lambda s, _: orthogonal(s),
    "ridge": lambda s, _: ridge(s),
    "whitened": lambda s, _: whitened(s),
    "orthogonal without mean": _without_mean(orthogonal),
    "ridge without mean": _without_mean(ridge),
}


def best_penalty(path: RidgePath, p: Prepared, x: np.ndarray | None = None) -> float:
    """Exact leave-one-out, or its approximation by generalised cross-validation where that would take too long.

    ``x`` are features of the source rows, if the path is of those.
    """
    if path.n >= LONG or not _all_at_hand(p):
        return path.best()
    return first_valley(_LeaveOneOut(path, p, x).error, PENALTIES[::3])


def _all_at_hand(p: Prepared) -> bool:
    """Tell whether the sample of the pairs is all of them."""
    return p.summary.n <= len(p.sample)


def reciprocal_rank(queries: np.ndarray, gallery: np.ndarray) -> float:
    """Mean reciprocal rank of row i for query i among all rows, by inner product; equals share their places."""
    scores = queries @ gallery.T
    own = np.diagonal(scores)[:, None]
    rank = 0.5 + np.sum(scores > own, axis=1) + 0.5 * np.sum(scores == own, axis=1)
    return float(np.mean(1 / rank))


def _smoothed(scores: np.ndarray) -> np.ndarray:
    """Average each score with its neighbours: of a broad summit the middle, and no lucky spike."""
    padded = np.pad(scores, 1, mode="edge")
    return np.asarray(padded[:-2] + padded[1:-1] + padded[2:]) / 3


class _LeaveOneOut:
    """Predict each target row from all other pairs: y − e/(1 − h − 1/n), with the leverages h of a ridge."""

    def __init__(self, path: RidgePath, p: Prepared, x: np.ndarray | None) -> None:
        centred = p.x - p.summary.mean_x if x is None else x - np.mean(x, axis=0)
        self.path, self.rotated, self.y = path, centred @ path.vectors, p.y - p.summary.mean_y

    def predictions(self, penalty: float) -> np.ndarray:
        """Give the predictions, about the mean."""
        return np.asarray(self.y - self._errors(penalty))

    def error(self, penalty: float) -> float:
        """Give the mean squared length of the errors."""
        return float(np.sum(self._errors(penalty) ** 2)) / len(self.y)

    def _errors(self, penalty: float) -> np.ndarray:
        weights = 1 / (self.path.values + penalty * self.path.unit)
        leverage = self.rotated**2 @ weights + 1 / self.path.n
        residual = self.y - self.rotated @ (weights[:, None] * self.path.rotated)
        return np.asarray(residual / np.maximum(1 - leverage, 1e-12)[:, None])
