"""Feed a head that was trained on the target: the reconstruction at its full size, blended with orthogonal maps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from relatent._linalg import polar
from relatent.spaces.sample import Sample
from relatent.steps import Map
from relatent.translate.goals import Judge, Selection, Settings, Solution, vectors
from relatent.translate.goals.vectors import RidgeChoice
from relatent.translate.goals.vectors import needs as needs
from relatent.translate.maps import Affine, fold, orthogonal
from relatent.translate.pairs import NormalizedPairs, Pairs

# Of the orthogonal map in the blend: what a head is tried with.
SHARES = (0.0, 0.15, 0.3, 0.5, 0.75, 1.0)
# What a ridge that predicts nothing at all may be multiplied by.
MAX_GAIN = 10.0
WIDE = np.dtype(np.float64)


@dataclass(frozen=True)
class BlendChoice(RidgeChoice):
    """A ridge, the factor that restores the size of its predictions, and the share of the orthogonal map.

    The orthogonal map is itself blended of one solved on standardized coordinates and, by the share ``unit``, one
    solved on unit rows.
    """

    gain: float
    share: float
    unit: float

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

    def blended(self) -> list[np.ndarray]:
        """Return the held-out rows for every share."""
        return [(1 - share) * self.ridge + share * self.orthogonal for share in SHARES]


def choose(pairs: Pairs, settings: Settings) -> BlendChoice:
    """Choose the ridge as for vectors, and the share of the orthogonal map on held-out pairs."""
    ridge = vectors.choose(pairs, settings)
    assert ridge.selection is not None
    gain = lost_size(*ridge.left_out(pairs.normalized(settings.normalize)))
    choice = BlendChoice(**vars(ridge), gain=gain, share=0.0, unit=0.0)
    # Few pairs may leave no two different source rows to learn from.
    varied = (trial for trial in pairs.trials(settings.seed) if np.any(trial[0].sample.x != trial[0].sample.x[:1]))
    unit, trials = _tried(choice, pairs, varied)
    if settings.judge is None or not trials:
        share, selection = reliable_share(trials, gain), ridge.selection
    else:
        share, selection = judged_share(trials, settings.judge, len(pairs.sample))
    chosen = f"{ridge.selection.chosen}, {share:.0%} orthogonal"
    return replace(choice, share=share, unit=unit, selection=replace(selection, chosen=chosen))


def _tried(choice: BlendChoice, pairs: Pairs, folds: Iterator[tuple[Pairs, np.ndarray]]) -> tuple[float, list[_Trial]]:
    """Return the share of unit rows that suits held-out pairs, and these translated by what the others teach."""
    found = []
    for rest, rows in folds:  # one at a time: what is derived from the others takes memory
        held = pairs.sample.part(rows)
        found.append((held, rest.sample, *(part(held.x.astype(WIDE)) for part in _parts(rest, choice))))
    unit = steadier_share([(standard - held.y, unit - held.y) for held, _, _, standard, unit in found])
    return unit, [
        _Trial(held, known, ridge, (1 - unit) * standard + unit * turned)
        for held, known, ridge, standard, turned in found
    ]


def steadier_share(errors: list[tuple[np.ndarray, np.ndarray]]) -> float:
    r"""Return the share :math:`e_1^2 / (e_1^2 + e_2^2)` of the second of two maps, by their errors out of fold.

    It weighs by the inverse variance, as is best for errors that are independent.
    """
    first, second = (sum(float(np.sum(pair[i] ** 2)) for pair in errors) for i in (0, 1))
    return first / (first + second) if first + second else 0.0


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
    r"""Return the map :math:`(1 - \beta)\, g W_{ridge} + \beta\, [(1 - u) W_{standard} + u W_{unit}]`.

    The orthogonal part keeps directions that the ridge gives up on. Where the ridge keeps the default normalization, it
    is blended of two: one solved with each coordinate at its own scale, since heads often standardize what they read,
    and one solved on unit rows, which few anchors with near-constant coordinates do not upset.
    """
    ridge, standard, unit = _parts(pairs, choice)
    turned = standard.blended(unit, choice.unit) if choice.unit else standard
    return Solution(ridge.blended(turned, choice.share).astype(pairs.dtype).guarded(*pairs.target_spread))


def _parts(pairs: Pairs, choice: BlendChoice) -> tuple[Map, Map, Map]:
    """Return the ridge at full size, the orthogonal map of standardized coordinates, and that of unit rows."""
    p = pairs.normalized(choice.normalize)
    ridge = choice.regression(p, pairs)
    grown = vectors.folded(replace(ridge, matrix=choice.gain * ridge.matrix), p, WIDE)
    if choice.normalize != "iso":
        turned = fold(orthogonal(p.summary, p.rtol), p.source, p.target, dtype=WIDE)
        return grown, turned, turned
    q = pairs.normalized("standard")
    turned = fold(orthogonal(q.summary, q.rtol), q.source, q.target, dtype=WIDE)
    return grown, turned, fold(_orthogonal_of_unit_rows(p), p.source, p.target, dtype=WIDE)


def _orthogonal_of_unit_rows(p: NormalizedPairs) -> Affine:
    """Return the orthogonal map of centered unit rows, at the scale of the rows as they are.

    Rows keep their norms relative to each other: the map stays affine, and comes closer than one that drops them.
    """
    norms = [np.linalg.norm(rows, axis=1, keepdims=True) for rows in (p.x, p.y)]
    x, y = (rows / np.where(norm > 0, norm, 1.0) for rows, norm in zip((p.x, p.y), norms, strict=True))
    weights = 1.0 if p.sample.weights is None else p.sample.weights[:, None]
    return Affine.linear(polar((weights * x).T @ y, p.rtol) * (np.mean(norms[1]) / (np.mean(norms[0]) or 1.0)))
