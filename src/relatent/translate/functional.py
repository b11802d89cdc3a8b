"""Match the rows of two spaces by a latent functional map, from a few known pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from relatent._linalg import polar
from relatent.evaluate.functional import SpectralBasis, functional_map
from relatent.evaluate.neighbors import nearest
from relatent.spaces.normalize import Normalizer
from relatent.translate.unpaired import Matches

# Functions of the first map, and of each refined one after it.
FIRST, SIZES = 50, (50, 50, 70, 70, 100, 100, 150, 200)
# How much commuting with the Laplacians weighs, beside what the known pairs say.
PENALTY = 0.1
# Weight of all known pairs together, relative to all matches.
KNOWN_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class SpectralSide:
    """A space with its spectral basis, and its rows by which descriptors of anchors are made."""

    rows: np.ndarray
    """About the mean, of unit norm."""
    basis: SpectralBasis

    @staticmethod
    def of(x: np.ndarray) -> SpectralSide:
        """Decompose a space."""
        basis = SpectralBasis.of(x, min(SIZES[-1], len(x) - 1))
        return SpectralSide(Normalizer.fit(x, "center+l2").apply(x), basis)

    def descriptors(self, anchors: np.ndarray) -> np.ndarray:
        """Return one function per anchor, of norm 1: how near each row is to it, by the kernel of the graph."""
        angles = np.arccos(np.clip((self.rows @ self.rows[anchors].T).astype(np.float64), -1, 1))
        near = np.exp(-((angles / self.basis.width) ** 2))
        return np.asarray(near / np.linalg.norm(near, axis=0))

    def embedded(self, size: int) -> np.ndarray:
        """Return the rows in the first functions of the basis."""
        return self.basis.vectors[:, :size]


def functional_matches(
    x: SpectralSide, y: SpectralSide, known: np.ndarray, advance: Callable[[int], None] = lambda _: None
) -> Matches:
    r"""Return the rows that choose each other under a functional map that known pairs, (k, 2), lead to.

    1. C from the descriptors of the known pairs (:func:`relatent.evaluate.functional.functional_map`), between the
       first 50 functions of both sides.
    2. Rows choose the nearest of the other side in the spectral embedding, :math:`\Phi_x C^\top` against
       :math:`\Phi_y`. From those that choose each other, C is solved again as the nearest orthogonal matrix, with more
       and more functions, up to 200 (ZoomOut):

    .. math:: C = \operatorname{polar}(\Phi_y^\top \Pi \Phi_x)

    The known pairs weigh half as much as all matches together.

    References: Fumero et al., NeurIPS 2024 (latent functional maps), section 3 and appendix A.3; Melzi et al., ACM TOG
    2019 (ZoomOut).
    """
    largest = min(len(x.basis.values), len(y.basis.values))
    size = min(FIRST, largest)
    f, g = x.descriptors(known[:, 0]), y.descriptors(known[:, 1])
    c = functional_map(x.basis.leading(size), y.basis.leading(size), f, g, PENALTY)
    rows_x, rows_y = _choosing_each_other(x.embedded(size) @ c.T, y.embedded(size))
    for wanted in SIZES:
        size, weight = min(wanted, largest), max(1.0, KNOWN_SHARE * len(rows_x) / len(known))
        pairs = np.concatenate([known, np.stack([rows_x, rows_y], axis=1)])
        weights = np.concatenate([np.full(len(known), weight), np.ones(len(rows_x))])
        a, b = x.embedded(size), y.embedded(size)
        c = polar((b[pairs[:, 1]] * weights[:, None]).T @ a[pairs[:, 0]])
        rows_x, rows_y = _choosing_each_other(a @ c.T, b)
        advance(1)
    return Matches(rows_x, rows_y, _nearness((a @ c.T)[rows_x], b[rows_y]))


def _choosing_each_other(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that are nearest to each other."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    of_a, of_b = (nearest(p, q, 1, "euclidean").indices[:, 0] for p, q in ((a, b), (b, a)))
    rows = np.flatnonzero(of_b[of_a] == np.arange(len(a)))
    return rows, of_a[rows]


def _nearness(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cosine of matched rows in the embedding, 0 where it is negative."""
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray(np.clip(np.sum(a * b, axis=1) / np.where(lengths > 0, lengths, 1.0), 0.0, 1.0))
