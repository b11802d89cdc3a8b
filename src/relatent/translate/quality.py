"""What to expect of a translator on items it has not seen, and how that grows with the number of anchors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit

from relatent._array import Array, as_matrix, to_numpy
from relatent._linalg import unit_norm
from relatent._terminal import Tabular, progress_bar, render
from relatent.evaluate.interval import Estimate, Statistic, bootstrap
from relatent.evaluate.neighbors import nearest
from relatent.evaluate.retrieval import reciprocal_ranks
from relatent.spaces.sample import shuffled_rows
from relatent.translate.goals import Choice, Solution, Solver
from relatent.translate.pairs import Pairs

if TYPE_CHECKING:
    from relatent.translate.translator import Translator

# Falling powers of the number of anchors by which what is missing may shrink.
POWERS = (0.25, 0.5, 0.75, 1.0, 1.5)


@dataclass(frozen=True)
class LearningCurve:
    r"""How quality grows with the number of anchors, and what more of them would give.

    Two shapes bound what is plausible. What is missing shrinks by a power of the number of anchors k, as it does on
    the way to a ceiling:

    .. math:: q(k) = a - b\,k^{-c} \qquad b \ge 0

    (a and b by least squares, c the best of five powers); or the odds of success keep growing as they did over the last
    step, as they do on the way up: :math:`\operatorname{logit} q = \alpha + \beta \log k`, β ≥ 0. A gain is the mean of
    what the two say, its interval that of both together. ``scores`` (queries, sizes) are those of the same held-out
    queries at every size, so that gains are differences of pairs.

    What breaks it: going beyond a few times the anchors at hand is guessing, whatever the interval.

    >>> sizes = (100, 200, 400)
    >>> curve = LearningCurve("mrr", sizes, np.tile([0.5, 0.6, 0.67], (20, 1)))
    >>> 0.02 < curve.gain(400, 800).value < 0.08
    True
    """

    measure: str
    anchors: tuple[int, ...]
    scores: np.ndarray

    @property
    def values(self) -> tuple[float, ...]:
        """Mean score at each number of anchors."""
        return tuple(np.mean(self.scores, axis=0).tolist())

    def gain(self, start: float, stop: float, *, limit: float = np.inf) -> Estimate:
        """Estimate how much the mean score changes from one number of anchors to another, up to a limit."""
        sizes = np.asarray(self.anchors, dtype=np.float64)
        told = [bootstrap(self.scores, shape(sizes, start, stop)) for shape in (to_a_ceiling, by_odds)]
        values = (told[0].value + told[1].value) / 2, min(e.low for e in told), max(e.high for e in told)
        return Estimate(*(min(value, limit) for value in values))


def to_a_ceiling(sizes: np.ndarray, start: float, stop: float) -> Statistic:
    """Fit a − b·k^−c to mean scores, many sets of them at once, and give what it says between two sizes."""

    def gain(means: np.ndarray) -> np.ndarray:
        errors, gains = [], []
        for power in POWERS:
            basis = -(sizes**-power)
            basis -= np.mean(basis)
            slope = np.maximum((means - np.mean(means, axis=1, keepdims=True)) @ basis, 0.0) / np.sum(basis**2)
            errors.append(np.var(means - slope[:, None] * basis, axis=1))
            gains.append(slope * (start**-power - stop**-power))
        return np.asarray(np.take_along_axis(np.stack(gains), np.argmin(np.stack(errors), axis=0)[None], axis=0)[0])

    return gain


def by_odds(sizes: np.ndarray, start: float, stop: float) -> Statistic:
    """Let the log-odds grow with log k as they did between the last two sizes."""

    def gain(means: np.ndarray) -> np.ndarray:
        odds = logit(np.clip(means[:, -2:], 1e-3, 1 - 1e-3))
        slope = np.maximum(odds[:, 1] - odds[:, 0], 0.0) / np.log(sizes[-1] / sizes[-2])
        first, last = (odds[:, 1] + slope * np.log(k / sizes[-1]) for k in (start, stop))
        return np.asarray(expit(last) - expit(first))

    return gain


MEASURES = ("recall@1", "recall@10", "mrr", "cosine")
FOLDS = 10
# Folds that are fitted again on fewer anchors, and on which shares of them.
CURVE_FOLDS, CURVE_SHARES = 5, (0.125, 0.25, 0.5)
# Fewer anchors may need a stricter penalty by these factors.
STRICTER = (1.0, 8.0, 64.0)
# Queries beyond which more would narrow the interval by less than what one cares about.
QUERIES = 2_000
# Ranks that count.
DEPTH = 10
# Two failures and two successes that were not seen, so that a perfect score has an interval too.
PSEUDO = (0.0, 0.0, 1.0, 1.0)
# Variance of the mean of held-out scores, relative to that of independent ones: folds share anchors. Calibrated on
# pairs of sentence, word and picture encoders.
SHARED = 2.0
# Of a curve on held-out rows: how many pairs are fitted on again, and how few pairs or held-out rows give none.
MAX_REFITTED, MIN_HELD_OUT = 2_000, 40
# Fewer pairs than this leave folds too small to rank in.
MIN_PAIRS = 20


@dataclass(frozen=True)
class Quality(Tabular):
    """What to expect of a translator on items it has not seen, measure by measure, each with its interval.

    ``recall@1``, ``recall@10`` and ``mrr`` (at 10) rank each held-out target among ``gallery`` vectors; ``cosine`` is
    that of the translated vector with its target, absent where the two sides meet in coordinates of their own (the
    likelihood ratio). Print it for a table, ask it with ``quality["mrr"]`` and ``quality.more(2000)``.
    """

    anchors: int
    queries: int
    gallery: int
    estimates: dict[str, Estimate]
    curve: LearningCurve

    def records(self) -> list[dict[str, Any]]:
        """Return one record per measure, for data frames and notebooks."""
        return [{"measure": measure, **e.to_dict()} for measure, e in self.estimates.items()]

    def __getitem__(self, measure: str) -> Estimate:
        """Find a measure by its name."""
        if measure not in self.estimates:
            raise KeyError(f"{measure!r} was not estimated. There are: {', '.join(self.estimates)}.")
        return self.estimates[measure]

    def more(self, anchors: int) -> Estimate:
        """Estimate what a number of further anchors would add to the measure of the learning curve."""
        room = 1 - self[self.curve.measure].value
        return self.curve.gain(self.anchors, self.anchors + anchors, limit=room)

    def outlook(self) -> str:
        """Return a line on what twice the anchors would add."""
        gain = self.more(self.anchors)
        half = (gain.high - gain.low) / 2
        return f"{self.anchors:,} more anchors: {self.curve.measure} {gain.value:+.3f} ± {half:.3f}"

    def __str__(self) -> str:
        cells = [(m, f"{e.value:.4f}", f"{e.low:.4f}", f"{e.high:.4f}") for m, e in self.estimates.items()]
        points = zip(self.curve.anchors, self.curve.values, strict=True)
        return "\n".join(
            [
                f"{self.anchors:,} anchors; {self.queries:,} held-out queries among {self.gallery:,} vectors",
                render(("measure", "expected", "low", "high"), cells, numbers=(1, 2, 3)),
                f"{self.curve.measure} by anchors: " + ", ".join(f"{k:,}: {v:.3f}" for k, v in points),
                self.outlook(),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "anchors": self.anchors,
            "queries": self.queries,
            "gallery": self.gallery,
            **{measure: e.to_dict() for measure, e in self.estimates.items()},
            "curve": {
                "measure": self.curve.measure,
                "anchors": list(self.curve.anchors),
                "values": list(self.curve.values),
            },
            "twice_the_anchors": self.more(self.anchors).to_dict(),
        }


def expected_quality(
    translator: Translator, index: Array | None = None, *, seed: int = 0, progress: bool | None = None
) -> Quality:
    r"""Predict how well a fitted translator will do, from its own anchors.

    The pairs that it kept are cut into ten folds. For each, a translator of the same choice is fitted on all other
    pairs, and each source of the fold is looked up among its own target and the vectors of ``index``. Training
    anchors are never among them: a map draws its own anchors to where they belong, or past it, as it does no other
    vector. Where the index holds anchors, the other targets of the fold take their place, and without an index
    they are all that is ranked among: the cosine is as good, but ranks in a real index will be lower.

    The estimate is the mean score of the held-out queries, plus what the learning curve says the missing tenth of the
    anchors adds:

    .. math:: \hat q = \bar s + g\!\left(\tfrac{9}{10} n \to n\right), \qquad
              \hat q \pm \sqrt{2 + m / 2000}\; h

    h is the half-width of the bootstrap over the m held-out queries; ranks are drawn with two unseen failures and two
    unseen successes. It is widened because the folds share most of their anchors, so that their errors do not average
    out as those of independent fits would, and because what the interval should hold is itself seen on some 2,000 fresh
    queries. There are no more queries than anchors: of a hundred, the mean has a standard error of up to .05, whatever
    is done with them.

    What breaks it: anchors that are not drawn from what will be translated, near-copies of anchors in the index,
    mismatched anchors (:func:`relatent.audit`), and anchors of unequal weight. ``progress`` shows a bar (None: on a
    terminal only).

    References: Bates, Hastie & Tibshirani, JASA 119, 2024 (why folds need widening); Agresti & Coull, American
    Statistician 52, 1998 (the unseen).

    >>> from relatent.translate import Translator
    >>> rng = np.random.default_rng(0)
    >>> x, turn = rng.normal(size=(400, 8)), np.linalg.qr(rng.normal(size=(8, 8)))[0]
    >>> y = x @ turn + 0.3 * rng.normal(size=x.shape)
    >>> q = Translator().fit(x[:200], y[:200]).expected_quality(index=y)
    >>> q.gallery, q["mrr"].low < q["mrr"].value < q["mrr"].high
    (220, True)
    """
    trial = _Trial.of(translator, index)
    folds = list(trial.pairs.folds(FOLDS, seed))
    some, strict = folds[:CURVE_FOLDS], _stricter(trial.choice)
    with progress_bar(len(folds) + len(CURVE_SHARES) * len(some) * len(strict), "fitting folds", progress) as advance:
        trial = replace(trial, advance=advance)
        scores = [trial.scores(rest, rows) for rest, rows in folds]
        fewer = [trial.scores_with(share, some, seed) for share in CURVE_SHARES]
    every, n = np.concatenate(scores), len(trial.pairs)
    trained = float(np.mean([len(rest) for rest, _ in folds]))
    columns = np.stack([*fewer, np.concatenate(scores[:CURVE_FOLDS])], axis=2)
    sizes = (*(round(share * len(folds[0][0].sample)) for share in CURVE_SHARES), round(trained))
    measured = MEASURES[: 4 if translator.metric_ == "cosine" else 3]
    curves = {m: LearningCurve(m, sizes, columns[:, i]) for i, m in enumerate(measured)}
    estimates = {m: _calibrated(m, every[:, i], curves[m].gain(trained, n).value, seed) for i, m in enumerate(measured)}
    beside = len(folds[0][1]) if trial.with_fold else 1
    return Quality(n, len(every), beside + len(trial.gallery), estimates, curves["mrr"])


@dataclass(frozen=True)
class _Trial:
    """A translator put to the test: fitted again on some of its pairs as it was on all, and asked for others."""

    goal: Solver
    choice: Choice
    pairs: Pairs
    gallery: np.ndarray
    with_fold: bool
    """Whether the targets of a fold are ranked among each other, in the place of index rows that are anchors."""
    advance: Callable[[int], None] = lambda _: None
    """What is told of every fit."""

    @staticmethod
    def of(t: Translator, index: Array | None) -> _Trial:
        if not hasattr(t, "pairs_") or not hasattr(t, "choice_"):
            raise ValueError(
                "This translator has no pairs to hold out: it is not fitted, or was loaded from a file, which keeps "
                "none. Fit it, and ask for its expected quality before saving."
            )
        kept = len(t.pairs_.sample)
        if kept < MIN_PAIRS:
            raise ValueError(f"There are {kept} pairs: expected at least {MIN_PAIRS} to hold some out.")
        gallery = _without(t.pairs_.sample.y, index)
        return _Trial(t.goal_, t.choice_, t.pairs_, gallery, index is None or len(gallery) < len(index))

    def scores(self, rest: Pairs, rows: np.ndarray, choice: Choice | None = None) -> np.ndarray:
        """Recall at 1 and at 10, reciprocal rank and cosine of each held-out query, (queries, 4)."""
        solved = self.goal.solve(rest, choice or self.choice)
        asked, others = rows[: max(1, QUERIES // FOLDS)], rows if self.with_fold else rows[:0]
        queries, own = solved.source(self.pairs.sample.x[asked]), self.pairs.sample.y[asked]
        cosine = np.sum(unit_norm(queries) * unit_norm(own), axis=1) if solved.target is None else np.zeros(len(asked))
        index, own, others = (prepared(solved, y) for y in (self.gallery, own, self.pairs.sample.y[others]))
        queries = unit_norm(queries) if solved.metric == "cosine" else queries
        better = _better(queries, own, index, others)
        self.advance(1)
        reciprocal = np.where(better < DEPTH, 1 / (1 + better), 0.0)
        return np.stack([better == 0, better < DEPTH, reciprocal, cosine], axis=1).astype(np.float64)

    def scores_with(self, share: float, folds: list[tuple[Pairs, np.ndarray]], seed: int) -> np.ndarray:
        """Score the queries of some folds with a share of the anchors, and the penalty that suits that few."""
        fewer = [(_drawn(rest, share, seed + i), rows) for i, (rest, rows) in enumerate(folds)]
        scored = [np.concatenate([self.scores(*fold, choice) for fold in fewer]) for choice in _stricter(self.choice)]
        return max(scored, key=lambda scores: float(np.mean(scores[:, MEASURES.index("mrr")])))


def learning_curve(translator: Translator, x: np.ndarray, y: np.ndarray, *, seed: int = 0) -> LearningCurve | None:
    """Fit the same map again on some of its pairs, and rank held-out targets y for their sources x.

    None where the translator has no pairs, because it was loaded, or where there are too few.
    """
    pairs = getattr(translator, "pairs_", None)
    if pairs is None or min(len(pairs.sample), len(x)) < MIN_HELD_OUT:
        return None
    order = shuffled_rows(len(pairs.sample), len(pairs.sample), seed)
    sizes = [round(share * min(len(order) // 2, MAX_REFITTED)) for share in (0.25, 0.5, 1.0)]
    columns = []
    for size in sizes:
        fewer = pairs.only(order[:size])
        solved = (translator.goal_.solve(fewer, choice) for choice in _stricter(translator.choice_))
        columns.append(max((_ranks(one, x, y) for one in solved), key=lambda ranks: float(np.mean(ranks))))
    columns.append(_ranks(Solution(translator.map_, translator.target_map_), x, y))
    return LearningCurve("mrr", (*sizes, len(pairs)), np.stack(columns, axis=1))


def _stricter(choice: Choice) -> list[Choice]:
    """Return the choice with the penalties that fewer anchors may need; the choice alone where it has none."""
    return list(dict.fromkeys(choice.stricter(factor) for factor in STRICTER))


def _ranks(solved: Solution, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the reciprocal rank of each source's own target among all targets."""
    queries = np.asarray(solved.source(x))
    queries = unit_norm(queries) if solved.metric == "cosine" else queries
    return reciprocal_ranks(queries @ prepared(solved, y).T, np.arange(len(x)))


