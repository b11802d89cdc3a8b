"""ANCHOR: choose the rows that two spaces share.

Every strategy returns row numbers, never a row twice, and the same rows for the same seed. Choose in the source space
and use the same rows in the target. For cosine relative spaces farthest points serve best, for translators k-means.

Vectors are an array or a :class:`relatent.Space`. The strategies that compare vectors choose among a random sample of a
space too large for memory. :func:`write_anchors` writes the chosen rows of a space to a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._array import (
    Array,
    as_labels,
    as_matrix,
    check_count,
    is_space,
    random_generator,
    row_chunks,
    seed_sequence,
    suggest,
    to_numpy,
)
from relatent._linalg import row_norms, unit_norm
from relatent._terminal import Result, doing

if TYPE_CHECKING:
    from relatent.spaces.io.files import AnyPath
    from relatent.spaces.space import Space

__all__ = [
    "STRATEGIES",
    "WrittenAnchors",
    "by_keys",
    "farthest_point",
    "kmeans",
    "most_frequent",
    "plan",
    "prune",
    "stratified",
    "subspaces",
    "uniform",
    "write_anchors",
]

Seed = int | np.random.Generator | None

# k-means on more rows than this runs in mini-batches.
MINI_BATCH_ROWS = 20_000
# farthest_point chooses among this many candidate rows between two passes over the data.
POOL_ROWS = 2_048
CHUNK_ROWS = 4_096
# Bytes of the random sample that strategies choose among in a large space, and its least number of rows per anchor.
SAMPLE_BYTES = 64 * 2**20
ROWS_PER_ANCHOR = 10
# plan: the exponent of the cosine (the best of 2, 3 and 4 on pairs of sentence and of word spaces), the rows that each
# is compared with, and the cosine above which a row repeats another.
POWER = 3
COMPARED_ROWS = 4_096
REPEATED = 0.9999


def uniform(x: Array, k: int, seed: Seed = 0) -> np.ndarray:
    """Choose k rows at random, each set of k rows equally likely.

    >>> sorted(uniform(np.zeros((3, 2)), 3).tolist())
    [0, 1, 2]
    """
    n = len(x) if is_space(x) else as_matrix(x).shape[0]
    return random_generator(seed).choice(n, size=check_count(k, n), replace=False)


def farthest_point(x: Array, k: int, seed: Seed = 0) -> np.ndarray:
    r"""Choose k rows greedily, each as far as possible from those chosen before.

    .. math:: i_{t+1} = \arg\max_i \min_{s \le t} \; 1 - \cos(x_i, x_{i_s})

    The first row is drawn from the seed; zero rows have no direction and come last. The choice is exact, yet needs far
    fewer than k passes over the data: the distances of all rows only fall as anchors are added, so the farthest among
    a pool of candidates is the farthest of all for as long as it is farther than the best row outside the pool was at
    the last pass.

    References: Moschella et al., ICLR 2023, appendix A.2.

    >>> farthest_point(np.asarray([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0]]), 2, seed=0).tolist()
    [2, 0]
    """
    vectors, rows = _candidates(x, k, seed)
    return np.asarray(rows[_spread(vectors, check_count(k, len(vectors)), random_generator(seed))])


def kmeans(x: Array, k: int, seed: Seed = 0) -> np.ndarray:
    """Choose the row nearest to each of k centroids; a row already taken gives way to the next nearest.

    Uses scikit-learn's k-means, in mini-batches beyond 20,000 rows.

    >>> sorted(kmeans(np.asarray([[0.0], [0.1], [9.0]]), 2).tolist())[1]
    2
    """
    vectors, rows = _candidates(x, k, seed)
    k = check_count(k, len(vectors))
    return rows if k == len(rows) else rows[_nearest_distinct(vectors, _centroids(vectors, k, seed))]


def plan(x: Array, budget: int, known: Sequence[int] | np.ndarray = (), seed: Seed = 0) -> np.ndarray:
    r"""Choose the rows to make anchors of next, where some rows are ``known`` anchors already: an order to embed in.

    Each is the row that is most like all rows and least like the anchors so far (kernel herding): anchors and rows
    come to have the same distribution, where a random draw leaves gaps and repeats itself. With centered rows z and
    :math:`k(z, z') = |\cos(z, z')|^3`,

    .. math:: i_{t+1} = \arg\max_i \; \frac1n \sum_j k(z_i, z_j) - \frac1{t+1} \sum_{s \le t} k(z_i, z_{i_s})

    A row that nearly repeats an anchor comes last. Only the source space is used. Unchanged when it is rotated,
    reflected, rescaled or shifted. The first sum is over a random sample of many rows.

    References: Chen, Welling and Smola, UAI 2010 (herding).

    >>> x = np.asarray([[9.0, 0.0], [9.0, 1.0], [-9.0, 0.0], [0.0, 9.0], [1.0, 9.0], [-1.0, -9.0]])
    >>> plan(x, 1, known=[0]).tolist()
    [4]
    """
    known = np.unique(np.asarray(known, dtype=np.intp))
    n = len(x) if is_space(x) else as_matrix(x).shape[0]
    if len(known) and (known[0] < 0 or known[-1] >= n):
        raise ValueError(f"known holds row numbers outside 0…{n - 1}, the rows of x.")
    budget = check_count(budget, n - len(known), "rows that are no anchors yet")
    vectors, rows = _candidates(x, budget + len(known), seed, known)
    z = unit_norm(vectors - vectors.mean(axis=0))
    sample = z if len(z) <= COMPARED_ROWS else z[uniform(z, COMPARED_ROWS, seed)]
    chosen = _herd(z, _kernel_sums(z, sample) / len(sample), np.searchsorted(rows, known), budget)
    return np.asarray(rows[chosen])


def stratified(labels: Sequence[Any] | Array, k: int, seed: Seed = 0) -> np.ndarray:
    """Choose k rows round-robin over the classes, at random within each; a class that runs out is passed over.

    >>> rows = stratified(["cat", "cat", "cat", "dog"], 2)
    >>> sorted(rows.tolist())[1]
    3
    """
    labels = as_labels(labels)
    k = check_count(k, len(labels))
    rng = random_generator(seed)
    _, inverse = np.unique(labels, return_inverse=True)
    order = rng.permutation(len(labels))
    # The t-th row of its class is dealt in round t; within a round the classes come in a random order.
    turn = np.empty(len(labels), dtype=np.intp)
    grouped = order[np.argsort(inverse[order], kind="stable")]
    sizes = np.bincount(inverse)
    turn[grouped] = np.concatenate([np.arange(size) for size in sizes])
    place = rng.permutation(len(sizes))[inverse]
    return np.lexsort((place, turn))[:k]


def most_frequent(weights: Sequence[float] | Array, k: int, skip: int = 0) -> np.ndarray:
    """Choose the k rows of largest weight after skipping the first few, which in text are stop words.

    >>> most_frequent([5, 1, 9, 7], 2, skip=1).tolist()
    [3, 0]
    """
    weights = as_matrix(as_labels(weights, "weights")[:, None], "weights")[:, 0]
    if skip < 0:
        raise ValueError(f"skip is {skip}: expected 0 or more.")
    k = check_count(k, max(0, len(weights) - skip))
    return np.argsort(-weights, kind="stable")[skip : skip + k]


def by_keys(keys: Sequence[Any] | np.ndarray | Space, wanted: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return the rows of given keys, in the order given. An integer key and its text are the same key.

    >>> by_keys(["a", "b", "7"], [7, "a"]).tolist()
    [2, 0]
    """
    from relatent.spaces.keys import rows_of

    return rows_of(keys.keys if is_space(keys) else keys, wanted)  # type: ignore[union-attr]


