"""Rank items of the target for queries of the source: both are mapped into a shared space, by the best ranking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from relatent.spaces.normalize import UNIT_ROWS
from relatent.spaces.sample import Sample
from relatent.steps import best_mean
from relatent.translate.goals import (
    CAUTION,
    MIN_SEEN,
    SINGLE,
    Choice,
    Selection,
    Settings,
    Solution,
    cautious_means,
    clearly_worse,
    held_out_ranks,
    per_pair,
    smoothed,
)
from relatent.translate.likelihood import BankRows, LikelihoodPath, LikelihoodRatio, neighbors, rotation
from relatent.translate.maps import fold, orthogonal
from relatent.translate.pairs import MANY, NormalizedPairs, Pairs

# What is tried where the user keeps the default normalization: for likelihood ratios, and for rotations.
NORMALIZATIONS, ROTATED = ("iso", "center+l2"), ("l2", "center+l2")
# Two to fit on and one to hold out.
MIN_PAIRS = 3
PENALTIES = tuple(float(p) for p in np.logspace(-3, 1, 9))
# What wins most often where anchors are few.
EXPECTED = (NORMALIZATIONS[1], PENALTIES[7])
# Dimensions of two spaces whose ratio is within this factor of 1 are penalized alike.
ALIKE = 1.5
# Of a bank: none, and up to the weight that items have in CSLS. Rotations, which rank by cosine, are tried with that.
WEIGHTS = (0.0, 0.25, 0.5)
# What is expected to win of a bank of queries, and of one of the anchors, which score their own targets too high.
GIVEN_WEIGHT, ANCHORS_WEIGHT = 0.5, 0.25
# By how much a rotation, alone or added, must rank better than a likelihood ratio, which wins more often than a ranking
# among few anchors shows; half as much where that is also among rows of the index.
ROTATION_GAIN = 0.01
# A mean reciprocal rank of the expected winner from which on few queries tell candidates apart, so that those must win
# by more.
NEARLY_ALL = 0.96

Penalties = tuple[float, float]
# Penalties further than this many places from the best one of their path are given up with the hopeless ones.
NEAR = 1
# Infinite penalties stand for the rotation, which is what shrinking everything leaves.
ROTATION: Penalties = (np.inf, np.inf)


@dataclass(frozen=True)
class RankingChoice(Choice):
    """A likelihood ratio: its normalization, a penalty for each side in units of the mean eigenvalue, and its bank."""

    penalty_x: float
    penalty_y: float
    weight: float = 0.0
    """What hubs lose, in the bank's mean score."""
    turn: float = 0.0
    """What the score of the rotation is multiplied by before it is added."""
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
        turned = ("with rotation",) if self.turn else ()
        return (self.normalize, "rotation" if self.rotates else strength, *turned, *bank)

    @property
    def title(self) -> str:
        """What it is, for people."""
        return ", ".join([*([] if self.rotates else ["likelihood ratio"]), *self.words])

    def ratio(self, p: NormalizedPairs, pairs: Pairs) -> LikelihoodRatio:
        """Fit to pairs."""
        penalties = tuple(per_pair(penalty, self, pairs) for penalty in (self.penalty_x, self.penalty_y))
        found = rotation(p.summary) if penalties == ROTATION else LikelihoodPath.of(p.summary, p.spectra).at(*penalties)
        if self.turn:
            found = found.with_rotation(p.summary, self.turn)
        return found.with_bank(p.source.apply(self.bank.of(pairs)), self.weight) if self.weight else found


def needs(settings: Settings) -> tuple[bool, bool]:
    """Return whether the full scatter of the source and of the target is needed."""
    return True, True


