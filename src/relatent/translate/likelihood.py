"""The map for search: how much likelier a pair is than chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from relatent._array import Array, array_namespace, like
from relatent._linalg import spectrum
from relatent.summary import Summary
from relatent.translate.maps import Affine

__all__ = ["LikelihoodPath", "LikelihoodRatio"]

# A correlation this close to 1 has a likelihood ratio beyond what finite anchors can tell.
TOP_CORRELATION = 1 - 1e-6


@dataclass(frozen=True)
class LikelihoodRatio:
    r"""Log-likelihood ratio of "y is the translation of x" against "y is any vector", for Gaussian pairs.

    With canonical variables a = x Wₓ and b = y W_y of correlations ρ,

    .. math:: s(x, y) = \sum_i \frac{\rho_i}{1-\rho_i^2} a_i b_i - \frac12 \sum_i \frac{\rho_i^2}{1-\rho_i^2} b_i^2

    up to a term that depends on x alone and leaves every ranking as it is. It is an inner product: the query becomes
    (ρ/(1−ρ²)·a, 1), the target (b, bias), so any inner-product index serves it.
    """

    query: Affine
    target: Affine
    bias: np.ndarray
    """Weight of each squared target coordinate in the appended one."""

    def query_vectors(self, x: Array) -> Array:
        """Return the vectors to search with."""
        return x @ like(self.query.matrix, x) + like(self.query.offset, x)

    def target_vectors(self, y: Array) -> Array:
        """Return the vectors to index, the bias appended as their last coordinate."""
        b = y @ like(self.target.matrix, y) + like(self.target.offset, y)
        return array_namespace(y).concat([b, (b * b) @ like(self.bias, y)[:, None]], axis=1)

    def vectors(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return the vectors to search with and those to index."""
        return self.query_vectors(x), self.target_vectors(y)


@dataclass(frozen=True)
class LikelihoodPath:
    """Likelihood ratios for every penalty from one pair of eigen-decompositions."""

    summary: Summary
    values_x: np.ndarray
    vectors_x: np.ndarray
    values_y: np.ndarray
    vectors_y: np.ndarray
    cross: np.ndarray
    """The cross-covariance between the eigenvectors."""

    @staticmethod
    def of(summary: Summary) -> LikelihoodPath:
        """Decompose both covariances."""
        (values_x, vectors_x), (values_y, vectors_y) = spectrum(summary.xx), spectrum(summary.yy)
        cross, n = vectors_x.T @ summary.xy @ vectors_y / summary.n, summary.n
        return LikelihoodPath(summary, values_x / n, vectors_x, values_y / n, vectors_y, cross)

    def at(self, penalty_x: float, penalty_y: float) -> LikelihoodRatio:
        """Return the likelihood ratio with penalties × the mean eigenvalue added to the two covariances."""
        root_x = np.sqrt(self.values_x + penalty_x * np.sum(self.values_x) / self.summary.dims[0])
        root_y = np.sqrt(self.values_y + penalty_y * np.sum(self.values_y) / self.summary.dims[1])
        u, rho, v = _svd(self.cross / root_x[:, None] / root_y)
        rho = np.minimum(rho, TOP_CORRELATION)
        wx, wy = self.vectors_x @ (u / root_x[:, None]), self.vectors_y @ (v / root_y[:, None])
        query = np.column_stack([wx * (rho / (1 - rho**2)), np.zeros(len(wx))])
        offset = -self.summary.mean_x @ query
        offset[-1] = 1.0
        target = Affine(wy, -self.summary.mean_y @ wy)
        return LikelihoodRatio(Affine(query, offset), target, -0.5 * rho**2 / (1 - rho**2))


def _svd(m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thin SVD through the smaller Gram matrix: small correlations lose digits, and carry no weight."""
    if m.shape[0] < m.shape[1]:
        v, s, u = _svd(m.T)
        return u, s, v
    values, v = np.linalg.eigh(m.T @ m)
    live = values > 1e-12 * np.max(values, initial=0.0)
    s = np.sqrt(values[live])[::-1]
    v = v[:, live][:, ::-1]
    return m @ v / s, s, v