def prepared(solved: Solution, y: np.ndarray) -> np.ndarray:
    """Return vectors of the target as they are compared with queries, by their inner product."""
    return np.asarray(unit_norm(y) if solved.target is None else solved.target(y))


def _better(queries: np.ndarray, own: np.ndarray, index: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Count, up to ten, the vectors that score above a query's own: in the index, and among others in its fold.

    The others begin with the queries' own targets, which do not count.
    """
    reached = np.sum(queries * own, axis=1, keepdims=True)
    better = np.zeros(len(queries), dtype=np.int64)
    if len(index):
        better += np.sum(nearest(queries, index, min(DEPTH, len(index)), "inner").similarities > reached, axis=1)
    if len(others):
        scores = queries @ others.T
        np.fill_diagonal(scores, -np.inf)
        better += np.sum(scores > reached, axis=1)
    return better


def _drawn(pairs: Pairs, share: float, seed: int) -> Pairs:
    """Draw a share of the sampled pairs."""
    n = len(pairs.sample)
    return pairs.only(shuffled_rows(n, max(2, round(share * n)), seed))


def _without(anchors: np.ndarray, index: Array | None) -> np.ndarray:
    """Return the rows of the index that are no anchors."""
    if index is None:
        return anchors[:0]
    rows = to_numpy(as_matrix(index, "index"))
    if rows.shape[1] != anchors.shape[1]:
        raise ValueError(
            f"index has shape {rows.shape}: expected {anchors.shape[1]} columns, vectors of the target as stored."
        )
    known = {row.tobytes() for row in np.ascontiguousarray(anchors, dtype=np.float32)}
    kept = [row.tobytes() not in known for row in np.ascontiguousarray(rows, dtype=np.float32)]
    return np.asarray(rows[np.asarray(kept)], dtype=anchors.dtype)


def _calibrated(measure: str, scores: np.ndarray, gain: float, seed: int) -> Estimate:
    """Estimate the mean of scores plus a gain, with a widened interval."""
    least, unseen = (-1.0, ()) if measure == "cosine" else (0.0, PSEUDO)  # cosines are not all or nothing
    drawn = bootstrap(np.concatenate([scores, unseen]), seed=seed)
    value, widened = float(np.mean(scores)) + gain, np.sqrt(SHARED + len(scores) / QUERIES)
    ends = (value + widened * (end - drawn.value) for end in (drawn.low, drawn.high))
    return Estimate(*(float(np.clip(v, least, 1)) for v in (value, *ends)))
