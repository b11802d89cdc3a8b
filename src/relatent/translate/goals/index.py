"""Rewrite an index once: documents of the old model are translated, and queries of the new model come as they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from relatent._linalg import row_norms, unit_norm
from relatent.evaluate.retrieval import reciprocal_ranks
from relatent.spaces.sample import Sample, shuffled_rows
from relatent.steps import Lengths
from relatent.translate.goals import Selection, Settings, Solution, vectors
from relatent.translate.goals.stitching import lost_size
from relatent.translate.goals.vectors import RidgeChoice
from relatent.translate.goals.vectors import needs as needs
from relatent.translate.maps import Affine, fold
from relatent.translate.pairs import NormalizedPairs, Pairs
from relatent.translate.ridge import trace

# Of the rotation in the blend, and how far lengths are brought to that of the anchors: what lost least on two judged
# collections, five encoders and 150 to 700 anchors. More of either helps some pairs and hurts others.
# `python -m experiments judged` measures the result.
SHARE, POWER = 0.35, 0.5
# Shares of the target's variance that are not predicted: below the first nothing of that is done, from the second on
# all of it. What is predicted well needs no correction.
QUIET, NOISY = 0.02, 0.2
# By how much, and how many standard errors, a kernel must find more than a linear ridge: it costs more, and keeps its
# anchors.
EARNED, CLEAR = 0.003, 2.0
# Fewer pairs cannot show that.
MIN_BENT = 30
# How far apart in a random order two documents are that a query lies between.
SHIFTS = (1, 8, 15)
# Rows of the target whose norms differ from 1 by no more than this are unit rows.
UNIT = 1e-3
Score = Callable[[Sample, np.ndarray], np.ndarray]
BETWEEN = "out-of-fold reciprocal rank of two documents for a query between them"
JUDGED = "out-of-fold nDCG@10 of the judged queries"
WIDE = np.dtype(np.float64)


@dataclass(frozen=True)
class IndexChoice(RidgeChoice):
    """A ridge, the factor that restores the size of its predictions, and what queries have in common."""

    gain: float
    affine: bool
    """Whether the map must be one matrix: then lengths stay as they are."""
    asked: np.ndarray | None = field(default=None, compare=False)
    """Past queries, unit rows; without them, the target's anchors stand for them."""

    @property
    def strength(self) -> float:
        """How much of the corrections is used: all where much is noise, none where all is predicted."""
        return float(np.clip((1 - self.gain**-2 - QUIET) / (NOISY - QUIET), 0.0, 1.0))

    @property
    def knows_queries(self) -> bool:
        """Whether it was told of past queries."""
        return self.asked is not None

    @property
    def words(self) -> tuple[str, ...]:
        """The ridge, and what is known of queries."""
        known = () if self.asked is None else ("past queries",)
        return (*super().words, f"{self.strength * SHARE:.0%} orthogonal", *known)

    @property
    def title(self) -> str:
        """What it is, for people."""
        return ", ".join(self.words if self.kernel is not None else ("ridge", *self.words))


def choose(pairs: Pairs, settings: Settings) -> IndexChoice:
    """Choose between a linear ridge and a kernel by what queries find of held-out documents.

    The blend with a rotation and the lengths of rows are fixed: on judged collections, choosing them by held-out
    anchors was no better than one good rule.
    """
    linear = _choice(pairs, vectors.choose(pairs, replace(settings, max_cost="affine")), settings)
    if settings.penalty is not None or not vectors.may_bend(pairs, settings) or len(pairs) < MIN_BENT:
        return linear
    return _clearly_best(pairs, linear, _choice(pairs, vectors.best_kernel(pairs, settings), settings), settings)


def _choice(pairs: Pairs, ridge: RidgeChoice, settings: Settings) -> IndexChoice:
    gain, known = lost_size(*ridge.left_out(pairs.normalized(settings.normalize))), settings.queries
    asked = None if known is None else unit_norm(known.y.astype(WIDE))
    return IndexChoice(**vars(ridge), gain=gain, affine=settings.max_cost == "affine", asked=asked)


