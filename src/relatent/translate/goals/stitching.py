"""Feed a head that was trained on the target: the reconstruction at its full size, blended with the orthogonal map."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from relatent.translate.goals import vectors
from relatent.translate.goals.choice import Settings, Solution
from relatent.translate.goals.vectors import RidgeChoice, folded, needs
from relatent.translate.kernel import Regression
from relatent.translate.maps import orthogonal
from relatent.translate.pairs import NormalizedPairs, Pairs

__all__ = ["BLEND", "BlendChoice", "choose", "needs", "solve"]

# Share of the orthogonal map in the blend.
BLEND = 0.3
# What a ridge that predicts nothing at all may be multiplied by.
MOST_GAIN = 10.0


@dataclass(frozen=True)
class BlendChoice(RidgeChoice):
    """A ridge, the factor that restores the size of its predictions, and the share of the orthogonal map."""

    gain: float
    share: float


def choose(pairs: Pairs, settings: Settings) -> BlendChoice:
    """Choose the ridge as for vectors."""
    choice = vectors.choose(pairs, settings)
    assert choice.selection is not None
    named = replace(choice.selection, chosen=f"{choice.selection.chosen}, blended with orthogonal")
    gain = lost_size(*choice.left_out(pairs.normalized(settings.normalize)))
    return BlendChoice(**vars(replace(choice, selection=named)), gain=gain, share=BLEND)


def lost_size(predicted: np.ndarray, y: np.ndarray) -> float:
    r"""Return :math:`g = \sqrt{\lVert Y \rVert^2 / \lVert \hat Y \rVert^2}` of leave-one-out predictions.

    A ridge shrinks its predictions, and a head was trained on vectors of full norm.
    """
    least = np.sum(y**2) / MOST_GAIN**2
    return float(np.sqrt(np.sum(y**2) / max(np.sum(predicted**2), least, np.finfo(np.float64).tiny)))


def solve(pairs: Pairs, choice: BlendChoice) -> Solution:
    """Return the blended map."""
    p = pairs.normalized(choice.normalize)
    return Solution(folded(blend(p, choice.regression(p, pairs), choice.gain, choice.share), p, pairs))


def blend(p: NormalizedPairs, ridge: Regression, gain: float, share: float) -> Regression:
    r""":math:`(1 - \beta)\, g W_{ridge} + \beta W_{orthogonal}`.

    The orthogonal part keeps directions that the ridge gives up on.
    """
    turned = orthogonal(p.summary).matrix
    if ridge.features is not None and p.source.basis is not None:
        turned = p.source.basis @ turned
    matrix = (1 - share) * gain * ridge.matrix
    matrix[: len(turned)] += share * turned  # features begin with the vectors themselves
    return replace(ridge, matrix=matrix)
