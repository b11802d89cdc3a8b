"""What the linear measures need of two parallel spaces: their second moments, and the principal axes of each."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from relatent._array import Array, array_namespace, as_parallel, is_tracked, suggest, to_numpy
from relatent._linalg import thin_svd
from relatent.summary import Summary, accumulate, centered_chunks

# Directions with less than this share of the largest variance are rounding noise (a share 1e-6 of its spread).
NOISE = 1e-12


def check_varies(**named: Array) -> None:
    """Check that the rows of each matrix are not all the same."""
    for name, x in named.items():
        # Two different rows decide it; only a space that starts with equal rows is read to the end.
        if not any(bool(array_namespace(x).any(rows != x[:1, :])) for rows in (x[:2, :], x)):
            raise ValueError(
                f"{name} has {x.shape[0]} equal rows: expected vectors that differ from each other. "
                "Check the encoder that made them."
            )


def scalar(value: Array) -> float:
    """Return a measure as a float; where torch tracks it, as the 0-d tensor that gradients flow through."""
    return cast(float, value) if is_tracked(value) else float(value)


def as_moments(x: Any, y: Any = None, *, wide: bool = True) -> Summary:
    """Take a summary as it is, or make one from two parallel matrices (:func:`relatent.summary.accumulate`)."""
    if y is not None:
        x, y = as_parallel(x=x, y=y)
        check_varies(x=x, y=y)
        return accumulate(x, y, wide=wide)
    if not isinstance(x, Summary):
        raise TypeError(
            f"One argument of type {type(x).__name__} was given: expected two parallel matrices x and y, "
            "or a summary of them (relatent.translate.summarize)."
        )
    return x


@dataclass(frozen=True)
class Axes:
    """The principal axes of a space: ``values`` fall, and column i of ``vectors`` is the axis of ``values[i]``."""

    values: np.ndarray
    vectors: np.ndarray


def principal_axes(scatter: Array) -> Axes:
    """Decompose a scatter matrix; axes that hold rounding noise are dropped."""
    values, vectors = np.linalg.eigh(to_numpy(scatter).astype(np.float64, copy=False))
    live = values > NOISE * values[-1]
    return Axes(values[live][::-1], vectors[:, live][:, ::-1])


DISTANCES = ("angular", "squared")
# Share of the variance that the leading axes of SVCCA hold.
VARIANCE = 0.99
# Penalty of the ridge regressions that GULP compares, in units of the total variance.
PENALTY = 1e-2


def cka(x: Any, y: Any = None, *, unbiased: bool = False) -> float:
    r"""Return the centered kernel alignment with the linear kernel, in its feature form: O(n d²), never n × n.

    .. math:: \frac{\lVert X^\top Y \rVert_F^2}{\lVert X^\top X \rVert_F \, \lVert Y^\top Y \rVert_F}

    1: equal up to rotation, reflection, one scale and an offset, none of which changes it. 0: uncorrelated. Changed by
    an invertible linear map. When rows are few it is biased upwards: ``unbiased`` uses the unbiased estimate of HSIC,
    which is around 0 for unrelated spaces, needs at least 4 rows, and cannot come from a summary. Differentiable.

    References: Kornblith et al., ICML 2019; Song et al., JMLR 2012 (unbiased HSIC).

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(cka(x, 3 * x[:, ::-1] + 1), 6)
    1.0
    """
    if unbiased:
        return _unbiased_cka(x, y)
    m = as_moments(x, y, wide=False)
    xp = array_namespace(m.xy)
    xx, xy, yy = (xp.sum(moment**2) for moment in (m.xx, m.xy, m.yy))
    return _of_dtype(xy / xp.sqrt(xx) / xp.sqrt(yy), x, y)


def minibatch_cka(batches: Iterable[tuple[Array, Array]]) -> float:
    r"""Return the linear CKA of a stream: the unbiased estimates of HSIC are averaged over batches, then divided.

    .. math:: \frac{\sum_b \operatorname{HSIC}(X_b, Y_b)}
                   {\sqrt{\sum_b \operatorname{HSIC}(X_b, X_b) \sum_b \operatorname{HSIC}(Y_b, Y_b)}}

    Whatever the size of the batches (at least 4 rows each), it estimates the unbiased CKA of all rows.

    References: Nguyen et al., ICLR 2021.

    >>> x = np.random.default_rng(0).normal(size=(60, 4))
    >>> round(minibatch_cka([(x[:30], -x[:30]), (x[30:], -x[30:])]), 6)
    1.0
    """
    total = np.zeros(3)
    for x, y in batches:
        total += [float(h) for h in _unbiased_hsic(x, y)]
    if not np.any(total):
        raise ValueError("No batch was given: expected pairs (x, y) of parallel rows.")
    return float(total[0] / np.sqrt(total[1] * total[2]))


def procrustes(x: Any, y: Any = None, *, distance: str = "angular") -> float:
    r"""Return the distance that remains after the best rotation, both spaces centered and scaled to size 1.

    .. math:: \cos\theta = \frac{\lVert X^\top Y \rVert_*}{\lVert X \rVert_F \lVert Y \rVert_F}, \quad
              \text{angular: } \theta, \quad \text{squared: } 2 - 2\cos\theta

    0: equal up to rotation, reflection, one scale and an offset. The angle (at most π/2) obeys the triangle
    inequality, and so does the root of the squared distance (at most 2). Changed by an invertible linear map, which
    is what tells it from CCA. Spaces of different width are compared as if the narrower had zeros. Differentiable.

    References: Williams et al., NeurIPS 2021; Ding et al., NeurIPS 2021.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(procrustes(x, 3 * x[:, ::-1] + 1, distance="squared"), 6)
    0.0
    """
    if distance not in DISTANCES:
        raise ValueError(f"distance is {distance!r}.{suggest(distance, DISTANCES)}")
    m = as_moments(x, y)
    xp = array_namespace(m.xy)
    cos = xp.sum(xp.linalg.svdvals(m.xy)) / xp.sqrt(_trace(m.xx)) / xp.sqrt(_trace(m.yy))
    # The arc cosine has no slope at 1, and rounding can pass it: keep that point out of the gradient.
    inside = xp.where(cos < 1, cos, 0 * cos)
    between = 2 - 2 * inside if distance == "squared" else xp.acos(inside)
    return _of_dtype(xp.where(cos < 1, between, 0 * cos), x, y)


def canonical_correlations(x: Any, y: Any = None) -> np.ndarray:
    r"""Return the correlations of the best matched directions of two spaces, largest first.

    .. math:: \operatorname{svd}\left(\Sigma_x^{-1/2} \Sigma_{xy} \Sigma_y^{-1/2}\right)

    Unchanged by any invertible affine map of either side. Directions with less than 1e-12 of the largest variance are
    left out. With n rows and d_x + d_y ≥ n, some are 1 whatever the data, and a warning says how many.

    References: Hotelling, 1936.

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> canonical_correlations(x, x @ np.asarray([[1, 2, 0], [0, 1, 0], [0, 3, 5.0]])).round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    m = as_moments(x, y)
    ax, ay = principal_axes(m.xx), principal_axes(m.yy)
    warn_few_rows(m.n, ax, ay)
    return canonical(ax, ay, crossed(ax, ay, m.xy))[1]


