"""Feed a head that was trained on the target: the reconstruction at its full size, blended with an orthogonal map."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from relatent.spaces.sample import Sample
from relatent.translate.goals import Judge, Selection, Settings, Solution, vectors
from relatent.translate.goals.vectors import RidgeChoice
from relatent.translate.goals.vectors import needs as needs
from relatent.translate.maps import fold, orthogonal
from relatent.translate.pairs import Pairs

# Of the orthogonal map in the blend: what a head is tried with.
SHARES = (0.0, 0.15, 0.3, 0.5, 0.75, 1.0)
# What a ridge that predicts nothing at all may be multiplied by.
MAX_GAIN = 10.0
WIDE = np.dtype(np.float64)


@dataclass(frozen=True)
class BlendChoice(RidgeChoice):
    """A ridge, the factor that restores the size of its predictions, and the share of the orthogonal map."""

    gain: float
    share: float

    @property
    def words(self) -> tuple[str, ...]:
        """The ridge and the share."""
        return (*super().words, f"{self.share:.0%} orthogonal")


@dataclass(frozen=True)
class _Trial:
    """Held-out pairs, translated by what the others teach."""

    held: Sample
    known: Sample
    ridge: np.ndarray
    orthogonal: np.ndarray

    @staticmethod
    def of(choice: BlendChoice, pairs: Pairs, rest: Pairs, rows: np.ndarray) -> _Trial:
        held = pairs.sample.part(rows)
        moved = (solve(rest, replace(choice, share=share)).source(held.x.astype(WIDE)) for share in (0.0, 1.0))
        return _Trial(held, rest.sample, *moved)

    def blended(self) -> list[np.ndarray]:
        """Return the held-out rows for every share."""
        return [(1 - share) * self.ridge + share * self.orthogonal for share in SHARES]


def choose(pairs: Pairs, settings: Settings) -> BlendChoice:
    """Choose the ridge as for vectors, and the share of the orthogonal map on held-out pairs."""
    ridge = vectors.choose(pairs, settings)
    assert ridge.selection is not None
    gain = lost_size(*ridge.left_out(pairs.normalized(settings.normalize)))
    choice = BlendChoice(**vars(ridge), gain=gain, share=0.0)
    # Few pairs may leave no two different source rows to learn from.
    varied = (trial for trial in pairs.trials(settings.seed) if np.any(trial[0].sample.x != trial[0].sample.x[:1]))
    trials = [_Trial.of(choice, pairs, rest, rows) for rest, rows in varied]
    if settings.judge is None or not trials:
        share, selection = reliable_share(trials, gain), ridge.selection
    else:
        share, selection = judged_share(trials, settings.judge, len(pairs.sample))
    chosen = f"{ridge.selection.chosen}, {share:.0%} orthogonal"
    return replace(choice, share=share, selection=replace(selection, chosen=chosen))


def lost_size(predicted: np.ndarray, y: np.ndarray) -> float:
    r"""Return :math:`g = \sqrt{\lVert Y \rVert^2 / \lVert \hat Y \rVert^2}` of leave-one-out predictions.

    A ridge shrinks its predictions, and a head was trained on vectors of full norm.
    """
    size, kept = np.sum(y**2), np.sum(predicted**2)
    return float(np.sqrt(size / max(kept, size / MAX_GAIN**2))) if size else 1.0


def reliable_share(trials: list[_Trial], gain: float) -> float:
    r"""Return :math:`\beta = g^{-2} \min(1, e_{ridge} / e_{orthogonal})`, e being root mean square errors out of fold.

    Where the anchors say little, g is large and an orthogonal map turns most of the rest at random; where they say all,
    the ridge is better. In between, few anchors of a clear relation, a rotation is what they determine best.
    """
    ridge = sum(np.sum((t.ridge - t.held.y) ** 2) for t in trials)
    turned = sum(np.sum((t.orthogonal - t.held.y) ** 2) for t in trials)
    return float(min(1.0, (np.sqrt(ridge / turned) if ridge < turned else 1.0) / gain**2))


def judged_share(trials: list[_Trial], judge: Judge, n: int) -> tuple[float, Selection]:
    """Return the mean of the shares within one standard error of the best: few pairs cannot tell them apart."""
    scores = np.mean([judge.scores(t.blended(), t.held, t.known) for t in trials], axis=0)
    best = float(np.max(scores))
    error = np.sqrt(max(best * (1 - best), 0.0) / n)
    named = {f"{share:.0%} orthogonal": float(score) for share, score in zip(SHARES, scores, strict=True)}
    selection = Selection.best("held-out rows that the head reads right", named)
    return float(np.mean(np.asarray(SHARES)[scores >= best - error])), selection


def solve(pairs: Pairs, choice: BlendChoice) -> Solution:
    r"""Return the map :math:`(1 - \beta)\, g W_{ridge} + \beta W_{orthogonal}`.

    The orthogonal part keeps directions that the ridge gives up on. It is solved with each coordinate at its own scale
    where the ridge keeps the default normalization: heads often standardize what they read.
    """
    p = pairs.normalized(choice.normalize)
    ridge = choice.regression(p, pairs)
    grown = vectors.folded(replace(ridge, matrix=choice.gain * ridge.matrix), p, WIDE)
    p = pairs.normalized("standard" if choice.normalize == "iso" else choice.normalize)
    turned = fold(orthogonal(p.summary), p.source, p.target, dtype=WIDE)
    return Solution(grown.blended(turned, choice.share).astype(pairs.dtype).guarded(*pairs.target_spread))
