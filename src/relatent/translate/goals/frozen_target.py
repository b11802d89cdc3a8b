"""Search an index that cannot be touched, by cosine: the map whose translated queries rank held-out pairs best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from relatent._linalg import polar, unit_norm
from relatent.evaluate.neighbors import nearest
from relatent.evaluate.retrieval import Judgments
from relatent.spaces.normalize import scaled
from relatent.spaces.sample import Sample
from relatent.steps import Lengths, Map
from relatent.summary import summarize
from relatent.translate.goals import (
    MIN_SEEN,
    SINGLE,
    Choice,
    Queries,
    Selection,
    Settings,
    Solution,
    cautious_means,
    clearly_worse,
    held_out_ranks,
    smoothed,
)
from relatent.translate.likelihood import LikelihoodPath
from relatent.translate.maps import Affine, fold, orthogonal, ridge, whitened
from relatent.translate.pairs import NormalizedPairs, Pairs

# Correlations over the largest below which canonical variables are noise.
CORRELATED = 1e-6
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

    def solved(self, p: NormalizedPairs, index: np.ndarray | None) -> Affine:
        """Solve for pairs, in their coordinates."""
        return self.map(p, index) if self.needs_index else self.map(p)

    def folded(self, p: NormalizedPairs, dtype: np.dtype, index: np.ndarray | None = None) -> Map:
        """Solve for pairs, in the coordinates of their spaces."""
        target = p.target
        if not self.with_mean:
            origin = np.zeros_like(target.normalizer.mean)
            target = replace(target, normalizer=replace(target.normalizer, mean=origin))
        return fold(self.solved(p, index), p.source, target, dtype=dtype)


def rotation(p: NormalizedPairs) -> Affine:
    """Return the orthogonal map, made once."""
    return p.once("orthogonal", lambda: orthogonal(p.summary, p.rtol))


def regression(p: NormalizedPairs) -> Affine:
    """Return the ridge of least generalized cross-validation error, made once."""
    return p.once("ridge", lambda: ridge(p.summary, decomposed=p.spectrum_x))


def canonical(p: NormalizedPairs, penalty: float, share: float) -> Affine:
    r"""Return queries that meet unit rows of the target as canonical variables meet, less a share of their norms.

    .. math:: xW \cdot y = a(x) \cdot b(y) \qquad W = \Sigma_x^{-1/2}\, U V^\top\, \Sigma_y^{-1/2}

    with :math:`USV^\top` the whitened cross-covariance of centered rows. The index need not be whitened: the query is,
    twice. Targets of large norm about the mean m are near to many queries. Of unit rows, that norm is linear in y,
    :math:`\lVert y - m \rVert^2 = 1 + \lVert m \rVert^2 - 2\, m \cdot y`, so adding a multiple of m to every query
    takes it off; the share is of the multiple that makes scores distances.
    """
    matrix, spread = p.once(("canonical", penalty), lambda: _canonical(p, penalty))
    return Affine(matrix, share * spread * p.summary.mean_y - p.summary.mean_x @ matrix)


def _canonical(p: NormalizedPairs, penalty: float) -> tuple[np.ndarray, float]:
    """Return W, and the mean squared canonical variable over that of the coordinates."""
    path = _path(p)
    root_x, root_y = path.roots(penalty, penalty)
    turn = polar(path.cross / root_x[:, None] / root_y, max(p.rtol, CORRELATED))
    spread = np.sum(np.vecdot(turn.T, turn.T) * path.values_y / root_y**2) / np.sum(path.values_y)
    return (path.vectors_x / root_x) @ turn @ (path.vectors_y / root_y).T, float(spread)


def likelihood(p: NormalizedPairs, index: np.ndarray, penalty: float) -> Affine:
    r"""Return queries that meet unit rows of the index as the likelihood ratio does, its bias made linear.

    .. math:: s(x, y) = xM \cdot y + b(y) \approx (xM + h) \cdot y \qquad
              h = \arg\min_h \textstyle\sum_y (b(y) - h \cdot y - c)^2 + \lambda \lVert h \rVert^2

    over rows y of the index. An item of it cannot be given a number of its own, so what of the bias is not linear is
    lost, and all that CSLS would add to it.
    """
    ratio = _path(p).at(penalty, penalty)
    rows = p.target.apply(index)
    matrix = ratio.query.matrix[:, :-1] @ ratio.target.matrix.T
    slope = ridge(summarize(rows, np.asarray(ratio.target_vectors(rows))[:, -1:]), SLOPE_PENALTY).matrix[:, 0]
    return Affine(matrix, slope - p.summary.mean_x @ matrix)


def _path(p: NormalizedPairs) -> LikelihoodPath:
    return p.once("path", lambda: LikelihoodPath.of(p.summary, p.spectra))


RULES = {
    "orthogonal": Rule(rotation),
    "ridge": Rule(regression),
    "whitened": Rule(lambda p: whitened(p.summary, decomposed=p.spectra)),
    "orthogonal without mean": Rule(rotation, with_mean=False),
    "ridge without mean": Rule(regression, with_mean=False),
}
CANONICAL = {
    f"canonical, λ={e:g}, mean × {share:g}": Rule(partial(canonical, penalty=e, share=share))
    for e in PENALTIES
    for share in SHARES
}
LIKELIHOOD = {
    f"likelihood ratio, λ={e:g}": Rule(partial(likelihood, penalty=e), needs_index=True) for e in LIKELIHOOD_PENALTIES
}
ALL_RULES = RULES | CANONICAL | LIKELIHOOD
# Where another rule ranks so well, canonical queries gain nothing, and they bend the neighborhood of an item.
NEARLY_ALL = 0.99
# What else is tried where the user keeps the default normalization. Canonical queries are for unit rows.
OTHERS = [("standard", "orthogonal"), ("l2", "orthogonal"), ("center+l2", "orthogonal without mean")]
UNIT = "l2"

# Two to fit on and one to hold out.
MIN_PAIRS = 3


# Of the difference between the means of translated and true queries that is added to each: all of it fits few pairs of
# queries too closely.
OFFSET_SHARE = 0.5
# Pairs of queries that an offset takes, folds that decide about it, and neighbors that are compared.
MIN_QUERIES, QUERY_FOLDS, NEIGHBORS = 20, 5, 10


@dataclass(frozen=True)
class FrozenChoice(Choice):
    """A rule by its name, and the offset of queries where these are embedded otherwise than documents."""

    rule: str
    offset: np.ndarray | None = field(default=None, compare=False)
    asked: bool = field(default=False, compare=False)

    @property
    def knows_queries(self) -> bool:
        """Whether it was told of pairs of queries."""
        return self.asked

    @property
    def words(self) -> tuple[str, ...]:
        """The rule, and whether queries have an offset of their own."""
        return (self.normalize, self.rule, *([] if self.offset is None else ["offset of queries"]))

    def folded(self, pairs: Pairs, dtype: np.dtype) -> Map:
        """Solve for pairs."""
        index = None if pairs.unpaired is None else pairs.unpaired.index
        return ALL_RULES[self.rule].folded(pairs.normalized(self.normalize), dtype, index)


def needs(settings: Settings) -> tuple[bool, bool]:
    """Return whether the full scatter of the source and of the target is needed."""
    return True, True


def choose(pairs: Pairs, settings: Settings) -> FrozenChoice:
    """Choose the normalization and the rule that rank held-out pairs best, canonical queries unless another is sure.

    Pairs are ranked among each other, and among rows of the index where there are any. These then decide alone, and
    the likelihood ratio is tried, too.
    """
    tried: dict[FrozenChoice, list[np.ndarray]] = {choice: [] for choice in _candidates(pairs, settings)}
    for rest, rows in pairs.trials(settings.seed):
        trial = _Trial(rest, pairs.sample.part(rows), pairs.other_targets)
        for choice, ranks in tried.items():
            ranks.append(trial.ranks(choice))
        tried = _hopeful(tried) if len(rows) >= MIN_SEEN else tried
    found = {choice: np.concatenate(ranks) for choice, ranks in tried.items()}
    if len(pairs.other_targets):
        scores = {choice: float(np.mean(ranks)) for choice, ranks in found.items()}
    else:
        scores = _cautious(found, len(pairs.sample))
    named = {", ".join(choice.words): score for choice, score in scores.items()}
    best = max(scores, key=scores.__getitem__)
    best = replace(best, selection=Selection.best("out-of-fold reciprocal rank", named))
    if settings.queries is None:
        return best
    return replace(
        best, asked=True, offset=query_offset(pairs, best.folded(pairs, np.dtype(np.float64)), settings.queries)
    )


@dataclass(frozen=True, eq=False)
class _Trial:
    """Held-out pairs, to be ranked by what the others teach, among further targets too."""

    pairs: Pairs
    held: Sample
    others: np.ndarray

    @cached_property
    def gallery(self) -> np.ndarray:
        """Held-out targets, the others below them, as unit rows."""
        return np.asarray(unit_norm(np.concatenate([self.held.y.astype(np.float64), self.others])))

    def ranks(self, choice: FrozenChoice) -> np.ndarray:
        """Return the reciprocal rank of each held-out target. The norm of a query changes no ranking."""
        p, rule = self.pairs.normalized(choice.normalize), ALL_RULES[choice.rule]
        solved = rule.solved(p, None if self.pairs.unpaired is None else self.pairs.unpaired.index)
        x, targets = p.once("held out", lambda: self._sides(p))
        # Rules that differ in what they add to all queries have the matrix, and the products, in common.
        matrix, rows = solved.matrix, targets.astype(SINGLE)
        _, scores = p.once(("scores", id(matrix)), lambda: (matrix, x @ matrix.astype(SINGLE) @ rows.T))
        added = targets @ solved.offset
        if rule.with_mean:
            added = added + self.gallery @ p.target.normalizer.mean
        return held_out_ranks(scores + (added - np.mean(added)).astype(SINGLE))

    def _sides(self, p: NormalizedPairs) -> tuple[np.ndarray, np.ndarray]:
        """Return held-out sources, and what their translations in the coordinates of the pairs are multiplied with.

        What all targets have in common is taken off: it changes no ranking, and costs digits.
        """
        target = p.target.normalizer
        rows = scaled(self.gallery - np.mean(self.gallery, axis=0), target.unscale.T) * target.mean_norm
        return p.source.apply(self.held.x).astype(SINGLE), rows if p.target.basis is None else rows @ p.target.basis


def _hopeful(tried: dict[FrozenChoice, list[np.ndarray]]) -> dict[FrozenChoice, list[np.ndarray]]:
    """Return the choices to try again: canonical queries, and what is not clearly worse than the best so far."""
    ranks = {choice: np.concatenate(found) for choice, found in tried.items()}
    best = max(ranks.values(), key=np.mean)
    return {
        choice: found
        for choice, found in tried.items()
        if choice.rule in CANONICAL or not clearly_worse(ranks[choice], best)
    }


def solve(pairs: Pairs, choice: FrozenChoice) -> Solution:
    """Return the map that the rule makes; with an offset of queries, translated rows have norm one before it."""
    found = choice.folded(pairs, pairs.dtype).guarded(*pairs.target_spread)
    if choice.offset is not None:
        found = replace(found, lengths=Lengths(choice.offset, 1.0, 1.0, unit=False))
    return Solution(found.astype(pairs.dtype))


def query_offset(pairs: Pairs, folded: Map, asked: Queries) -> np.ndarray | None:
    r"""Return what brings translated queries to where the target's own queries are, if they then find more alike.

    .. math:: \tfrac12 \left( \tfrac1n \textstyle\sum_i \hat q_i - \tfrac1n \sum_i \hat t(p_i) \right)

    over pairs (p, q) of queries, unit rows. The map was fitted on documents. Where a model embeds queries otherwise,
    by a prefix or a task type, or queries are of another kind than documents, their mean is off. It is used if out of
    fold more of the ten nearest documents of the true query are found.
    """
    if asked.x is None:
        raise ValueError(
            "queries were given by their target vectors alone: expected a pair (source vectors, target vectors), "
            "because a frozen target is searched by translated queries."
        )
    if len(asked.y) < MIN_QUERIES:
        return None
    moved, true = (unit_norm(rows) for rows in (folded(asked.x.astype(np.float64)), asked.y.astype(np.float64)))
    documents = unit_norm(np.concatenate([pairs.sample.y.astype(np.float64), pairs.other_targets]))
    gap, fold = true - moved, np.arange(len(true)) % QUERY_FOLDS
    offsets = OFFSET_SHARE * np.stack([np.mean(gap[fold != i], axis=0) for i in range(QUERY_FOLDS)])
    k = min(NEIGHBORS, len(documents) - 1)
    wanted = Judgments.of(nearest(true, documents, k).indices, len(true), len(documents))
    plain, shifted = (wanted.recall(nearest(rows, documents, k).indices) for rows in (moved, moved + offsets[fold]))
    return OFFSET_SHARE * np.mean(gap, axis=0) if np.mean(shifted) > np.mean(plain) else None


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
    if not path or max(plain.values(), default=0.0) >= NEARLY_ALL:
        return plain
    means = np.reshape([np.mean(ranks[choice]) for choice in path], (len(PENALTIES), len(SHARES)))
    smooth = smoothed(means).ravel()
    expected = ranks[path[int(np.argmax(smooth))]]
    return dict(zip(path, smooth.tolist(), strict=True)) | cautious_means(others, expected, queries)
