"""Linear algebra, written once for every array namespace: norms, distances, decompositions with a stated threshold."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from relatent._array import Array, array_namespace, as_matrix, is_tracked, like, row_chunks, to_numpy

# Decompositions up to this order, and products of up to this many rows, are no work for several threads.
SMALL_ORDER, FEW_ROWS = 1_024, 5_000
# Entries of a chunk's result: small beside the data, large enough to keep the matrix product busy.
CHUNK_ENTRIES = 2**22
# Eigenvalues of MᵀM above this share of the largest keep ten digits of the singular values of M, and of their vectors.
SAFE_SQUARE = 1e-6
# A tolerance from which on few digits of a polar factor are enough: those that eigenvalues give.
ROUGH = 1e-7
# Asymmetry of the stretch that a fast polar factor may leave, in square roots of the machine epsilon.
RESIDUAL = 1e-3
# Random vectors that test the stretch for symmetry without forming it.
PROBES = 4


class _OneThread:
    """Keeps BLAS to one thread while anybody is inside: the first to enter sets it, the last to leave restores it.

    What is set holds for all threads of a process, so that two who set it by themselves would restore each other's.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._loaded = Lock(), 0, 0
        self._controller: Any = None
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                if self._loaded != len(sys.modules):  # a library that was loaded since may have brought a BLAS
                    from threadpoolctl import ThreadpoolController

                    self._controller, self._loaded = ThreadpoolController(), len(sys.modules)
                self._limits = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


ONE_THREAD = _OneThread()


def threads_for(rows: int, order: int) -> AbstractContextManager[None]:
    """Return what keeps BLAS to one thread for decompositions of small matrices of some rows.

    Threads gain nothing there, and where another program has the second core, each waits for the other, spinning.
    """
    return ONE_THREAD if rows <= FEW_ROWS and order <= SMALL_ORDER else nullcontext()