def cca(x: Any, y: Any = None) -> float:
    """Return the mean canonical correlation.

    1: one space is an invertible affine map of the other (or of a part of it). Near 0: uncorrelated, given many more
    rows than coordinates. Unchanged by any invertible affine map of either side.

    References: Hotelling, 1936; Raghu et al., NeurIPS 2017.

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(cca(x, x * [1, 10, 100]), 6)
    1.0
    """
    return float(np.mean(canonical_correlations(x, y)))


def svcca(x: Any, y: Any = None, *, variance: float = VARIANCE) -> float:
    """Return the mean canonical correlation of the leading axes, those that hold 99 % of each space's variance.

    Unchanged by rotation, one scale and an offset; an invertible map changes which axes lead. With ``variance=1`` it
    is :func:`cca`.

    References: Raghu et al., NeurIPS 2017.

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(svcca(x, -2 * x), 6)
    1.0
    """
    if not 0 < variance <= 1:
        raise ValueError(f"variance is {variance}: expected a share above 0 and at most 1.")
    m = as_moments(x, y)
    ax, ay = (leading(principal_axes(scatter), variance) for scatter in (m.xx, m.yy))
    warn_few_rows(m.n, ax, ay)
    return float(np.mean(canonical(ax, ay, crossed(ax, ay, m.xy))[1]))


