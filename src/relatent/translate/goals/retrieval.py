"""Rank items of the target for queries of the source: both are mapped into a shared space, by the best ranking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from relatent.evaluate.retrieval import reciprocal_ranks
from relatent.spaces.normalize import UNIT_ROWS
from relatent.spaces.sample import Sample
from relatent.translate.goals import Choice, Selection, Settings, Solution, cautious_means, per_pair, smoothed
from relatent.translate.likelihood import BankRows, LikelihoodPath, LikelihoodRatio, rotation
from relatent.translate.maps import fold
from relatent.translate.pairs import MANY, NormalizedPairs, Pairs

# What is tried where the user keeps the default normalization: for likelihood ratios, and for rotations.
NORMALIZATIONS, ROTATED = ("iso", "center+l2"), ("l2", "center+l2")
# Two to fit on and one to hold out.
MIN_PAIRS = 3
PENALTIES = tuple(float(p) for p in np.logspace(-3, 1, 9))
# What wins most often where anchors are few.
EXPECTED = (NORMALIZATIONS[1], PENALTIES[7])
# Of a bank: none, and up to the weight that items have in CSLS. Rotations, which rank by cosine, are tried with that.
WEIGHTS = (0.0, 0.25, 0.5)
# What is expected to win of a bank of queries, and of one of the anchors, which score their own targets too high.
GIVEN_WEIGHT, ANCHORS_WEIGHT = 0.5, 0.25
# By how much a rotation must rank better than a likelihood ratio, which wins more often than few anchors show.
ROTATION_GAIN = 0.01

Penalties = tuple[float, float]
# Infinite penalties stand for the rotation, which is what shrinking everything leaves.
ROTATION: Penalties = (np.inf, np.inf)


@dataclass(frozen=True)
class RankingChoice(Choice):
    """A likelihood ratio: its normalization, a penalty for each side in units of the mean eigenvalue, and its bank."""

    penalty_x: float
    penalty_y: float
    weight: float = 0.0
    """What hubs lose, in the bank's mean score."""
    bank: BankRows = field(default_factory=BankRows, compare=False)

    @property
    def rotates(self) -> bool:
        """Whether it is the rotation that shrinking everything leaves."""
        return (self.penalty_x, self.penalty_y) == ROTATION

    def stricter(self, factor: float) -> RankingChoice:
        """Multiply both penalties."""
        return replace(self, penalty_x=factor * self.penalty_x, penalty_y=factor * self.penalty_y)

    @property
    def words(self) -> tuple[str, ...]:
        """The penalties, and the weight of the bank."""
        same = self.penalty_x == self.penalty_y
        strength = f"λ={self.penalty_x:.3g}" + ("" if same else f" and {self.penalty_y:.3g}")
        bank = (f"bank × {self.weight:g}",) if self.weight else ()
        return (self.normalize, "rotation" if self.rotates else strength, *bank)

    @property
    def title(self) -> str:
        """What it is, for people."""
        return ", ".join([*([] if self.rotates else ["likelihood ratio"]), *self.words])

    def ratio(self, p: NormalizedPairs, pairs: Pairs) -> LikelihoodRatio:
        """Fit to pairs."""
        penalties = tuple(per_pair(penalty, self, pairs) for penalty in (self.penalty_x, self.penalty_y))
        found = rotation(p.summary) if penalties == ROTATION else LikelihoodPath.of(p.summary, p.spectra).at(*penalties)
        return found.with_bank(p.source.apply(self.bank.of(pairs)), self.weight) if self.weight else found


def needs(settings: Settings) -> tuple[bool, bool]:
    """Return whether the full scatter of the source and of the target is needed."""
    return True, True


def choose(pairs: Pairs, settings: Settings) -> RankingChoice:
    """Choose the normalization, the penalties and the weight of the bank that rank held-out pairs best.

    The two penalties are the same multiple of each side's mean eigenvalue, or of one unit for both, which suits
    spaces of different dimensions. A penalty that suits the share of the pairs which a trial leaves is, per pair, that
    much smaller for all of them. In a trial, the bank is made of the pairs that are not held out. Few pairs make some
    choice look better than it is, so what wins most often on other spaces must be beaten by half a standard error.
    """
    tried = list(_candidates(pairs, settings))
    ranks: list[list[np.ndarray]] = [[] for _ in tried]
    shares = []
    for rest, rows in pairs.trials(settings.seed):
        shares.append(len(rest) / len(pairs))
        held, bank = pairs.sample.part(rows), settings.bank.of(rest)
        trials = {path.normalize: _Trial(rest.normalized(path.normalize), held, bank) for path in tried}
        for path, found_so_far in zip(tried, ranks, strict=True):
            found_so_far.append(trials[path.normalize].ranks(path))
    found: dict[RankingChoice, np.ndarray] = {}
    for path, per_trial in zip(tried, ranks, strict=True):
        choices = path.choices(len(pairs), float(np.mean(shares)), settings.bank)
        smooth = smoothed(np.concatenate(per_trial, axis=2)) - path.hurdle
        found |= zip(choices, smooth.reshape(len(choices), -1), strict=True)
    weight = ANCHORS_WEIGHT if settings.bank.given is None else GIVEN_WEIGHT
    scores = _cautious(found, float(np.mean(shares)), weight, len(pairs.sample))
    named = {choice.title: score for choice, score in scores.items()}
    return replace(max(scores, key=scores.__getitem__), selection=Selection.best("out-of-fold reciprocal rank", named))