def rows_per_chunk(width: int) -> int:
    """Return how many rows of a result of the given width to compute at a time."""
    return max(1, CHUNK_ENTRIES // width)


def map_rows(function: Callable[[Array], Array], x: Array, width: int) -> Array:
    """Apply a row-wise function chunk by chunk, filling one result of the given width."""
    # Autograd keeps the temporaries anyway, and filling a result piecewise makes its backward pass quadratic.
    if is_tracked(x):
        return function(x)
    n, rows = x.shape[0], rows_per_chunk(width)
    if n <= rows:
        return function(x)
    xp = array_namespace(x)
    out = xp.empty((n, width), dtype=x.dtype, device=x.device)
    for chunk in row_chunks(n, rows):
        out[chunk, :] = function(x[chunk, :])
    return out


def row_norms(x: Array) -> Array:
    """Return the norm of every row."""
    if is_tracked(x):
        return array_namespace(x).linalg.vector_norm(x, axis=-1)
    with np.errstate(over="ignore", under="ignore"):  # unit_norm handles rows whose square overflows
        if isinstance(x, np.ndarray):
            return np.sqrt(np.vecdot(x, x))  # without the two copies that numpy's norm makes
        return array_namespace(x).linalg.vector_norm(x, axis=-1)


def unit_norm(x: Array) -> Array:
    """Scale every row to norm 1; a zero row stays zero.

    >>> unit_norm(np.asarray([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    xp = array_namespace(x)
    norm = None if is_tracked(x) else row_norms(x)[:, None]
    if norm is None or not all_moderate(norm):  # bring such rows to a common size first
        x = x / _nonzero(_constant(xp.max(xp.abs(x), axis=1, keepdims=True)))
        norm = row_norms(x)[:, None]
    return x / _nonzero(norm)


def all_moderate(norm: Array) -> bool:
    """Return whether one may divide by these norms: squares of very large or very small rows overflow or vanish."""
    xp = array_namespace(norm)
    info = xp.finfo(norm.dtype)
    least = float(info.smallest_normal) ** 0.5 / float(info.eps)
    return bool(xp.all((norm > least) & (norm < float(info.max))))


def _nonzero(divisor: Array) -> Array:
    xp = array_namespace(divisor)
    return xp.where(divisor == 0, xp.ones_like(divisor), divisor)


def _constant(x: Array) -> Array:
    """Keep out of the gradient what cancels in the end."""
    return x.detach() if is_tracked(x) else x


def thin_svd(a: Array) -> tuple[Array, Array, Array]:
    """Decompose into U, s, Vᵀ with min(shape) singular values."""
    try:
        return tuple(array_namespace(a).linalg.svd(a, full_matrices=False))
    except np.linalg.LinAlgError:
        # The fast driver gives up on some finite matrices (seen on real anchors); the slow one does not.
        from scipy.linalg import svd

        u, s, vt = svd(to_numpy(a), full_matrices=False, lapack_driver="gesvd")
        return like(u, a), like(s, a), like(vt, a)


def row_basis(rows: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Return an orthonormal basis, (d, r), of what fewer rows than coordinates span, up to rounding noise.

    It is found from the products of the rows, at less than the cost of their SVD. Directions that are too faint for
    their squares are found from what the others leave of the rows; what is fainter than ``least`` is noise.

    >>> row_basis(np.asarray([[3.0, 4.0, 0.0], [6.0, 8.0, 0.0]])).round(12).tolist()
    [[0.6], [0.8], [0.0]]
    """
    values, vectors = eigh(rows @ rows.T)
    least = least or max(rows.shape) * np.finfo(np.float64).eps * max(values[-1], 0.0) ** 0.5
    faint = _faint(values)
    basis = rows.T @ (vectors[:, faint:] / np.sqrt(values[faint:]))
    rest = vectors[:, :faint].T @ rows
    for _ in range(2):  # twice is enough for orthogonality
        rest = rest - rest @ basis @ basis.T
    if np.linalg.norm(rest) <= least:
        return np.asarray(basis)
    return np.concatenate([basis, row_basis(rest, least)], axis=1)


def _faint(values: Array, share: float = SAFE_SQUARE) -> int:
    """Count the eigenvalues, the first of them, that are too faint for their square roots to have many digits."""
    xp = array_namespace(values)
    return int(xp.sum(xp.astype(~(values > share * values[-1]), xp.int64)))


def squared_distances(x: Array, y: Array) -> Array:
    """Return the squared Euclidean distance of every row of x to every row of y, in float64.

    The expanded square turns the work into a matrix product. It cancels badly, hence float64 and a nearby origin.

    >>> squared_distances(np.asarray([[3.0, 4.0]]), np.zeros((1, 2))).tolist()
    [[25.0]]
    """
    xp = array_namespace(x)
    center = xp.mean(y, axis=0, keepdims=True)
    x, y = xp.astype(x - center, xp.float64), xp.astype(y - center, xp.float64)
    square = xp.sum(x**2, axis=1)[:, None] + xp.sum(y**2, axis=1)[None, :] - 2 * (x @ xp.matrix_transpose(y))
    return xp.clip(square, 0.0, None)


def pseudo_inverse(a: Array, rtol: float | None = None, ridge: float = 0.0) -> Array:
    r"""Invert as far as the matrix can be inverted.

    .. math:: A^+ = V \operatorname{diag}\!\left(\frac{s_i}{s_i^2 + \rho}\right) U^\top

    over the singular values above ``rtol`` × the largest, with :math:`\rho` = ``ridge`` × the mean of :math:`s_i^2`
    over the columns (Tikhonov). ``rtol`` is max(shape) × machine epsilon when not given.

    >>> pseudo_inverse(np.asarray([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    if ridge < 0:
        raise ValueError(f"ridge is {ridge}: expected 0 or more.")
    xp = array_namespace(a)
    rtol = max(a.shape) * float(xp.finfo(a.dtype).eps) if rtol is None else rtol
    if is_tracked(a):
        return _tracked_inverse(a, rtol, ridge)
    u, s, vt = thin_svd(a)
    kept = int(xp.sum(xp.astype(s > rtol * xp.max(s), xp.int64)))
    u, s, vt = u[:, :kept], s[:kept], vt[:kept, :]
    inverse = 1 / (s + ridge * xp.sum(s**2) / a.shape[1] / s)  # a square of s alone could vanish
    return xp.matrix_transpose(vt) @ (inverse[:, None] * xp.matrix_transpose(u))


def _tracked_inverse(a: Array, rtol: float, ridge: float) -> Array:
    """Invert without singular values, whose gradient has poles where two of them meet."""
    xp = array_namespace(a)
    if ridge == 0:
        return xp.linalg.pinv(a, rtol=rtol)
    transposed, wide = xp.matrix_transpose(a), a.shape[0] < a.shape[1]
    gram = a @ transposed if wide else transposed @ a  # the smaller of the two, of equal nonzero eigenvalues
    eye = xp.eye(gram.shape[0], dtype=a.dtype, device=a.device)
    solved = xp.linalg.solve(gram + ridge * xp.sum(a**2) / a.shape[1] * eye, a if wide else transposed)
    return xp.matrix_transpose(solved) if wide else solved


def spectrum(scatter: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues above rounding noise of a symmetric matrix, ascending, and their eigenvectors.

    >>> spectrum(np.diag([2.0, 0.0, 1.0]))[0].tolist()
    [1.0, 2.0]
    """
    diagonal, noise = np.diagonal(scatter), len(scatter) * np.finfo(np.float64).eps
    # That of rows in the basis of their span is diagonal.
    if np.linalg.norm(scatter) ** 2 - diagonal @ diagonal <= (noise * np.max(diagonal)) ** 2:
        order = np.argsort(diagonal)
        values, vectors = diagonal[order], np.eye(len(order))[:, order]
    else:
        values, vectors = eigh(scatter)
    live = values > noise * max(values[-1], 0.0)
    return values[live], vectors[:, live]


def eigh(m: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of a symmetric matrix, ascending, and their eigenvectors, as every namespace does.

    Rows that are a multiple of 128 apart share few lines of a cache. NumPy's are moved apart by a border with
    eigenvalues of its own, below all others, which takes a quarter off the time.

    >>> eigh(np.eye(128))[0].tolist() == [1.0] * 128
    True
    """
    if not isinstance(m, np.ndarray) or len(m) % 128 or not len(m):
        return tuple(array_namespace(m).linalg.eigh(m))
    n, border = len(m), 4
    wide = np.zeros((n + border, n + border), dtype=m.dtype)
    wide[:n, :n] = m
    wide[range(n, n + border), range(n, n + border)] = -1 - 2 * np.sum(np.abs(np.diagonal(m)))
    values, vectors = np.linalg.eigh(wide)
    return values[border:], vectors[:n, border:]


def positive_inverse(m: np.ndarray) -> np.ndarray:
    """Return the inverse of a symmetric positive definite matrix, in its precision, overwriting it.

    >>> positive_inverse(np.asarray([[4.0, 0.0], [0.0, 16.0]])).tolist()
    [[0.25, 0.0], [0.0, 0.0625]]
    """
    from scipy.linalg import get_lapack_funcs

    factorize, invert = get_lapack_funcs(("potrf", "potri"), (m,))
    factor, failed = factorize(m.T, lower=True, overwrite_a=True)  # its transpose is itself, in the order of LAPACK
    if failed:
        raise np.linalg.LinAlgError("The matrix is not positive definite.")
    lower = np.tril(invert(factor, lower=True, overwrite_c=True)[0])
    return np.asarray(lower + np.tril(lower, -1).T)


def polar(m: Array, rtol: float = 0.0) -> Array:
    r"""Return the nearest semi-orthogonal matrix, on the directions that the matrix really has.

    .. math:: \arg\max_Q \operatorname{tr}(Q^\top M) \quad Q^\top Q = I \text{ or } Q Q^\top = I

    Directions whose singular value is rounding noise are dropped, not turned at random, and so are those up to ``rtol``
    × the largest. From 1e-7 on, few digits are enough.

    >>> polar(np.asarray([[0.0, 2.0], [3.0, 0.0]])).round(12).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    xp = array_namespace(m)
    if m.shape[0] < m.shape[1]:
        return xp.matrix_transpose(polar(xp.matrix_transpose(m), rtol))
    rtol = max(rtol, max(m.shape) * float(xp.finfo(m.dtype).eps))
    q = _polar_by_eigenvalues(m, rtol)
    # The stretch is symmetric, which some random vectors prove.
    probes = like(np.random.default_rng(0).standard_normal((m.shape[1], PROBES)), m)
    stretched, back = xp.matrix_transpose(q) @ (m @ probes), xp.matrix_transpose(m) @ (q @ probes)
    error = float(xp.linalg.matrix_norm(stretched - back)) / (float(xp.linalg.matrix_norm(stretched)) or 1.0)
    return q if error < max(RESIDUAL * float(xp.finfo(m.dtype).eps) ** 0.5, rtol) else _polar_by_svd(m, rtol)


def _polar_by_eigenvalues(m: Array, rtol: float, least: float = 0.0) -> Array:
    """Return M (MᵀM)^-½ at two thirds of the cost of an SVD.

    Squares of singular values keep enough digits near the largest. What is fainter is turned apart, from what the
    strong directions leave of M; what is fainter than ``least``, or than ``rtol`` × the largest of all, is noise.
    """
    xp = array_namespace(m)
    values, vectors = eigh(xp.matrix_transpose(m) @ m)
    top = float(values[-1])
    if not top > 0:
        return xp.zeros_like(m)
    faint, least = _faint(values, SAFE_SQUARE if rtol < ROUGH else rtol**2), least or rtol * top**0.5
    strong, weak = vectors[:, faint:], vectors[:, :faint]
    roots = strong / values[faint:] ** 0.25
    q = m @ (roots @ xp.matrix_transpose(roots))  # the inner one is symmetric: BLAS computes half of it
    if rtol >= ROUGH or not faint:
        return q
    rest = m @ weak
    rest = rest - q @ (xp.matrix_transpose(q) @ rest)
    if float(xp.linalg.matrix_norm(rest)) <= least:
        return q
    q = q + _polar_by_eigenvalues(rest, rtol, least) @ xp.matrix_transpose(weak)
    # A step of Newton's iteration restores what rounding took from its orthogonality.
    return q @ (1.5 * xp.eye(q.shape[1], dtype=q.dtype, device=q.device) - 0.5 * (xp.matrix_transpose(q) @ q))


def _polar_by_svd(m: Array, rtol: float) -> Array:
    xp = array_namespace(m)
    u, s, vt = thin_svd(m)
    kept = int(xp.sum(xp.astype(s > rtol * xp.max(s), xp.int64)))
    return u[:, :kept] @ vt[:kept, :]


@dataclass(frozen=True)
class Conditioning:
    """How well a set of anchors can be inverted.

    ``condition_number`` is the largest singular value over the smallest, infinite when the anchors are
    rank-deficient; ``effective_rank`` is the exponential of the entropy of the singular values (Roy & Vetterli,
    2007): how many directions the anchors really use.
    """

    anchors: int
    rank: int
    effective_rank: float
    condition_number: float

    def __str__(self) -> str:
        return (
            f"{self.anchors} anchors, rank {self.rank}, effective rank {self.effective_rank:.1f}, "
            f"condition number {self.condition_number:.3g}"
        )


def conditioning(anchors: np.ndarray) -> Conditioning:
    """Measure how well anchors can be inverted.

    >>> print(conditioning(np.eye(3)))
    3 anchors, rank 3, effective rank 3.0, condition number 1
    """
    s = np.linalg.svd(np.asarray(anchors, dtype=np.float64), compute_uv=False)
    rank = int(np.sum(s > max(anchors.shape) * np.finfo(np.float64).eps * s[0])) if s[0] > 0 else 0
    share = s[:rank] / np.sum(s[:rank]) if rank else np.ones(1)
    return Conditioning(
        anchors=anchors.shape[0],
        rank=rank,
        effective_rank=float(np.exp(-np.sum(share * np.log(share)))) if rank else 0.0,
        condition_number=float(s[0] / s[-1]) if rank == len(s) else float("inf"),
    )


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