def _clearly_best(pairs: Pairs, linear: IndexChoice, curved: IndexChoice, settings: Settings) -> IndexChoice:
    """Return the kernel where it is clearly better out of fold, else the linear ridge.

    Judged queries decide where they are clear. They are few, and the documents that were judged fewer: where they are
    not, queries between documents decide.
    """
    trials = []
    for rest, rows in pairs.trials(settings.seed):
        held = pairs.sample.part(rows)
        trials.append((held, [solve(rest, choice).source(held.x.astype(WIDE)) for choice in (linear, curved)]))

    def compared(score: Score) -> tuple[np.ndarray, np.ndarray]:
        scores = [[score(held, moved) for moved in both] for held, both in trials]
        plain, bent = (np.concatenate(column) for column in zip(*scores, strict=True))
        return plain, bent

    judged, criterion, (plain, bent) = settings.queries, BETWEEN, compared(between)
    if judged is not None and judged.relevant is not None:
        found = compared(judged.scores)
        if _surely(found[1] - found[0], len(pairs.sample)):
            criterion, (plain, bent) = JUDGED, found
    order = [(linear, plain), (curved, bent)]
    if _surely(bent - plain, len(pairs.sample)) > 0:
        order.reverse()
    (best, won), (second, lost) = ((choice, float(np.mean(scores))) for choice, scores in order)
    return replace(best, selection=Selection(criterion, best.title, won, second.title, lost))


def _surely(gain: np.ndarray, rows: int) -> int:
    """Return 1 where a gain is clear, −1 where a loss is, and 0 where neither is."""
    if not len(gain):
        return 0
    mean, least = float(np.mean(gain)), max(EARNED, CLEAR * float(np.std(gain)) / min(len(gain), rows) ** 0.5)
    return int(mean > least) - int(mean < -least)


def between(held: Sample, moved: np.ndarray) -> np.ndarray:
    r"""Return how well translated documents are found by queries that lie halfway between two of them.

    .. math:: q_{ij} = m + \tfrac12 (y_i - m) + \tfrac12 (y_j - m) \qquad
              \tfrac12 \left( \tfrac{1}{\operatorname{rank}_i} + \tfrac{1}{\operatorname{rank}_j} \right)

    A real query resembles what is relevant to it, and other documents too. The vector of a document itself as the
    query is too easy: most maps find it, and the differences between maps are not those that people see.
    """
    own = shuffled_rows(len(held.y), len(held.y), seed=0)
    y, gallery, scores = held.y.astype(WIDE), unit_norm(moved).T, []
    for shift in SHIFTS:
        other = np.roll(own, shift)
        asked = unit_norm((y[own] + y[other]) / 2) @ gallery
        scores.append((reciprocal_ranks(asked, own) + reciprocal_ranks(asked, other)) / 2)
    return np.asarray(np.mean(scores, axis=0))


def solve(pairs: Pairs, choice: IndexChoice) -> Solution:
    r"""Return :math:`m + Pd\,(L / \lVert Pd \rVert)^p` with d the deviation by a ridge, blended with a rotation's."""
    p, (mean, std) = pairs.normalized(choice.normalize), pairs.target_spread
    ridge, y = choice.regression(p, pairs), pairs.sample.y.astype(WIDE)
    grown = vectors.folded(replace(ridge, matrix=choice.gain * ridge.matrix), p, WIDE)
    blend = grown.blended(fold(_rotation(p), p.source, p.target, dtype=WIDE), choice.strength * SHARE)
    project = shared_component(y if choice.asked is None else choice.asked, choice.strength)
    assert blend.offset is not None
    found = replace(blend, matrix=project(blend.matrix), offset=project(blend.offset - mean))
    found = found.guarded(np.zeros_like(mean), std)
    if choice.affine:
        assert found.offset is not None
        return Solution(replace(found, offset=found.offset + mean).astype(pairs.dtype))
    length, norms = float(np.mean(row_norms(project(y - mean)))) or 1.0, row_norms(y)
    unit = bool(np.max(np.abs(norms - 1)) < UNIT)
    return Solution(replace(found, lengths=Lengths(mean, length, choice.strength * POWER, unit)).astype(pairs.dtype))


def shared_component(queries: np.ndarray, strength: float = 1.0) -> Callable[[np.ndarray], np.ndarray]:
    r"""Return what takes from documents the component along what queries have in common.

    .. math:: d \mapsto d - \frac{\mu^2}{\mu^2 + \sigma^2} (d \cdot e)\, e

    with :math:`\mu e` the mean query and σ² the variance of queries along it, times ``strength``. What a document has
    of it favors that document whatever is asked, and of a predicted document it is mostly noise. Only as far as
    queries differ along e does it tell documents apart.
    """
    mean = np.mean(queries, axis=0)
    size = float(np.linalg.norm(mean))
    if not size:
        return lambda rows: rows
    axis = mean / size
    share = strength * size**2 / (size**2 + float(np.var(queries @ axis)))
    return lambda rows: np.asarray(rows - share * np.multiply.outer(rows @ axis, axis))


def _rotation(p: NormalizedPairs) -> Affine:
    """Return the rotation at the size of the target: of more coordinates than there, it keeps a part only."""
    s, q = p.summary, p.rotation
    return Affine.through_means(q * np.sqrt(trace(s.yy) / (np.sum(q * (s.xx @ q)) or 1.0)), s)