def prune(anchors: Array, delta: float, seed: Seed = 0) -> np.ndarray:
    r"""Keep anchors that are nearly orthogonal to each other, so that they can be inverted.

    Starts from a random anchor and adds the one of largest :math:`\min_s 1 - |\cos(a_i, a_s)|` for as long as that is
    at least ``delta``. So all kept pairs have :math:`|\cos| \le 1 - \delta` and no dropped anchor could be added.
    Center the anchors first: in an off-center space every pair has a high cosine and nearly all would be dropped.

    References: Maiorca et al., 2024 (inverse relative projection), anchor pruning.

    >>> sorted(prune(np.asarray([[1.0, 0.0], [-1.0, 0.1], [0.0, 1.0]]), delta=0.5).tolist())[-1]
    2
    """
    if not 0 <= delta <= 1:
        raise ValueError(f"delta is {delta}: expected between 0 (keep all) and 1 (keep orthogonal ones only).")
    a = to_numpy(as_matrix(anchors, "anchors")).astype(np.float64, copy=False)
    if delta == 0:
        return np.arange(len(a))
    return _spread(a, len(a), random_generator(seed), delta=delta)


def subspaces(anchors: Array, omega: int, delta: float, seed: Seed = 0) -> list[np.ndarray]:
    """Prune several times from different starts: seeds s, s+1, …, s+ω−1.

    >>> [len(rows) for rows in subspaces(np.eye(4), omega=3, delta=0.9)]
    [4, 4, 4]
    """
    return [prune(anchors, delta, seed=s) for s in seed_sequence(seed, check_count(omega, omega, "subspaces"))]


