"""Search an index that cannot be touched, by cosine: the map whose translated queries rank held-out pairs best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from relatent._linalg import unit_norm
from relatent.steps import Map
from relatent.summary import summarize
from relatent.translate.goals import (
    Choice,
    Selection,
    Settings,
    Solution,
    cautious_means,
    held_out_ranks,
    smoothed,
)
from relatent.translate.likelihood import LikelihoodPath
from relatent.translate.maps import Affine, fold, orthogonal, ridge, whitened
from relatent.translate.pairs import NormalizedPairs, Pairs

# Of canonical queries: penalties in units of the mean eigenvalue of each side, and shares of the target's mean.
PENALTIES, SHARES = (1.0, 3.0, 10.0, 30.0), (0.0, 0.25, 0.5)
# Of the likelihood ratio, and of what makes its bias linear.
LIKELIHOOD_PENALTIES, SLOPE_PENALTY = (0.1, 0.3, 1.0, 3.0), 0.1


@dataclass(frozen=True)
class Rule:
    """A map, with the target's mean or without: queries may rank better by what sets them apart."""

    map: Callable[..., Affine]
    with_mean: bool = True
    needs_index: bool = False
    """Whether the map is made of rows of the index, too."""

    def folded(self, p: NormalizedPairs, dtype: np.dtype, index: np.ndarray | None = None) -> Map:
        """Solve for pairs."""
        target = p.target
        if not self.with_mean:
            origin = np.zeros_like(target.normalizer.mean)
            target = replace(target, normalizer=replace(target.normalizer, mean=origin))
        solved = self.map(p, index) if self.needs_index else self.map(p)
        return fold(solved, p.source, target, dtype=dtype)


def canonical(p: NormalizedPairs, penalty: float, share: float) -> Affine:
    r"""Return queries that meet unit rows of the target as canonical variables meet, less a share of their norms.

    .. math:: xW \cdot y = a(x) \cdot b(y) \qquad W = \Sigma_x^{-1/2}\, U V^\top\, \Sigma_y^{-1/2}

    with :math:`USV^\top` the whitened cross-covariance of centered rows. The index need not be whitened: the query is,
    twice. Targets of large norm about the mean m are near to many queries. Of unit rows, that norm is linear in y,
    :math:`\lVert y - m \rVert^2 = 1 + \lVert m \rVert^2 - 2\, m \cdot y`, so adding a multiple of m to every query
    takes it off; the share is of the multiple that makes scores distances.
    """
    wx, _, wy = LikelihoodPath.of(p.summary, p.spectra).canonical(penalty, penalty)
    matrix, scatter = wx @ wy.T, p.summary.yy
    spread = np.sum(scatter @ wy * wy) / np.trace(scatter)
    return Affine(matrix, share * spread * p.summary.mean_y - p.summary.mean_x @ matrix)


def likelihood(p: NormalizedPairs, index: np.ndarray, penalty: float) -> Affine:
    r"""Return queries that meet unit rows of the index as the likelihood ratio does, its bias made linear.

    .. math:: s(x, y) = xM \cdot y + b(y) \approx (xM + h) \cdot y \qquad
              h = \arg\min_h \textstyle\sum_y (b(y) - h \cdot y - c)^2 + \lambda \lVert h \rVert^2

    over rows y of the index. An item of it cannot be given a number of its own, so what of the bias is not linear is
    lost, and all that CSLS would add to it.
    """
    ratio = LikelihoodPath.of(p.summary, p.spectra).at(penalty, penalty)
    rows = p.target.apply(index)
    matrix = ratio.query.matrix[:, :-1] @ ratio.target.matrix.T
    slope = ridge(summarize(rows, np.asarray(ratio.target_vectors(rows))[:, -1:]), SLOPE_PENALTY).matrix[:, 0]
    return Affine(matrix, slope - p.summary.mean_x @ matrix)