def pwcca(x: Any, y: Any = None) -> float:
    r"""Return the canonical correlations averaged with the weight that each direction has in x.

    .. math:: \frac{\sum_i \alpha_i \rho_i}{\sum_i \alpha_i}, \quad \alpha_i = \sum_j |\langle h_i, x_j \rangle|

    h_i is the i-th canonical variable of x and x_j its j-th coordinate, both over the rows. Unchanged by any
    invertible affine map of y, and not symmetric. Among equal correlations the directions, and so the weights, are not
    unique.

    References: Morcos et al., NeurIPS 2018.

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(pwcca(x, x * [1, 10, 100]), 6)
    1.0
    """
    m = as_moments(x, y)
    ax, ay = principal_axes(m.xx), principal_axes(m.yy)
    warn_few_rows(m.n, ax, ay)
    return weighted(ax, *canonical(ax, ay, crossed(ax, ay, m.xy)))


def gulp(x: Any, y: Any = None, *, penalty: float = PENALTY) -> float:
    r"""Return how differently two spaces predict by ridge regression, in the worst case over all tasks.

    .. math:: d_\lambda^2 = \operatorname{tr} (\Sigma_x^{-\lambda} \Sigma_x)^2 + \operatorname{tr} (\Sigma_y^{-\lambda}
              \Sigma_y)^2 - 2 \operatorname{tr} \Sigma_x^{-\lambda} \Sigma_{xy} \Sigma_y^{-\lambda} \Sigma_{yx},
              \quad \Sigma^{-\lambda} = (\Sigma + \lambda I)^{-1}

    Both spaces are centered and scaled to total variance 1, in whose units λ is. d bounds the root mean squared
    difference of the two predictions for any target of unit variance: 0, the same predictions; at most the root of
    the sum of both ranks. Unchanged by rotation, one scale and an offset. Small λ approaches CCA, which no invertible
    affine map changes; large λ compares as CKA does. A metric: it obeys the triangle inequality.

    References: Boix-Adsera et al., NeurIPS 2022.

    >>> x = np.random.default_rng(0).normal(size=(50, 4))
    >>> round(gulp(x, 3 * x[:, ::-1] + 1), 6)
    0.0
    """
    if not penalty >= 0:
        raise ValueError(f"penalty is {penalty}: expected 0 or more, in units of the total variance, such as 0.01.")
    m = as_moments(x, y)
    ax, ay = principal_axes(m.xx), principal_axes(m.yy)
    return ridge_distance(ax, ay, crossed(ax, ay, m.xy), penalty)


def ridge_distance(ax: Axes, ay: Axes, cross: np.ndarray, penalty: float = PENALTY) -> float:
    """Return the distance of :func:`gulp` from principal axes and the cross moments between them."""
    a, b = (axes.values / np.sum(axes.values) for axes in (ax, ay))
    crossed_squares = cross**2 / (np.sum(ax.values) * np.sum(ay.values))
    own = np.sum((a / (a + penalty)) ** 2) + np.sum((b / (b + penalty)) ** 2)
    shared = np.sum(crossed_squares / (a + penalty)[:, None] / (b + penalty))
    return float(np.sqrt(max(own - 2 * shared, 0.0)))


def predictivity(x: Any, y: Any = None) -> float:
    r"""Return the share of the variance of y that a linear map of x explains, adjusted for the number of coordinates.

    .. math:: R^2 = \frac{\operatorname{tr}(\Sigma_{yx} \Sigma_x^{-1} \Sigma_{xy})}{\operatorname{tr} \Sigma_y},
              \quad 1 - (1 - R^2) \frac{n - 1}{n - 1 - r}

    r is the rank of x. 1: y is a linear function of x; about 0: x says nothing about y. Unchanged by any invertible
    affine map of x, and by rotation, one scale and an offset of y. Not symmetric. Needs more rows than coordinates.

    References: Kornblith et al., ICML 2019, section 3 (linear regression).

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> round(predictivity(x, x[:, :2] @ np.asarray([[1.0, 2.0], [0.0, 1.0]])), 6)
    1.0
    """
    m = as_moments(x, y)
    ax, ay = principal_axes(m.xx), principal_axes(m.yy)
    if m.n - 1 <= len(ax.values):
        warnings.warn(
            f"{m.n:g} rows determine a map of {len(ax.values)} coordinates exactly: R² is 1 whatever the data. "
            "Give more rows.",
            stacklevel=2,
        )
    return explained(m.n, ax, ay, crossed(ax, ay, m.xy))


def crossed(ax: Axes, ay: Axes, xy: Array) -> np.ndarray:
    """Return the cross moments in the principal axes of both sides."""
    return np.asarray(ax.vectors.T @ to_numpy(xy).astype(np.float64, copy=False) @ ay.vectors)


