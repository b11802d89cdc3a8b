"""The nonlinear option: ridge on the vectors and their similarities to landmarks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relatent._array import Array, array_namespace, like, random_generator
from relatent._linalg import spectrum, squared_distances

__all__ = ["Features", "landmark_features"]

# More landmarks cost more than they give.
LANDMARKS = 512


@dataclass(frozen=True)
class Features:
    r"""Vectors beside Nyström features of a Gaussian kernel.

    .. math:: \left[x,\; c\,k(x, L)\,k(L, L)^{-1/2}\right] \qquad k(a, b) = e^{-\lVert a-b \rVert^2 / 2\sigma^2}

    Inner products of the second part approximate the Gaussian kernel, so a ridge on both parts is a linear map plus
    what a smooth nonlinear one adds. Williams & Seeger, 2001.
    """

    landmarks: np.ndarray
    width: float
    """2σ²."""
    root: np.ndarray
    """c k(L, L)^-½."""

    def of(self, x: Array) -> Array:
        """Return the features of normalized rows."""
        xp = array_namespace(x)
        kernel = xp.astype(xp.exp(-squared_distances(x, like(self.landmarks, x)) / self.width), x.dtype)
        return xp.concat([x, kernel @ like(self.root, x)], axis=1)


def landmark_features(x: np.ndarray, reach: float, weight: float, seed: int = 0) -> Features:
    """Make landmarks from normalized rows; the bandwidth is ``reach`` × their median squared distance.

    A landmark is the sum of two centered rows over √2: of the same norm and spread, and neither of them, so that
    a translator that is passed on holds nobody's vectors.
    """
    pairs = min(LANDMARKS, max(len(x) // 2, 1))
    rows = random_generator(seed).permutation(len(x))[: 2 * pairs]
    centered = x[rows] - np.mean(x, axis=0)
    landmarks = (centered[:pairs] + centered[-pairs:]) / np.sqrt(2) + np.mean(x, axis=0)
    distances = squared_distances(landmarks, landmarks)
    width = 2 * reach * (float(np.median(distances[np.triu_indices(len(landmarks), 1)])) or 1.0)
    values, vectors = spectrum(np.exp(-distances / width))
    return Features(landmarks, width, weight * (vectors / np.sqrt(values)) @ vectors.T)