def choose(pairs: Pairs, settings: Settings) -> RankingChoice:
    """Choose the normalization, the penalties and the weight of the bank that rank held-out pairs best.

    The two penalties are the same multiple of each side's mean eigenvalue, or of one unit for both, which suits
    spaces of different dimensions. A penalty that suits the share of the pairs which a trial leaves is, per pair, that
    much smaller for all of them. In a trial, the bank is made of the pairs that are not held out, and held-out targets
    are ranked among each other and unpaired ones. Of unit rows, the likelihood ratio and the rotation are also tried in
    equal parts: features of image classifiers rank best by both.
    Few pairs make some choice look better than it is, so what wins most often on other spaces must be beaten by half a
    standard error, and by a whole one where it finds nearly everything.
    """
    found, share = _tried(pairs, settings)
    weight = ANCHORS_WEIGHT if settings.bank.given is None else GIVEN_WEIGHT
    scores = _cautious(found, share, weight, len(pairs.sample))
    named = {choice.title: score for choice, score in scores.items()}
    return replace(max(scores, key=scores.__getitem__), selection=Selection.best("out-of-fold reciprocal rank", named))


def _tried(pairs: Pairs, settings: Settings) -> tuple[dict[RankingChoice, np.ndarray], float]:
    """Return the reciprocal ranks of held-out pairs for every choice, and the share of the pairs that trials leave.

    Choices that are hopeless after some trials are not tried in others, and left out.
    """
    paths, others = list(_candidates(pairs, settings)), pairs.other_targets
    found, shares = [_Ranks.of(path) for path in paths], []
    for rest, rows in pairs.trials(settings.seed):
        shares.append(len(rest) / len(pairs))
        held, bank = pairs.sample.part(rows), settings.bank.of(rest)
        for name in dict.fromkeys(path.normalize for path in paths):  # one at a time, which takes less memory
            ours = [ranks for ranks in found if ranks.path.normalize == name]
            # Where a rotation is all that is tried, no scatter is needed.
            scatter = any(ranks.path.penalties != [ROTATION] for ranks in ours)
            trial = _Trial(replace(rest, full=(scatter, scatter)), name, held, bank, others)
            for ranks in ours:
                ranks.add(trial.ranks(ranks.path, ranks.open))
        best = max((ranks.best for ranks in found), key=np.mean)
        for ranks in found:
            ranks.close(best)
    share = float(np.mean(shares))
    ranked: dict[RankingChoice, np.ndarray] = {}
    for path, ranks in zip(paths, found, strict=True):
        choices = path.choices(len(pairs), share, ranks.gains, settings.bank)
        smooth = smoothed(ranks.all) - path.hurdles[:, None] * (0.5 if len(others) else 1.0)
        scored = zip(choices, smooth.reshape(len(choices), -1), strict=True)
        ranked |= {choice: scores for choice, scores in scored if not np.any(np.isnan(scores))}
    return ranked, share


def _cautious(
    ranks: dict[RankingChoice, np.ndarray], share: float, weight: float, queries: int
) -> dict[RankingChoice, float]:
    """Return the mean reciprocal ranks. One choice is expected to win where it is tried, and others must do so clearly.

    It takes the bank with this weight, if there is one.
    """
    name, penalty = EXPECTED
    wanted = (name, share * penalty, share * penalty, 0.0)
    alike = [c for c in ranks if (c.normalize, c.penalty_x, c.penalty_y, c.turn) == wanted]
    if not alike:
        return {choice: float(np.mean(r)) for choice, r in ranks.items()}
    expected = ranks[min(alike, key=lambda choice: abs(choice.weight - weight))]
    caution = 2 * CAUTION if np.mean(expected) > NEARLY_ALL else CAUTION
    return cautious_means(ranks, expected, queries, caution)


def solve(pairs: Pairs, choice: RankingChoice) -> Solution:
    """Return the maps of both sides; vectors are compared by inner product."""
    p = pairs.normalized(choice.normalize)
    ratio = choice.ratio(p, pairs)
    bank = None if ratio.bank is None else ratio.bank.astype(pairs.dtype)
    target = fold(ratio.target, p.target, None, dtype=pairs.dtype, bias=ratio.bias, bank=bank)
    return Solution(fold(ratio.query, p.source, None, dtype=pairs.dtype), target)


