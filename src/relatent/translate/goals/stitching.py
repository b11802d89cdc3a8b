"""Feed a head that was trained on the target: the reconstruction at its full size, blended with the orthogonal map."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from relatent.translate.folded import fold
from relatent.translate.goals import vectors
from relatent.translate.goals.choice import Settings, Solution
from relatent.translate.goals.vectors import RidgeChoice, needs
from relatent.translate.maps import Affine, orthogonal
from relatent.translate.pairs import NormalizedPairs, Pairs
from relatent.translate.ridge import LeaveOneOut, RidgeFit

__all__ = ["BLEND", "choose", "needs", "solve"]

# Share of the orthogonal map in the blend.
BLEND = 0.3
# What a ridge that predicts nothing at all may be multiplied by.
MOST_GAIN = 10.0


def choose(pairs: Pairs, settings: Settings) -> RidgeChoice:
    """Choose the ridge as for vectors."""
    choice = vectors.choose(pairs, settings)
    assert choice.selection is not None
    named = replace(choice.selection, chosen=f"{choice.selection.chosen}, blended with orthogonal")
    return replace(choice, selection=named)


def solve(pairs: Pairs, choice: RidgeChoice) -> Solution:
    """Return the blended map."""
    p, ridge = choice.fit(pairs)
    solved = blend(p, ridge)
    return Solution(fold(solved, p.source, p.target, dtype=pairs.dtype, features=ridge.features).guarded(pairs))


def blend(p: NormalizedPairs, ridge: RidgeFit) -> Affine:
    r""":math:`(1 - \beta)\, g W_{ridge} + \beta W_{orthogonal}`.

    A ridge shrinks its predictions, and a head was trained on vectors of full norm: g restores the size that
    leave-one-out predictions lost. The orthogonal part keeps directions that the ridge gives up on.
    """
    left_out = LeaveOneOut(ridge.path, p, ridge.rows)
    predicted = np.sum(left_out.predictions(ridge.penalty) ** 2)
    gain = float(np.sqrt(np.sum(left_out.y**2) / max(predicted, np.finfo(np.float64).tiny)))
    matrix = (1 - BLEND) * min(gain, MOST_GAIN) * ridge.path.matrix(ridge.penalty)
    turned = orthogonal(p.summary).matrix
    matrix[: len(turned)] += BLEND * turned  # features begin with the vectors themselves
    return Affine.through_means(matrix, ridge.summary)