def leading(axes: Axes, variance: float = VARIANCE) -> Axes:
    """Return the leading axes that hold a share of the variance."""
    share = np.cumsum(axes.values) / np.sum(axes.values)
    kept = int(np.searchsorted(share, variance * (1 - 1e-12))) + 1
    return Axes(axes.values[:kept], axes.vectors[:, :kept])


def whitened(ax: Axes, ay: Axes, cross: np.ndarray) -> np.ndarray:
    """Return crossed moments of sides that have unit variance along each of their axes."""
    return np.asarray(cross / np.sqrt(ax.values)[:, None] / np.sqrt(ay.values))


def canonical(ax: Axes, ay: Axes, cross: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the canonical directions of x, in its whitened axes, and correlations, from crossed moments."""
    u, rho, _ = thin_svd(whitened(ax, ay, cross))
    return u, np.minimum(rho, 1.0)


def weighted(ax: Axes, u: np.ndarray, rho: np.ndarray) -> float:
    """Return the correlations averaged by how much of x each canonical direction carries."""
    # hᵀx = Uᵀ Σx^½ Vᵀ: how much of every coordinate of x each canonical variable carries.
    weight = np.sum(np.abs((u.T * np.sqrt(ax.values)) @ ax.vectors.T), axis=1)
    return float(np.sum(weight * rho) / np.sum(weight))


def explained(n: float, ax: Axes, ay: Axes, cross: np.ndarray) -> float:
    """Return the adjusted R² from crossed moments."""
    share = min(float(np.sum(np.sum(cross**2, axis=1) / ax.values) / np.sum(ay.values)), 1.0)
    spare = n - 1 - len(ax.values)
    return 1 - (1 - share) * (n - 1) / spare if spare > 0 else 1.0


def warn_few_rows(n: float, ax: Axes, ay: Axes) -> None:
    """Warn when rows are too few: some canonical correlations are 1 whatever the data."""
    rx, ry = len(ax.values), len(ay.values)
    forced = min(rx + ry - (int(n) - 1), min(rx, ry))
    if forced > 0:
        warnings.warn(
            f"{n:g} rows are too few for {rx} + {ry} coordinates: {forced} of {min(rx, ry)} canonical correlations are "
            "1 whatever the data. Give more rows than the coordinates of both, or use cka(…, unbiased=True).",
            stacklevel=3,
        )


def _unbiased_cka(x: Any, y: Any) -> float:
    if y is None:
        raise ValueError("unbiased CKA needs the rows: pass x and y, or stream them through minibatch_cka.")
    xp = array_namespace(*as_parallel(x=x, y=y))
    xy, xx, yy = _unbiased_hsic(x, y)
    return _of_dtype(xy / xp.sqrt(xx * yy), x, y)


def _unbiased_hsic(x: Any, y: Any) -> tuple[Array, Array, Array]:
    r"""Return the unbiased HSIC of (x, y), (x, x) and (y, y), up to one common factor.

    The estimate uses the Gram matrices K, L with zeros on their diagonals. Of centered rows K1 = 0, so that all three
    of its terms are moments and sums over rows of the squared norms k, l.
    """
    x, y = as_parallel(x=x, y=y)
    n = x.shape[0]
    if n < 4:
        raise ValueError(f"There are {n} rows: expected at least 4 for the unbiased estimate.")
    xp = array_namespace(x, y)
    m = as_moments(x, y, wide=False)
    kl, kk, ll = 0.0, 0.0, 0.0
    for a, b in centered_chunks(x, y, wide=False):
        k, norms = (xp.astype(xp.sum(rows**2, axis=1), xp.float64) for rows in (a, b))
        kl, kk, ll = kl + xp.sum(k * norms), kk + xp.sum(k * k), ll + xp.sum(norms * norms)
    tx, ty = _trace(m.xx), _trace(m.yy)

    def hsic(product: Array, diagonal: Array, traces: Array) -> Array:
        return xp.sum(product**2) - diagonal + traces / ((n - 1) * (n - 2)) - 2 * diagonal / (n - 2)

    return hsic(m.xy, kl, tx * ty), hsic(m.xx, kk, tx * tx), hsic(m.yy, ll, ty * ty)


def _trace(m: Array) -> Array:
    return array_namespace(m).linalg.trace(m)


def _of_dtype(value: Array, x: Any, y: Any) -> float:
    """Return the value with the precision of float32 rows; what comes from a summary stays float64."""
    xp = array_namespace(value)
    single = y is not None and all(getattr(a, "dtype", None) == xp.float32 for a in (x, y))
    return scalar(xp.astype(value, xp.float32) if single else value)