@dataclass(frozen=True)
class _Path:
    """What is tried in a row: one normalization, penalties for (source, target), and for each the same variants."""

    normalize: str
    penalties: list[Penalties]
    weights: tuple[float, ...]
    turned: bool = False
    """Whether the rotation is added in one more variant, with the last weight of the bank."""

    @property
    def variants(self) -> list[tuple[float, bool]]:
        """Weights of the bank, and whether the rotation is added."""
        return [(weight, False) for weight in self.weights] + [(self.weights[-1], True)] * self.turned

    @property
    def hurdles(self) -> np.ndarray:
        """By how much each variant must rank better."""
        bare = self.penalties == [ROTATION]
        return np.asarray([ROTATION_GAIN if turned or bare else 0.0 for _, turned in self.variants])

    @property
    def expected(self) -> np.ndarray:
        """Which penalties are expected to win; others must do so clearly, so these are never given up."""
        name, penalty = EXPECTED
        return np.asarray([(self.normalize, *both) == (name, penalty, penalty) for both in self.penalties])

    def choices(self, pairs: int, share: float, gains: np.ndarray, bank: BankRows) -> list[RankingChoice]:
        """Return the choices, for all pairs instead of a share of them; a gain of the rotation for each penalty."""
        return [
            RankingChoice(self.normalize, pairs, None, share * x, share * y, weight, float(turned * gain), bank)
            for (x, y), gain in zip(self.penalties, gains, strict=True)
            for weight, turned in self.variants
        ]


def _candidates(pairs: Pairs, settings: Settings) -> Iterator[_Path]:
    default, weights = settings.normalize == "iso", WEIGHTS if settings.bank.size else WEIGHTS[:1]
    for name in NORMALIZATIONS if default else (settings.normalize,):
        turned = name in UNIT_ROWS
        yield from (_Path(name, penalties, weights, turned) for penalties in _grids(pairs, settings.penalty))
    for name in ROTATED if default else (settings.normalize,):
        if settings.penalty is None and name in UNIT_ROWS:
            yield _Path(name, [ROTATION], weights[-1:])


def _grids(pairs: Pairs, penalty: float | None) -> list[list[Penalties]]:
    # Many pairs need no strong penalty, and a coarse grid is enough for them.
    grid = PENALTIES[:7:2] if len(pairs.sample) >= MANY else PENALTIES
    if penalty is not None:
        return [[(penalty, penalty)]]
    ratio = pairs.dims[0] / pairs.dims[1]
    tilts = (1.0,) if 1 / ALIKE < ratio < ALIKE else (1.0, ratio)
    return [[(e * tilt**0.5, e / tilt**0.5) for e in grid] for tilt in tilts]


@dataclass
class _Ranks:
    """The reciprocal ranks of a path over trials: for each pair of penalties, each variant and each query.

    ``open`` tells which pairs of penalties are still tried; the ranks of others are NaN.
    """

    path: _Path
    open: np.ndarray
    trials: list[np.ndarray]
    trial_gains: list[np.ndarray]

    @staticmethod
    def of(path: _Path) -> _Ranks:
        return _Ranks(path, np.ones(len(path.penalties), dtype=bool), [], [])

    def add(self, found: tuple[np.ndarray, np.ndarray]) -> None:
        self.trials.append(found[0])
        self.trial_gains.append(found[1])

    @property
    def all(self) -> np.ndarray:
        return np.concatenate(self.trials, axis=2)

    @property
    def gains(self) -> np.ndarray:
        """Of the rotation, for each pair of penalties."""
        return np.asarray(np.mean(self.trial_gains, axis=0))

    @property
    def best(self) -> np.ndarray:
        """The ranks of the best choice; of none, where all are closed, zeros."""
        every = self.all.reshape(-1, self.all.shape[2])
        means = np.mean(every, axis=1)
        return np.zeros(every.shape[1]) if np.all(np.isnan(means)) else every[np.nanargmax(means)]

    def close(self, best: np.ndarray) -> None:
        """Give up penalties that rank clearly worse than the best choice, or far from the best of this path."""
        if self.trials[0].shape[2] < MIN_SEEN or not np.any(self.open):
            return
        ranks, place = self.all, np.arange(len(self.open))
        summit = np.nanargmax(np.max(np.mean(ranks, axis=2), axis=1))
        near = self.open & (np.abs(place - summit) <= NEAR)
        hopeful = [near[i] and not all(clearly_worse(variant, best) for variant in ranks[i]) for i in place]
        kept = np.flatnonzero(hopeful | self.path.expected)
        # Their neighbors, too, with which they are averaged.
        self.open &= np.any(np.abs(place[:, None] - kept) <= 1, axis=1)


