"""What "auto" means: for each goal the map that serves it best, chosen on anchors alone.

Nothing here sees more than the anchors. Penalties come from generalised cross-validation or leave-one-out in closed
form; what must be judged by ranking is ranked out of fold, a fold being left out of a summary by subtraction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from relatent._array import random_generator
from relatent._linalg import unit_norm
from relatent.spaces.normalize import Normalizer
from relatent.translate.augmented import Features, landmark_features
from relatent.translate.maps import PENALTIES, Affine, RidgePath, orthogonal, ridge, whitened
from relatent.translate.retrieval import LikelihoodPath, LikelihoodRatio
from relatent.translate.summary import Summary, summarize

__all__ = [
    "Prepared",
    "Selection",
    "best_penalty",
    "for_frozen_target",
    "for_retrieval",
    "for_stitching",
    "for_vectors",
]

# Below this many anchors a smooth approximation of leave-one-out is not to be trusted.
FEW = 50
# From this many pairs on, so many of them held out once choose as well as three folds do.
MANY, ENOUGH = 5_000, 1_000
# A nonlinear map needs many anchors, and must earn its cost.
AUGMENT_FROM, AUGMENT_GAIN = 300, 0.98
LIKELIHOOD_PENALTIES = (1e-3, 1e-2, 0.1, 0.3, 1.0, 3.0, 10.0)
# Share of the orthogonal map in the blend for stitching.
BLEND = 0.25


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
    raw_x: np.ndarray
    raw_y: np.ndarray

    @cached_property
    def x(self) -> np.ndarray:
        """Sampled source rows, normalised."""
        return np.asarray(self.source.apply(self.raw_x.astype(np.float64)))

    @cached_property
    def y(self) -> np.ndarray:
        """Sampled target rows, normalised."""
        return np.asarray(self.target.apply(self.raw_y.astype(np.float64)))

    def folds(self, count: int, seed: int = 0) -> Iterator[tuple[Summary, np.ndarray]]:
        """Give, for each fold, the summary of all other pairs and the rows held out."""
        count = min(count, len(self.x))
        fold = random_generator(seed).permutation(len(self.x)) % count
        for i in range(count):
            rows = np.flatnonzero(fold == i)
            yield self.summary - self.part(rows), rows

    def trials(self, seed: int = 0) -> Iterator[tuple[Summary, np.ndarray]]:
        """Give what to choose by: three folds, or a single part where it is large enough to tell on its own."""
        if len(self.raw_x) < MANY:
            yield from self.folds(3, seed)
            return
        rows = random_generator(seed).permutation(len(self.raw_x))[:ENOUGH]
        yield self.summary - self.part(rows), rows

    def part(self, rows: np.ndarray) -> Summary:
        """Summarise some of the sampled pairs, as fully as all are summarised."""
        full = {"full_x": self.summary.xx.ndim == 2, "full_y": self.summary.yy.ndim == 2}
        return summarize(self.x[rows], self.y[rows], **full)


def for_vectors(p: Prepared, penalty: float | None = None, seed: int = 0) -> tuple[Affine, Features | None, Selection]:
    """Reconstruct the target: ridge, on augmented features where cross-validation shows that they win."""
    path = RidgePath.of(p.summary)
    penalty = best_penalty(path, p) if penalty is None else penalty
    found: dict[str, tuple[RidgePath, float, Features | None, Summary]] = {"ridge": (path, penalty, None, p.summary)}
    if len(p.raw_x) >= max(AUGMENT_FROM, p.summary.n):  # all pairs are at hand
        for reach, weight in ((0.5, 1.0), (0.5, 2.0), (2.0, 2.0)):
            features = landmark_features(p.x, reach, weight, seed)
            summary = summarize(features.of(p.x), p.y, full_y=False)
            wide = RidgePath.of(summary)
            found[f"augmented, bandwidth {reach:g}, weight {weight:g}"] = wide, wide.best(), features, summary
    errors = {name: f[0].gcv(f[1]) / (1 if f[2] is None else AUGMENT_GAIN) for name, f in found.items()}
    selection = Selection.best("generalised cross-validation error", errors, smallest=True)
    path, penalty, chosen, summary = found[selection.chosen]
    return Affine.through_means(path.matrix(penalty), summary), chosen, selection


def for_stitching(p: Prepared, penalty: float | None = None) -> tuple[Affine, Selection]:
    r"""Feed a frozen head: :math:`\tfrac34 g W_{ridge} + \tfrac14 W_{orthogonal}`.

    A ridge shrinks its predictions, and a head was trained on vectors of full length: g restores the size that
    leave-one-out predictions lost. The orthogonal part keeps directions that the ridge gives up on.
    """
    path = RidgePath.of(p.summary)
    penalty = best_penalty(path, p) if penalty is None else penalty
    w = path.matrix(penalty)
    left_out = _leave_one_out(path, p, penalty)
    y = p.y - p.summary.mean_y
    gain = float(np.sqrt(np.sum(y**2) / max(np.sum(left_out**2), np.finfo(np.float64).tiny)))
    gain = min(gain, 10.0)  # anchors that predict nothing at all
    turned = orthogonal(p.summary).matrix
    matrix = (1 - BLEND) * gain * w + BLEND * turned
    record = Selection("penalty; the blend is fixed", "blend", penalty, None, None)
    return Affine.through_means(matrix, p.summary), record


def for_retrieval(candidates: dict[str, Prepared], seed: int = 0) -> tuple[LikelihoodRatio, str, Selection]:
    """Search: the likelihood ratio whose preparation and penalty rank held-out pairs best."""
    scores: dict[str, float] = {}
    for name, p in candidates.items():
        # Many pairs need no strong penalty.
        penalties = [e for e in LIKELIHOOD_PENALTIES if e <= 1 or len(p.raw_x) < MANY]
        trials = []
        for rest, rows in p.trials(seed):
            path = LikelihoodPath.of(rest)
            trials.append([reciprocal_rank(*_scored(path.at(e), p, rows)) for e in penalties])
        gains = _smoothed(np.mean(trials, axis=0))
        scores |= {f"{name}, penalty {e:g}": s for e, s in zip(penalties, gains.tolist(), strict=True)}
    selection = Selection.best("out-of-fold reciprocal rank", scores)
    name, penalty = selection.chosen.split(", penalty ")
    return LikelihoodPath.of(candidates[name].summary).at(float(penalty)), name, selection


def for_frozen_target(p: Prepared, seed: int = 0) -> tuple[Affine, Selection]:
    """Search an index that cannot be touched, by cosine: the map that ranks held-out pairs best."""
    trials: dict[str, list[float]] = {name: [] for name in FROZEN_TARGET_MAPS}
    for rest, rows in p.trials(seed):
        raw = unit_norm(p.target.undo(p.y[rows]))
        for name, rule in FROZEN_TARGET_MAPS.items():
            a = rule(rest, p.target)
            predicted = unit_norm(p.target.undo(p.x[rows] @ a.matrix + a.offset))
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


def best_penalty(path: RidgePath, p: Prepared) -> float:
    """Generalised cross-validation, or exact leave-one-out where anchors are too few for an approximation of it."""
    if path.n > max(FEW, 3 * len(path.values)) or len(p.raw_x) < path.n:
        return path.best()
    y = p.y - p.summary.mean_y
    return min(PENALTIES[::3], key=lambda penalty: float(np.sum((y - _leave_one_out(path, p, penalty)) ** 2)))


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


def _leave_one_out(path: RidgePath, p: Prepared, penalty: float) -> np.ndarray:
    """Predict each centred target row from all other pairs: y − e/(1 − h − 1/n)."""
    x, y = p.x - p.summary.mean_x, p.y - p.summary.mean_y
    rotated = x @ path.vectors
    leverage = np.sum(rotated**2 / (path.values + penalty * path.unit), axis=1) + 1 / path.n
    residual = y - x @ path.matrix(penalty)
    return np.asarray(y - residual / np.maximum(1 - leverage, 1e-12)[:, None])


def _scored(ratio: LikelihoodRatio, p: Prepared, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return p.x[rows] @ ratio.query.matrix + ratio.query.offset, ratio.target_vectors(p.y[rows])