RULES = {
    "orthogonal": Rule(lambda p: orthogonal(p.summary)),
    "ridge": Rule(lambda p: ridge(p.summary)),
    "whitened": Rule(lambda p: whitened(p.summary)),
    "orthogonal without mean": Rule(lambda p: orthogonal(p.summary), with_mean=False),
    "ridge without mean": Rule(lambda p: ridge(p.summary), with_mean=False),
}
CANONICAL = {
    f"canonical, λ={e:g}, mean × {share:g}": Rule(partial(canonical, penalty=e, share=share))
    for e in PENALTIES
    for share in SHARES
}
LIKELIHOOD = {
    f"likelihood ratio, λ={e:g}": Rule(partial(likelihood, penalty=e), needs_index=True) for e in LIKELIHOOD_PENALTIES
}
# Where another rule ranks so well, canonical queries gain nothing, and they bend the neighborhood of an item.
NEARLY_ALL = 0.99
# What else is tried where the user keeps the default normalization. Canonical queries are for unit rows.
OTHERS = [("standard", "orthogonal"), ("l2", "orthogonal"), ("center+l2", "orthogonal without mean")]
UNIT = "l2"

# Two to fit on and one to hold out.
MIN_PAIRS = 3


@dataclass(frozen=True)
class FrozenChoice(Choice):
    """A rule by its name."""

    rule: str

    @property
    def words(self) -> tuple[str, ...]:
        """The rule."""
        return (self.normalize, self.rule)

    def folded(self, pairs: Pairs, dtype: np.dtype) -> Map:
        """Solve for pairs."""
        index = None if pairs.unpaired is None else pairs.unpaired.index
        return (RULES | CANONICAL | LIKELIHOOD)[self.rule].folded(pairs.normalized(self.normalize), dtype, index)


def needs(settings: Settings) -> tuple[bool, bool]:
    """Return whether the full scatter of the source and of the target is needed."""
    return True, True


def choose(pairs: Pairs, settings: Settings) -> FrozenChoice:
    """Choose the normalization and the rule that rank held-out pairs best, canonical queries unless another is sure.

    Pairs are ranked among each other, and among rows of the index where there are any. These then decide alone, and
    the likelihood ratio is tried, too.
    """
    wide = np.dtype(np.float64)
    trials: dict[FrozenChoice, list[np.ndarray]] = {choice: [] for choice in _candidates(pairs, settings)}
    for rest, rows in pairs.trials(settings.seed):
        held = pairs.sample.part(rows)
        x, gallery = held.x.astype(wide), unit_norm(np.concatenate([held.y.astype(wide), pairs.other_targets]))
        for choice, ranks in trials.items():
            folded = choice.folded(rest, wide)
            ranks.append(held_out_ranks(unit_norm(folded(x)) @ gallery.T))
    found = {choice: np.concatenate(ranks) for choice, ranks in trials.items()}
    if len(pairs.other_targets):
        scores = {choice: float(np.mean(ranks)) for choice, ranks in found.items()}
    else:
        scores = _cautious(found, len(pairs.sample))
    named = {", ".join(choice.words): score for choice, score in scores.items()}
    best = max(scores, key=scores.__getitem__)
    return replace(best, selection=Selection.best("out-of-fold reciprocal rank", named))


def solve(pairs: Pairs, choice: FrozenChoice) -> Solution:
    """Return the map that the rule makes."""
    return Solution(choice.folded(pairs, pairs.dtype).guarded(*pairs.target_spread))


def _candidates(pairs: Pairs, settings: Settings) -> Iterator[FrozenChoice]:
    default = settings.normalize == "iso"
    found = [(settings.normalize, rule) for rule in RULES] + (OTHERS if default else [])
    if default or settings.normalize == UNIT:
        found += [(UNIT, rule) for rule in (CANONICAL | LIKELIHOOD if len(pairs.other_targets) else CANONICAL)]
    return (FrozenChoice(name, len(pairs), None, rule) for name, rule in found)


def _cautious(ranks: dict[FrozenChoice, np.ndarray], queries: int) -> dict[FrozenChoice, float]:
    """Return the mean reciprocal ranks. Canonical queries are expected to win, and other rules must do so clearly."""
    path = [choice for choice in ranks if choice.rule in CANONICAL]
    others = {choice: r for choice, r in ranks.items() if choice not in path}
    plain = {choice: float(np.mean(r)) for choice, r in others.items()}
    if not path or max(plain.values()) >= NEARLY_ALL:
        return plain
    means = np.reshape([np.mean(ranks[choice]) for choice in path], (len(PENALTIES), len(SHARES)))
    smooth = smoothed(means).ravel()
    expected = ranks[path[int(np.argmax(smooth))]]
    return dict(zip(path, smooth.tolist(), strict=True)) | cautious_means(others, expected, queries)