def _candidates(x: Any, k: int, seed: Seed, known: Sequence[int] | np.ndarray = ()) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors to choose k anchors among, and their rows: all, or a random sample and the ``known`` rows."""
    if not is_space(x):
        vectors = to_numpy(as_matrix(x))
        return vectors, np.arange(len(vectors))
    count = _sample_size(x, check_count(k, len(x)))
    if count == len(x):
        return to_numpy(as_matrix(x)), np.arange(len(x))
    rows = np.union1d(known, uniform(x, count, seed)).astype(np.intp)
    return x.take(rows), rows


def _sample_size(space: Space, k: int) -> int:
    return min(len(space), max(ROWS_PER_ANCHOR * k, SAMPLE_BYTES // (space.dim * space.dtype.itemsize)))


def _spread(x: np.ndarray, k: int, rng: np.random.Generator, delta: float | None = None) -> np.ndarray:
    """Choose up to k spread-out rows; with delta, by |cos| and only while the nearest chosen is delta away."""
    norms = row_norms(x)
    live = np.flatnonzero(norms)
    # Largest similarity to a chosen row. Rows without direction rank behind all others, chosen ones are out.
    closest = np.where(norms > 0, -np.inf, 2.0)
    limit = np.inf if delta is None else 1 - delta
    chosen = [int(rng.choice(live if len(live) else len(x)))]
    fresh = 0
    while len(chosen) < k:
        _update(closest, x, norms, chosen[fresh:], absolute=delta is not None)
        closest[chosen] = np.inf
        fresh = len(chosen)
        chosen += _farthest_of_pool(closest, x, norms, k - fresh, limit, absolute=delta is not None)
        if len(chosen) == fresh:
            break
    return np.asarray(chosen, dtype=np.intp)


def _update(closest: np.ndarray, x: np.ndarray, norms: np.ndarray, rows: list[int], absolute: bool) -> None:
    """Lower the distances of all rows by the newly chosen ones, in one pass over the data."""
    directions = unit_norm(x[rows]).T
    for chunk in row_chunks(len(x), CHUNK_ROWS):
        similarity = x[chunk] @ directions
        nearest = np.max(np.abs(similarity) if absolute else similarity, axis=1)
        np.divide(nearest, norms[chunk], out=nearest, where=norms[chunk] > 0)
        np.maximum(closest[chunk], nearest, out=closest[chunk])


def _farthest_of_pool(
    closest: np.ndarray, x: np.ndarray, norms: np.ndarray, max_rows: int, limit: float, absolute: bool
) -> list[int]:
    """Choose among the farthest rows for as long as none outside of them can be farther."""
    size = min(POOL_ROWS, len(x))
    order = np.argpartition(closest, size - 1)[:size] if size < len(x) else np.arange(size)
    pool = np.sort(order)
    outside = np.min(np.delete(closest, pool)) if size < len(x) else np.inf
    rows, near = unit_norm(x[pool]), closest[pool]
    chosen: list[int] = []
    while len(chosen) < max_rows:
        i = int(np.argmin(near))
        if near[i] > min(outside, limit) or near[i] == np.inf:
            break
        chosen.append(int(pool[i]))
        similarity = rows @ rows[i]
        np.maximum(near, np.abs(similarity) if absolute else similarity, out=near)
        near[i] = np.inf
    return chosen


def _centroids(x: np.ndarray, k: int, seed: Seed) -> np.ndarray:
    import warnings

    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    state = int(random_generator(seed).integers(2**31))
    if len(x) <= MINI_BATCH_ROWS:
        model = KMeans(k, n_init=1, random_state=state)
    else:
        model = MiniBatchKMeans(k, n_init=1, batch_size=max(1024, 4 * k), random_state=state)
    with warnings.catch_warnings():  # fewer distinct rows than centroids: the distinct rows below still hold
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(model.fit(x).cluster_centers_)


def _herd(z: np.ndarray, typical: np.ndarray, known: np.ndarray, budget: int) -> np.ndarray:
    covered, late = _kernel_sums(z, z[known]), np.zeros(len(z))
    late[known] = np.inf
    chosen: list[int] = []
    for anchors in range(len(known) + 1, len(known) + budget + 1):
        i = int(np.argmax(typical - covered / anchors - late))
        near = np.abs(z @ z[i])
        covered += near**POWER
        late[near > REPEATED] += 2  # more than what two rows can differ by
        late[i] = np.inf
        chosen.append(i)
    return np.asarray(chosen, dtype=np.intp)


def _kernel_sums(z: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return for each row the sum of its powers of cosines to the others."""
    chunks = [np.sum(np.abs(z[rows] @ others.T) ** POWER, axis=1) for rows in row_chunks(len(z), CHUNK_ROWS)]
    return np.concatenate(chunks).astype(np.float64)