@dataclass(frozen=True, eq=False)
class _Trial:
    """Held-out pairs, to be ranked by what the others teach."""

    pairs: Pairs
    normalize: str
    held: Sample
    bank: np.ndarray
    others: np.ndarray
    """Further targets to rank among."""

    @cached_property
    def p(self) -> NormalizedPairs:
        return self.pairs.normalized(self.normalize)

    @cached_property
    def path(self) -> LikelihoodPath:
        return LikelihoodPath.of(self.p.summary, self.p.spectra)

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Held-out sources, the bank below them; and held-out targets, the others below them."""
        x, y = self.p.of(self.held)
        bank = self.p.x if self.bank is self.p.sample.x else self.p.source.apply(self.bank)
        sides = (x, bank), (y, self.p.target.apply(self.others))
        a, b = (np.concatenate(parts, dtype=SINGLE) for parts in sides)
        return a, b

    @cached_property
    def coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        """The same in the coordinates of the path, in the precision that ranking takes."""
        return self.path.coordinates(*self.rows)

    @cached_property
    def turned(self) -> tuple[np.ndarray, float]:
        """Products of the sources with the targets after the rotation about the means, and their spread."""
        s = self.p.summary
        x, y = self.rows
        about_x, about_y = x - s.mean_x.astype(SINGLE), y - s.mean_y.astype(SINGLE)
        products = about_x @ self.p.rotation.astype(SINGLE) @ about_y.T
        return products, self._spread(products)

    def ranks(self, path: _Path, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the reciprocal ranks for each pair of penalties, each variant and each query, and gains of rotations.

        Such a gain makes the scores of the rotation vary as much as those of the likelihood ratio do. Penalties that
        are not wanted have ranks of NaN.
        """
        ranks = np.full((len(path.penalties), len(path.variants), len(self.held)), np.nan)
        gains = np.zeros(len(path.penalties))
        for i in np.flatnonzero(wanted):
            ranks[i], gains[i] = self._ranks(path.penalties[i], path)
        return ranks, gains

    def _ranks(self, penalties: Penalties, path: _Path) -> tuple[np.ndarray, float]:
        scores, gain = self._scores(penalties), 0.0
        ranks = self._ranked(scores, path.weights)
        if path.turned:
            products, spread = self.turned
            gain = self._spread(scores) / (spread or 1.0)
            ranks += self._ranked(scores + SINGLE(gain) * products, path.weights[-1:])
        return np.stack(ranks), gain

    def _scores(self, penalties: Penalties) -> np.ndarray:
        """Return the scores of sources, those of the bank included, and targets."""
        if penalties == ROTATION:
            x, y = self.rows
            # Rows about their center are rotated alike about it and about their mean, which is near.
            q = (
                self.p.rotation
                if self.normalize.startswith("center")
                else orthogonal(self.p.summary, self.p.rtol).matrix
            )
            return np.asarray(x @ q.astype(SINGLE) @ y.T)
        return self.path.scored(*penalties, *self.coordinates).ratios

    def _spread(self, scores: np.ndarray) -> float:
        """Return by how much targets vary for a held-out query, on average."""
        return float(np.mean(np.std(scores[: len(self.held)], axis=1)))

    def _ranked(self, scores: np.ndarray, weights: tuple[float, ...]) -> list[np.ndarray]:
        """Return the reciprocal ranks for each weight of the bank."""
        held, of_bank = scores[: len(self.held)], scores[len(self.held) :]
        lost = best_mean(of_bank.T, neighbors(len(of_bank)))[:, 0] if any(weights) else SINGLE(0)
        return [held_out_ranks(held - SINGLE(weight) * lost) for weight in weights]
