"""The map for search: how much likelier a pair is than chance, less what a bank of queries shows to be hubness."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from relatent._array import Array, as_matrix, like, to_numpy
from relatent._linalg import eigh, polar, spectrum
from relatent.spaces.sample import shuffled_rows
from relatent.spaces.space import Space
from relatent.steps import Bank, bias_step
from relatent.summary import Summary
from relatent.translate.maps import Affine, Spectrum, orthogonal
from relatent.translate.pairs import Pairs

Side = Literal["source", "target"]

# A correlation this close to 1 has a likelihood ratio beyond what finite anchors can tell.
TOP_CORRELATION = 1 - 1e-6
# Rows beyond which a bank takes space and time, and tells little more.
BANK_SIZE = 1_000
# Rows of an index beyond which ranking among them takes time, and tells little more.
INDEX_SIZE = 500
# The best queries of a large bank that are averaged over (CSLS takes ten); of a small one, this share.
NEIGHBORS, SHARE = 5, 0.05


@dataclass(frozen=True)
class LikelihoodRatio:
    r"""Log-likelihood ratio of "y is the translation of x" against "y is any vector", for Gaussian pairs.

    With canonical variables a = x Wₓ and b = y W_y of correlations ρ,

    .. math:: s(x, y) = \sum_i \frac{\rho_i}{1-\rho_i^2} a_i b_i - \frac12 \sum_i \frac{\rho_i^2}{1-\rho_i^2} b_i^2

    up to a term that depends on x alone and leaves every ranking as it is. It is an inner product: the query becomes
    (ρ/(1−ρ²)·a, 1), the target (b, bias), so any inner-product index serves it. A bank of queries
    (:class:`~relatent.steps.Bank`) takes from the bias of each target what hubness adds to its scores.
    """

    query: Affine
    target: Affine
    bias: np.ndarray
    """Weight of each squared target coordinate in the appended one."""
    common: Affine
    """What maps x to a vector of which −½ × the squared norm is the term that depends on x alone."""
    bank: Bank | None = None

    def query_vectors(self, x: Array) -> Array:
        """Return the vectors to search with."""
        return x @ like(self.query.matrix, x) + like(self.query.offset, x)

    def target_vectors(self, y: Array) -> Array:
        """Return the vectors to index, the bias appended as their last coordinate."""
        return bias_step(self.bias, self.bank)(y @ like(self.target.matrix, y) + like(self.target.offset, y))

    def vectors(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return the vectors to search with and those to index."""
        return self.query_vectors(x), self.target_vectors(y)

    def log_ratios(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return s of every x with every y, the term that depends on x alone included."""
        queries, targets = self.vectors(x, y)
        return np.asarray(queries @ targets.T + self._common(x)[:, None])

    def with_bank(self, x: np.ndarray, weight: float) -> LikelihoodRatio:
        """Return the same ratio with a bank of these source rows."""
        return replace(self, bank=bank_of(self.query_vectors(x)[:, :-1], self._common(x), weight))

    def with_rotation(self, summary: Summary, gain: float) -> LikelihoodRatio:
        r"""Return s(x, y) + gain · xQ · y, with x and y about their means and Q the rotation of these.

        The target keeps all of its coordinates, turned so that the bias is still a weighted sum of squares.
        """
        weights, axes = eigh((self.target.matrix * self.bias) @ self.target.matrix.T)
        turned = self.query.matrix[:, :-1] @ (self.target.matrix.T @ axes) + gain * polar(summary.xy) @ axes
        query, target = _query(turned, summary.mean_x), Affine(axes, -summary.mean_y @ axes)
        return replace(self, query=query, target=target, bias=weights)

    def _common(self, x: np.ndarray) -> np.ndarray:
        """Return the term that depends on x alone."""
        return np.asarray(-0.5 * np.sum((x @ self.common.matrix + self.common.offset) ** 2, axis=1))


@dataclass(frozen=True)
class Scored:
    """Rows as a likelihood ratio compares them: s of a query and a target is their product plus both terms."""

    queries: np.ndarray
    common: np.ndarray
    """The term of each query, which changes no ranking of targets."""
    targets: np.ndarray
    bias: np.ndarray
    """The term of each target."""

    @property
    def ratios(self) -> np.ndarray:
        """The score of every query with every target."""
        found = self.queries @ self.targets.T
        found += self.common[:, None]
        found += self.bias
        return np.asarray(found)


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
    def of(summary: Summary, decomposed: tuple[Spectrum, Spectrum] | None = None) -> LikelihoodPath:
        """Decompose both covariances, unless that is done."""
        (values_x, vectors_x), (values_y, vectors_y) = decomposed or (spectrum(summary.xx), spectrum(summary.yy))
        cross, n = vectors_x.T @ summary.xy @ vectors_y / summary.n, summary.n
        return LikelihoodPath(summary, values_x / n, vectors_x, values_y / n, vectors_y, cross)

    def at(self, penalty_x: float, penalty_y: float) -> LikelihoodRatio:
        """Return the likelihood ratio with penalties × the mean eigenvalue added to the two covariances."""
        wx, rho, wy = self.canonical(penalty_x, penalty_y)
        query = _query(wx * (rho / (1 - rho**2)), self.summary.mean_x)
        target, own = Affine(wy, -self.summary.mean_y @ wy), wx * (rho / np.sqrt(1 - rho**2))
        return LikelihoodRatio(query, target, -0.5 * rho**2 / (1 - rho**2), Affine(own, -self.summary.mean_x @ own))

    def scored(self, penalty_x: float, penalty_y: float, x: np.ndarray, y: np.ndarray) -> Scored:
        """Return what the ratio of these penalties makes of rows in the coordinates of the eigenvectors.

        Rows in single precision stay in it.
        """
        root_x, root_y = self.roots(penalty_x, penalty_y)
        return _scored(x, root_x, y, root_y, self.cross / root_x[:, None] / root_y)

    def coordinates(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of both sides about the means, in the coordinates of the eigenvectors and in their precision."""
        sides = (x, self.summary.mean_x, self.vectors_x), (y, self.summary.mean_y, self.vectors_y)
        a, b = ((rows - mean.astype(rows.dtype)) @ vectors.astype(rows.dtype) for rows, mean, vectors in sides)
        return a, b

    def roots(self, penalty_x: float, penalty_y: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the roots of the eigenvalues with the penalties."""
        root_x = np.sqrt(self.values_x + penalty_x * np.sum(self.values_x) / self.summary.dims[0])
        return root_x, np.sqrt(self.values_y + penalty_y * np.sum(self.values_y) / self.summary.dims[1])

    def canonical(self, penalty_x: float, penalty_y: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the matrices that give the canonical variables of the two sides, and between them the correlations."""
        root_x, root_y = self.roots(penalty_x, penalty_y)
        u, rho, v = _svd(self.cross / root_x[:, None] / root_y)
        wx, wy = self.vectors_x @ (u / root_x[:, None]), self.vectors_y @ (v / root_y[:, None])
        return wx, np.minimum(rho, TOP_CORRELATION), wy


def _scored(x: np.ndarray, root_x: np.ndarray, y: np.ndarray, root_y: np.ndarray, m: np.ndarray) -> Scored:
    r"""Score rows without their canonical variables, which take several times as long.

    .. math:: s = a M (I - M^\top M)^{-1} b^\top - \tfrac12 b ((I - M^\top M)^{-1} - I) b^\top
              - \tfrac12 a M (I - M^\top M)^{-1} M^\top a^\top

    with whitened rows a and b, over their roots, of cross-covariance M. With :math:`LL^\top = I - M^\top M` these are
    products and squares of :math:`a M L^{-\top}` and :math:`b L^{-\top}`. The smaller side is decomposed.
    """
    from scipy.linalg.lapack import dtrtri

    if len(root_x) < len(root_y):
        swapped = _scored(y, root_y, x, root_x, m.T)
        return Scored(swapped.targets, swapped.bias, swapped.queries, swapped.common)
    # The diagonal keeps correlations below what finite anchors can tell, as TOP_CORRELATION does.
    gram = -(m.T @ m)
    gram[np.diag_indices(len(gram))] += 2 - TOP_CORRELATION**2
    lower = np.linalg.cholesky(gram)
    inverse = dtrtri(lower.T)[0]  # of the transpose, which is in the order of LAPACK
    # Only matrices are in double precision, which are small beside the rows.
    queries = x @ (m / root_x[:, None]).astype(x.dtype) @ inverse.astype(x.dtype)
    targets, white = y @ (inverse / root_y[:, None]).astype(y.dtype), y / root_y.astype(y.dtype)
    bias = np.vecdot(targets, targets) - np.vecdot(white, white)
    return Scored(queries, -0.5 * np.vecdot(queries, queries), targets, -0.5 * bias)


def rotation(summary: Summary) -> LikelihoodRatio:
    r"""Return the likelihood ratio of isotropic pairs with one correlation in all directions, of vanishing size.

    .. math:: s(x, y) = x\,Q \cdot y \qquad Q = \arg\min \lVert Y - XQ \rVert

    It is what shrinking both covariances to spheres and all correlations to one leaves. Of unit rows it is the cosine
    after the orthogonal map.
    """
    q = orthogonal(summary).matrix
    width = q.shape[1]
    target, nothing = Affine.linear(np.eye(width)), Affine.linear(np.zeros((len(q), 0)))
    return LikelihoodRatio(_query(q, np.zeros(len(q))), target, np.zeros(width), nothing)


def _query(matrix: np.ndarray, mean: np.ndarray) -> Affine:
    """Return the map of centered rows with a last coordinate of 1, which meets the bias of the target."""
    padded = np.column_stack([matrix, np.zeros(len(matrix))])
    offset = -mean @ padded
    offset[-1] = 1.0
    return Affine(padded, offset)


def _svd(m: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thin SVD through the smaller Gram matrix: small correlations lose digits, and carry no weight."""
    if m.shape[0] < m.shape[1]:
        v, s, u = _svd(m.T)
        return u, s, v
    values, v = eigh(m.T @ m)
    live = values > 1e-12 * np.max(values, initial=0.0)
    s = np.sqrt(values[live])[::-1]
    v = v[:, live][:, ::-1]
    return m @ v / s, s, v


def bank_of(queries: np.ndarray, offsets: np.ndarray, weight: float) -> Bank:
    """Return the bank of these queries, with the number of neighbors that suits its size."""
    return Bank(queries, offsets, weight, neighbors(len(queries)))


def neighbors(size: int) -> int:
    """Return over how many of the best queries of a bank of this size to average."""
    return min(NEIGHBORS, int(np.ceil(SHARE * size)))


@dataclass(frozen=True, eq=False)
class BankRows:
    """Where the queries of a bank come from: source vectors that were given for it, or the pairs' own."""

    given: np.ndarray | None = None
    size: int = BANK_SIZE
    """The maximum; 0 is no bank."""
    seed: int = 0

    def of(self, pairs: Pairs) -> np.ndarray:
        """Return the source vectors for a map that is fitted to these pairs."""
        rows = pairs.sample.x if self.given is None else self.given
        if len(rows) <= self.size:
            return rows
        return np.asarray(rows[np.sort(shuffled_rows(len(rows), self.size, self.seed))])

    def with_rows(self, bank: Any, source: Any, *, used: bool) -> BankRows:
        """Return the same with rows that were given, if they are of the source's space and there is a use for them."""
        if not (used and self.size):
            raise ValueError(
                'bank was given, and only goal="retrieval" without a frozen target and with a bank_size above 0 uses '
                "one: leave it out."
            )
        return replace(self, given=_rows_of("bank", bank, source, "source"))


def unpaired_rows(
    unlabeled: Any, index: Any, sides: tuple[Any, Any], *, used: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the rows of the source and of the target that were given beside the pairs of these two sides."""
    given = [name for name, value in (("unlabeled", unlabeled), ("index", index)) if value is not None]
    if given and not used:
        raise ValueError(f'{given[0]} was given, and only goal="retrieval" without a named map uses it: leave it out.')
    if unlabeled is not None and not (isinstance(unlabeled, tuple | list) and len(unlabeled) == 2):
        raise TypeError(
            f"unlabeled is a {type(unlabeled).__name__}: expected (rows of the source, rows of the target), either of "
            "them None."
        )
    x, y = unlabeled or (None, None)
    source, target = (sides[0], sides[0]) if isinstance(sides[0], Pairs) else sides
    rows_x = None if x is None else _rows_of("unlabeled[0]", x, source, "source")
    parts = {"unlabeled[1]": y, "index": index}
    rows_y = [_rows_of(name, rows, target, "target") for name, rows in parts.items() if rows is not None]
    return rows_x, np.concatenate(rows_y) if rows_y else None


def _rows_of(name: str, given: Any, side: Any, what: Side) -> np.ndarray:
    """Return rows that were given, if they are of the space of that side."""
    rows = to_numpy(as_matrix(given.vectors if isinstance(given, Space) else given, name))
    dim = side.dims[what == "target"] if isinstance(side, Pairs) else np.shape(side)[-1]
    if rows.shape[1] != dim:
        raise ValueError(f"{name} has shape {rows.shape}: expected {dim} columns, vectors of the {what}.")
    return rows