def _cautious(
    ranks: dict[RankingChoice, np.ndarray], share: float, weight: float, queries: int
) -> dict[RankingChoice, float]:
    """Return the mean reciprocal ranks. One choice is expected to win where it is tried, and others must do so clearly.

    It takes the bank with this weight, if there is one.
    """
    name, penalty = EXPECTED
    alike = [c for c in ranks if (c.normalize, c.penalty_x, c.penalty_y) == (name, share * penalty, share * penalty)]
    if not alike:
        return {choice: float(np.mean(r)) for choice, r in ranks.items()}
    return cautious_means(ranks, ranks[min(alike, key=lambda choice: abs(choice.weight - weight))], queries)


def solve(pairs: Pairs, choice: RankingChoice) -> Solution:
    """Return the maps of both sides; vectors are compared by inner product."""
    p = pairs.normalized(choice.normalize)
    ratio = choice.ratio(p, pairs)
    bank = None if ratio.bank is None else ratio.bank.astype(pairs.dtype)
    target = fold(ratio.target, p.target, None, dtype=pairs.dtype, bias=ratio.bias, bank=bank)
    return Solution(fold(ratio.query, p.source, None, dtype=pairs.dtype), target)


@dataclass(frozen=True)
class _Path:
    """What is tried in a row: one normalization, penalties for (source, target), and weights of the bank."""

    normalize: str
    penalties: list[Penalties]
    weights: tuple[float, ...]
    hurdle: float = 0.0

    def choices(self, pairs: int, share: float, bank: BankRows) -> list[RankingChoice]:
        """Return the choices, for all pairs instead of a share of them."""
        return [
            RankingChoice(self.normalize, pairs, None, share * x, share * y, weight, bank)
            for x, y in self.penalties
            for weight in self.weights
        ]


def _candidates(pairs: Pairs, settings: Settings) -> Iterator[_Path]:
    default, weights = settings.normalize == "iso", WEIGHTS if settings.bank.size else WEIGHTS[:1]
    for name in NORMALIZATIONS if default else (settings.normalize,):
        yield from (_Path(name, penalties, weights) for penalties in _grids(pairs, settings.penalty))
    for name in ROTATED if default else (settings.normalize,):
        if settings.penalty is None and name in UNIT_ROWS:
            yield _Path(name, [ROTATION], weights[-1:], ROTATION_GAIN)


def _grids(pairs: Pairs, penalty: float | None) -> list[list[Penalties]]:
    # Many pairs need no strong penalty, and a coarse grid is enough for them.
    grid = PENALTIES[:7:2] if len(pairs.sample) >= MANY else PENALTIES
    if penalty is not None:
        return [[(penalty, penalty)]]
    tilts = sorted({1.0, pairs.dims[0] / pairs.dims[1]})
    return [[(e * tilt**0.5, e / tilt**0.5) for e in grid] for tilt in tilts]


@dataclass(frozen=True, eq=False)
class _Trial:
    """Held-out pairs, to be ranked by what the others teach."""

    p: NormalizedPairs
    held: Sample
    bank: np.ndarray

    @cached_property
    def path(self) -> LikelihoodPath:
        return LikelihoodPath.of(self.p.summary, self.p.spectra)

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Held-out sources and targets."""
        return self.p.of(self.held)

    @cached_property
    def bank_rows(self) -> np.ndarray:
        return self.p.source.apply(self.bank)

    def ranks(self, path: _Path) -> np.ndarray:
        """Return the reciprocal ranks for each pair of penalties and each weight of the bank, and each query."""
        return np.stack([self._ranks(penalties, path.weights) for penalties in path.penalties])

    def _ranks(self, penalties: Penalties, weights: tuple[float, ...]) -> np.ndarray:
        ratio = rotation(self.p.summary) if penalties == ROTATION else self.path.at(*penalties)
        queries, targets = ratio.vectors(*self.rows)
        scores, own = queries @ targets.T, np.arange(len(queries))
        lost = 0.0
        if any(weights):
            bank = ratio.with_bank(self.bank_rows, 1.0).bank
            assert bank is not None
            lost = bank.correction(targets[:, :-1], targets[:, -1:]).T
        return np.stack([reciprocal_ranks(scores - weight * lost, own) for weight in weights])
