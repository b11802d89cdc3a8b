"""Nearest neighbors: one blocked search for every metric, in memory that does not grow with the spaces.

A block of queries is multiplied by a block of the gallery; scores above the k-th best so far are collected. For every
metric the score of a pair is an inner product plus a number per gallery row, so that one loop serves them all. Where a
space is searched in itself, half of the products suffice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import array_api_compat as compat
import numpy as np

from relatent._array import Array, array_namespace, as_same_space, check_count, row_chunks, suggest, to_numpy
from relatent._linalg import unit_norm

METRICS = ("cosine", "inner", "euclidean", "csls")
METHODS = ("auto", "exact", "approximate")
# A block of scores is QUERY_ROWS square, 9 MiB in float32, or as large for fewer queries: it stays in the cache until
# it is compared, and keeps the matrix product busy. GALLERY_ROWS are normalized at a time, and in other libraries than
# NumPy multiplied at once.
QUERY_ROWS = 1_536
GALLERY_ROWS = 2**15
# Neighbors that CSLS averages over to measure the density around a vector.
CSLS_NEIGHBORS = 10
# Pairs beyond which an exact search takes minutes; then an approximate one is used where FAISS is installed.
EXACT_PAIRS = 5 * 10**10
# Groups of columns per neighbor asked for: the k-th largest of their maxima is the first threshold.
GROUPS = 8
# Scores per neighbor asked for that are collected, on average, before the threshold rises.
COLLECTED = 2

# Chooses a block of scores by its rows of queries and of the gallery.
Wanted = Callable[[slice, slice], bool]


@dataclass(frozen=True)
class Neighbors:
    """The k nearest rows of a gallery for every query, nearest first.

    ``indices`` (n, k) are row numbers of the gallery; ``similarities`` (n, k) fall along each row: the cosine, the
    inner product, the negative distance, or the CSLS score.
    """

    indices: np.ndarray
    similarities: np.ndarray


def nearest(
    x: Array, gallery: Array, k: int = 10, metric: str = "cosine", *, exclude_self: bool = False, method: str = "auto"
) -> Neighbors:
    r"""Return the k nearest rows of the gallery for every row of x.

    ================  ==========================================================================================
    ``cosine``        :math:`\hat x \cdot \hat y`
    ``inner``         :math:`x \cdot y`
    ``euclidean``     :math:`-\lVert x - y \rVert`
    ``csls``          :math:`2\cos(x, y) - r_Y(x) - r_X(y)`, where r is the mean cosine to the 10 nearest rows of
                      the other side: a gallery row that is near to everything (a hub) loses its advantage
    ================  ==========================================================================================

    A query that is itself in the gallery finds itself; ``exclude_self`` (row i of x *is* row i of the gallery) leaves
    it out. Equal similarities are ordered by row number; which of several ties takes the k-th place is not defined.
    ``method="auto"`` is exact up to 5·10¹⁰ pairs and beyond that approximate where FAISS is installed (the extra
    ``faiss``); "exact" and "approximate" ask for one of them. CSLS is always exact.

    References: Conneau et al., ICLR 2018 (CSLS).

    >>> nearest(np.asarray([[1.0, 0.1]]), np.asarray([[0.0, 1.0], [2.0, 0.0]]), k=1).indices.tolist()
    [[1]]
    """
    x, gallery = (_searchable(a) for a in as_same_space(x=x, gallery=gallery))
    n, m = x.shape[0], gallery.shape[0]
    if exclude_self and n != m:
        raise ValueError(f"x has {n} rows and the gallery {m}: exclude_self expects row i of both to be the same item.")
    k = check_count(k, m - exclude_self, "neighbors")
    found = _search(metric, method, n * m)(x, gallery, k + exclude_self)
    return without_own(found, np.arange(n)) if exclude_self else found


def nearest_both_ways(x: np.ndarray, y: np.ndarray, k: int, metric: str = "cosine") -> tuple[Neighbors, Neighbors]:
    """Return the k nearest rows of y for every row of x, and of x for every row of y, from one product.

    ``metric`` is "cosine" or "inner". The same as two calls of :func:`nearest`, in about half of the time.
    """
    of_x, of_y = (_best_of(a, k) for a in (x, y))
    for rows, columns, block in score_blocks(x, y, metric, width=QUERY_ROWS):
        of_x[rows.start // QUERY_ROWS].add(block, columns.start)
        of_y[columns.start // QUERY_ROWS].add(block.T, rows.start)
    return _ordered(of_x), _ordered(of_y)


def check_fewer(k: int, n: int) -> int:
    """Check that k neighbors are fewer than the n rows: of all rows, every two sets of neighbors are equal."""
    if n < 2:
        raise ValueError(f"There are {n} rows to search among: expected at least 2. Give more rows.")
    if k >= n:
        raise ValueError(
            f"{k} neighbors were asked for among {n} rows, all of which every query would find: ask for at most "
            f"{n - 1}, and for far fewer to learn something."
        )
    return check_count(k, n, "neighbors")


def score_blocks(
    x: Array,
    gallery: Array,
    metric: str,
    bias: np.ndarray | None = None,
    wanted: Wanted | None = None,
    width: int | None = None,
) -> Iterator[tuple[slice, slice, Array]]:
    """Return the scores of every query against every gallery row, in blocks: rows of x, of the gallery, their scores.

    Within a query scores rank as similarities do, and gallery rows ascend from block to block. ``bias`` is added per
    gallery row; ``wanted`` chooses blocks by their rows; ``width`` is that of a block. It is valid until the next.
    """
    prepare = _preparation(metric, gallery)
    width = width or _block_width(x)
    # Fresh memory for each block would cost as much as a pass over it.
    buffer = np.empty(min(QUERY_ROWS, len(x)) * width, dtype=x.dtype) if isinstance(x, np.ndarray) else None
    for chunk in row_chunks(gallery.shape[0], max(1, GALLERY_ROWS // width) * width):
        prepared = prepare(gallery[chunk])
        added = _added(prepared, metric, None if bias is None else bias[chunk])
        for rows in row_chunks(x.shape[0], QUERY_ROWS):
            queries = prepare(x[rows])
            for part in row_chunks(prepared.shape[0], width):
                columns = slice(chunk.start + part.start, chunk.start + part.stop)
                if wanted is None or wanted(rows, columns):
                    scores = _product(queries, prepared[part], buffer)
                    if added is not None:
                        scores += added[part]
                    yield rows, columns, scores


def _search(metric: str, method: str, pairs: int) -> Callable[[Array, Array, int], Neighbors]:
    for value, known, what in ((metric, METRICS, "metric"), (method, METHODS, "method")):
        if value not in known:
            raise ValueError(f"There is no {what} {value!r}.{suggest(value, known)}")
    if metric == "csls":
        if method == "approximate":
            raise ValueError('metric "csls" has no approximate search: use method="exact" or metric="cosine".')
        return _exact_csls
    if method == "approximate" or (method == "auto" and pairs > EXACT_PAIRS and find_spec("faiss")):
        return lambda x, gallery, k: approximate(x, gallery, k, metric)
    return lambda x, gallery, k: _exact(x, gallery, k, metric)


def _exact(x: Array, gallery: Array, k: int, metric: str, bias: np.ndarray | None = None) -> Neighbors:
    best = _best_of(x, k)
    # A product of a space with itself is symmetric: blocks above the diagonal serve those below it.
    mirrored = x is gallery and isinstance(x, np.ndarray) and metric in ("cosine", "inner") and bias is None
    for rows, columns, block in score_blocks(x, gallery, metric, bias, _is_upper if mirrored else None):
        best[rows.start // QUERY_ROWS].add(block, columns.start)
        if mirrored and rows != columns:
            best[columns.start // QUERY_ROWS].add(block.T, rows.start)
    found = _ordered(best)
    return _by_distance(x, gallery, found.indices) if metric == "euclidean" else found


def _is_upper(rows: slice, columns: slice) -> bool:
    return bool(rows.start <= columns.start)


def _exact_csls(x: Array, gallery: Array, k: int) -> Neighbors:
    found = _exact(x, gallery, k, "cosine", bias=-_density(gallery, x) / 2)
    return Neighbors(found.indices, 2 * found.similarities - _density(x, gallery)[:, None])


def _density(x: Array, gallery: Array) -> np.ndarray:
    found = _exact(x, gallery, min(CSLS_NEIGHBORS, gallery.shape[0]), "cosine")
    return np.asarray(np.mean(found.similarities, axis=1))


def _searchable(x: Array) -> Array:
    """Keep torch on its device, without its graph; bring every other library to NumPy."""
    return x.detach() if compat.is_torch_array(x) else to_numpy(x)


def _preparation(metric: str, gallery: Array) -> Callable[[Array], Array]:
    if metric in ("cosine", "csls"):
        return unit_norm
    if metric == "inner":
        return lambda rows: rows
    xp = array_namespace(gallery)
    # Squares of distances are taken apart into products: they cancel less around a nearby origin.
    origin = xp.mean(gallery[:GALLERY_ROWS], axis=0)
    return lambda rows: rows - origin


def _added(gallery: Array, metric: str, bias: np.ndarray | None) -> Array | None:
    xp = array_namespace(gallery)
    if metric == "euclidean":  # −½‖x−y‖² = x·y − ½‖y‖² − ½‖x‖², and the last is the same for all y
        return -0.5 * xp.sum(gallery * gallery, axis=1)
    return None if bias is None else xp.asarray(bias, dtype=gallery.dtype, device=compat.device(gallery))


def _block_width(x: Array) -> int:
    if not isinstance(x, np.ndarray):
        return GALLERY_ROWS
    return max(1, min(GALLERY_ROWS, QUERY_ROWS**2 // min(QUERY_ROWS, len(x))))


def _product(x: Array, gallery: Array, buffer: np.ndarray | None) -> Array:
    if buffer is None:
        return x @ gallery.T
    shape = x.shape[0], gallery.shape[0]
    return np.matmul(x, gallery.T, out=buffer[: shape[0] * shape[1]].reshape(shape))


def _best_of(x: Array, k: int) -> list[_Best]:
    dtype, blocks = to_numpy(x[:1]).dtype, row_chunks(x.shape[0], QUERY_ROWS)
    return [_Best(rows.stop - rows.start, k, dtype) for rows in blocks]


def _ordered(best: list[_Best]) -> Neighbors:
    scores, rows = (np.concatenate(parts) for parts in zip(*(queries.ordered() for queries in best), strict=True))
    return Neighbors(rows, scores)


class _Best:
    """The scores of a block of queries that may be among their k best: those above a threshold, which rises."""

    def __init__(self, n: int, k: int, dtype: Any) -> None:
        self.n, self.k = n, k
        self.threshold = np.full(n, -np.inf, dtype=dtype)
        self.collected: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, block: Array, first: int) -> None:
        """Collect scores of gallery rows from ``first`` on, which ascend from call to call."""
        query, row, values = self._above(block) if isinstance(block, np.ndarray) else self._largest(block)
        self.collected.append((query, row + first, values))
        if sum(len(part[0]) for part in self.collected) > COLLECTED * self.k * self.n:
            self._raise_threshold()

    def ordered(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best scores of each query and their rows, best first; equals in the order of the gallery."""
        self._raise_threshold()
        scores, rows = self._by_query()
        order = np.argsort(-scores, axis=1, kind="stable")[:, : self.k]
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)

    def _raise_threshold(self) -> None:
        scores, rows = self._by_query()
        kth = np.partition(scores, scores.shape[1] - self.k, axis=1)[:, scores.shape[1] - self.k]
        self.threshold = np.maximum(self.threshold, kth)
        kept = (scores >= self.threshold[:, None]) & (rows >= 0)
        if np.sum(kept) > COLLECTED * self.k * self.n:  # many equal the k-th, of which the first suffice
            above = scores > self.threshold[:, None]
            kept &= above | (np.cumsum(kept & ~above, axis=1) <= self.k)
        query, place = np.nonzero(kept)
        self.collected = [(query, rows[query, place], scores[query, place])]

    def _by_query(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what was collected, a row per query, in the order of the gallery; filled up with −∞ and −1."""
        query, row, values = (np.concatenate(parts) for parts in zip(*self.collected, strict=True))
        counts = np.bincount(query, minlength=self.n)
        order = np.argsort(query.astype(np.uint16), kind="stable")  # a radix sort
        at = query[order], np.arange(len(query)) - np.repeat(np.cumsum(counts) - counts, counts)
        scores = np.full((self.n, max(self.k, counts.max())), -np.inf, dtype=self.threshold.dtype)
        rows = np.full(scores.shape, -1, dtype=np.int64)
        scores[at], rows[at] = values[order], row[order]
        return scores, rows

    def _above(self, block: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not self.collected:
            self.threshold = _first_threshold(block, self.k)
        if block.flags.c_contiguous:
            at = np.flatnonzero(np.greater(block, self.threshold[:, None]))
            return *np.divmod(at, block.shape[1]), block.take(at)
        at = np.flatnonzero(np.greater(block.T, self.threshold))
        return *np.divmod(at, len(block))[::-1], block.T.take(at)

    def _largest(self, block: Array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        top = block.topk(min(self.k, block.shape[1]), dim=1, sorted=False)
        values, columns = to_numpy(top.values), to_numpy(top.indices)
        order = np.argsort(columns, axis=1)
        columns, values = (np.take_along_axis(a, order, axis=1).ravel() for a in (columns, values))
        return np.repeat(np.arange(self.n), order.shape[1]), columns, values


def _first_threshold(block: np.ndarray, k: int) -> np.ndarray:
    """Return a number per row just below its k-th largest maximum of a group of columns, as k columns exceed it."""
    width = min(GROUPS * k, block.shape[1])
    if width < k:
        return np.full(len(block), -np.inf, dtype=block.dtype)
    size = block.shape[1] // width
    maxima = np.max(block[:, : size * width].reshape(len(block), size, width), axis=1)
    kth = np.partition(maxima, width - k, axis=1)[:, width - k]
    return np.asarray(np.nextafter(kth, block.dtype.type(-np.inf)))


def _by_distance(x: Array, gallery: Array, indices: np.ndarray) -> Neighbors:
    """Compute the distances again, coordinate by coordinate, and order by them."""
    distance = np.empty(indices.shape, dtype=to_numpy(x[:1]).dtype)
    for rows in row_chunks(len(indices), QUERY_ROWS):
        found = gallery[_as_index(indices[rows], gallery)]
        distance[rows] = np.linalg.norm(to_numpy(x[rows])[:, None, :] - to_numpy(found), axis=2)
    order = np.lexsort((indices, distance), axis=1)
    return Neighbors(np.take_along_axis(indices, order, axis=1), -np.take_along_axis(distance, order, axis=1))


def _as_index(rows: np.ndarray, gallery: Array) -> Any:
    return rows if isinstance(gallery, np.ndarray) else array_namespace(gallery).asarray(rows, device=gallery.device)


def without_own(found: Neighbors, rows: np.ndarray) -> Neighbors:
    """Drop the own row of each query, or the last neighbor where the own row lost a tie."""
    own = found.indices == rows[:, None]
    own[:, -1] |= ~np.any(own, axis=1)
    shape = (len(own), own.shape[1] - 1)
    return Neighbors(found.indices[~own].reshape(shape), found.similarities[~own].reshape(shape))


# Training vectors per list, and the share of lists that a query visits. The tests hold the result to 0.9 of the true
# neighbors on small clustered data; nothing larger was measured.
TRAIN_PER_LIST = 64
VISITED_SHARE = 0.05
CHUNK_ROWS = 2**16


def approximate(x: Array, gallery: Array, k: int, metric: str) -> Neighbors:
    """Search an inverted file of about 4√m lists; queries whose lists hold fewer than k rows are searched exactly."""
    x, gallery = to_numpy(x), to_numpy(gallery)
    index = _index(gallery, metric)
    similarities, indices = index.search(_prepared(x, metric), k)
    # FAISS measures squared distances, which by rounding can fall below zero.
    similarities = -np.sqrt(np.maximum(similarities, 0)) if metric == "euclidean" else similarities
    short = np.flatnonzero(np.any(indices < 0, axis=1))
    if len(short):
        exact = _exact(x[short], gallery, k, metric)
        indices[short], similarities[short] = exact.indices, exact.similarities
    return Neighbors(indices, similarities.astype(x.dtype, copy=False))


def _index(gallery: np.ndarray, metric: str) -> Any:
    faiss = _faiss()
    m, d = gallery.shape
    lists = int(max(1, min(4 * m**0.5, m // TRAIN_PER_LIST)))
    kind = faiss.METRIC_L2 if metric == "euclidean" else faiss.METRIC_INNER_PRODUCT
    index = faiss.IndexIVFFlat(faiss.IndexFlat(d, kind), d, lists, kind)
    sample = np.random.default_rng(0).permutation(m)[: TRAIN_PER_LIST * lists]
    index.train(_prepared(gallery[np.sort(sample)], metric))
    for rows in row_chunks(m, CHUNK_ROWS):
        index.add(_prepared(gallery[rows], metric))
    index.nprobe = int(min(lists, max(8, round(VISITED_SHARE * lists))))
    return index


def _prepared(rows: np.ndarray, metric: str) -> np.ndarray:
    return np.ascontiguousarray(unit_norm(rows) if metric == "cosine" else rows, dtype=np.float32)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ImportError(
            "Approximate search needs FAISS: pip install 'relatent[faiss]', or use method=\"exact\"."
        ) from error
    return faiss
