"""Pairs in the coordinates that maps are solved in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from relatent._linalg import spectrum, thin_svd
from relatent.spaces.normalize import Normalizer
from relatent.spaces.sample import Sample
from relatent.summary import Summary


@dataclass(frozen=True)
class Frame:
    """The coordinates that one side is solved in: normalized, and in a basis of the anchors' span where that is small.

    Directions that no anchor reaches map to nothing, so nothing is lost, and decompositions are small.
    """

    normalizer: Normalizer
    basis: np.ndarray | None = None
    """(d, r), orthonormal columns."""

    @staticmethod
    def of(rows: np.ndarray, name: str, spanned: bool) -> Frame:
        """Fit to rows."""
        normalizer = Normalizer.fit(rows, name)
        if not spanned:
            return Frame(normalizer)
        ready = Frame(normalizer).apply(rows)
        _, s, vt = thin_svd(ready)
        return Frame(normalizer, vt[s > max(ready.shape) * np.finfo(np.float64).eps * s[0]].T)

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Bring rows of the space into these coordinates."""
        ready = self.normalizer.applied(rows.astype(np.float64, copy=False))
        return np.asarray(ready if self.basis is None else ready @ self.basis)


@dataclass(frozen=True, eq=False)
class NormalizedPairs:
    """Pairs as a map sees them: two frames, the summary of all pairs in these, and the sampled rows."""

    sample: Sample
    complete: bool
    """Whether the sample is all of the pairs."""
    source: Frame
    target: Frame
    summary: Summary

    @cached_property
    def x(self) -> np.ndarray:
        """Sampled source rows."""
        return self.source.apply(self.sample.x)

    @cached_property
    def y(self) -> np.ndarray:
        """Sampled target rows."""
        return self.target.apply(self.sample.y)

    @cached_property
    def spectrum_x(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of the scatter of the source."""
        return spectrum(self.summary.xx)

    @cached_property
    def spectra(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Eigenvalues and eigenvectors of the scatter of both sides."""
        return self.spectrum_x, spectrum(self.summary.yy)

    def of(self, held: Sample) -> tuple[np.ndarray, np.ndarray]:
        """Return other pairs of the same spaces in these coordinates."""
        return self.source.apply(held.x), self.target.apply(held.y)
