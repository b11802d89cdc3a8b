"""A plane to draw a space on: the two directions in which it varies most."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relatent._array import Array, as_matrix, to_numpy

__all__ = ["Plane"]

# Share of the points that lie within the unit square on each axis: a few outliers do not shrink all others.
WITHIN = 0.995


@dataclass(frozen=True, eq=False)
class Plane:
    r"""Two principal axes of a space, and the scale at which nearly all of its points have coordinates in [−1, 1].

    .. math:: p = (x - \mu) \, [v_1 \; v_2] \, / \, s

    Fitted on one space, it draws every other that has the same coordinates, such as its translation. Rotating x changes
    the axes and leaves the picture as it was, but for the signs of its axes. A space of two coordinates is drawn as it
    is, centered and scaled.

    >>> x = np.asarray([[0.0, 3.0, 0.0], [0.0, -3.0, 0.0], [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    >>> place = np.abs(Plane.fit(x)(x))
    >>> bool(np.allclose(place[2, 1], place[0, 0] / 3)), bool(np.allclose(place[0, 1], 0))
    (True, True)
    """

    mean: np.ndarray
    axes: np.ndarray
    scale: float

    @classmethod
    def fit(cls, x: Array) -> Plane:
        """Return the plane of a space of two coordinates or more."""
        rows = to_numpy(as_matrix(x))
        if rows.shape[1] < 2:
            raise ValueError(f"x has shape {rows.shape}: expected two coordinates or more, to be drawn on a plane.")
        mean = np.mean(rows, axis=0)
        axes = np.eye(2, dtype=rows.dtype) if rows.shape[1] == 2 else _principal_axes(rows)
        spread = np.max(np.quantile(np.abs((rows - mean) @ axes), WITHIN, axis=0))
        return cls(mean, axes, float(spread) or 1.0)

    def __call__(self, x: Array) -> np.ndarray:
        """Return where rows lie, (n, 2) in float32."""
        return np.asarray((to_numpy(x) - self.mean) @ self.axes / self.scale, dtype=np.float32)


def _principal_axes(rows: np.ndarray) -> np.ndarray:
    from sklearn.decomposition import PCA

    return np.asarray(PCA(2, random_state=0).fit(rows).components_.T)