def _nearest_distinct(x: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """Return for each centroid in turn its nearest row that is not taken yet."""
    half_square = 0.5 * np.sum(x * x, axis=1, dtype=np.float64)
    taken = np.zeros(len(x), dtype=bool)
    rows = np.empty(len(centroids), dtype=np.intp)
    for block in row_chunks(len(centroids), 16):
        distance = half_square - centroids[block].astype(x.dtype) @ x.T
        for j, d in enumerate(distance, start=block.start):
            rows[j] = np.argmin(np.where(taken, np.inf, d))
            taken[rows[j]] = True
    return rows


BY_VECTORS = {"uniform": uniform, "farthest_point": farthest_point, "kmeans": kmeans}
BY_COLUMN = ("stratified", "most_frequent")
STRATEGIES = (*BY_VECTORS, *BY_COLUMN)


@dataclass(frozen=True)
class WrittenAnchors(Result):
    """Anchors that were written to ``out``: their number, ``of`` how many rows, ``among`` how many they were chosen."""

    out: str
    anchors: int
    of: int
    among: int
    strategy: str
    seed: int

    def __str__(self) -> str:
        sample = "" if self.among == self.of else f" among a random sample of {self.among:,}"
        return f"Wrote {self.anchors:,} of {self.of:,} rows, chosen by {self.strategy}{sample}, to {self.out}."


def write_anchors(
    space: Space,
    path: AnyPath,
    k: int,
    strategy: str = "kmeans",
    *,
    column: str | None = None,
    seed: int = 0,
    overwrite: bool = False,
) -> WrittenAnchors:
    """Choose k rows by a strategy and write them as a space, whose keys serve for every space of the same items.

    "stratified" needs a ``column`` of labels, "most_frequent" one of counts. The space is read chunk by chunk: no more
    than the sample to choose from and the chosen rows are held.
    """
    from relatent.spaces.io.files import check_new, space_writer

    check_new(path, space, overwrite=overwrite)
    with doing(f"choosing {k:,} anchors by {strategy}"):
        rows = np.sort(_rows_by(strategy, space, k, column, seed))
    with space_writer(path, fingerprint=space.fingerprint, overwrite=overwrite) as out:
        for chunk in space.chunks():
            first, end = np.searchsorted(rows, (chunk.start, chunk.start + len(chunk)))
            inside = rows[first:end] - chunk.start
            if len(inside):
                out.write(replace(chunk, vectors=chunk.vectors[inside], others=chunk.others.take(inside)))
    among = _sample_size(space, k) if strategy in ("farthest_point", "kmeans") else len(space)
    return WrittenAnchors(str(path), len(rows), len(space), among, strategy, seed)


def _rows_by(strategy: str, space: Space, k: int, column: str | None, seed: int) -> np.ndarray:
    if strategy in BY_VECTORS:
        return BY_VECTORS[strategy](space, k, seed)
    if strategy not in BY_COLUMN:
        raise ValueError(f"There is no strategy {strategy!r}.{suggest(strategy, STRATEGIES)}")
    names = space.schema.names
    if column is None or column not in names:
        raise ValueError(f"{strategy} needs a column of the space and {column!r} is none.{suggest(column, names)}")
    values = np.concatenate([chunk.others.column(column).to_numpy() for chunk in space.chunks()])
    return stratified(values, k, seed) if strategy == "stratified" else most_frequent(values, k)


def __dir__() -> list[str]:
    return __all__
