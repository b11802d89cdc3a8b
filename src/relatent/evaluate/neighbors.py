"""Nearest neighbors: one blocked search for every metric, in memory that does not grow with the spaces.

A block of queries is multiplied by a block of the gallery; only the k best scores per query are kept. For every metric
the score of a pair is an inner product plus a number per gallery row, so that one loop serves them all.
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
# A block of scores is QUERY_ROWS × GALLERY_ROWS: 64 MiB in float32, large enough to keep the matrix product busy.
QUERY_ROWS = 512
GALLERY_ROWS = 2**15
# Neighbors that CSLS averages over to measure the density around a vector.
CSLS_NEIGHBORS = 10
# Pairs beyond which an exact search takes minutes; then an approximate one is used where FAISS is installed.
EXACT_PAIRS = 5 * 10**10
# Columns that share one maximum while the best are selected.
GROUP = 32


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
    x: Array, gallery: Array, metric: str, bias: np.ndarray | None = None
) -> Iterator[tuple[slice, slice, Array]]:
    """Return the scores of every query against every gallery row, in blocks: rows of x, of the gallery, their scores.

    Within a query scores rank as similarities do. ``bias`` is added per gallery row. A block is valid until the next.
    """
    prepare = _preparation(metric, gallery)
    buffer = _buffer(x, gallery)
    for columns in row_chunks(gallery.shape[0], GALLERY_ROWS):
        rows_of_gallery = prepare(gallery[columns])
        added = _added(rows_of_gallery, metric, None if bias is None else bias[columns])
        for rows in row_chunks(x.shape[0], QUERY_ROWS):
            scores = _product(prepare(x[rows]), rows_of_gallery, buffer)
            if added is not None:
                scores += added
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
    scores = np.full((x.shape[0], k), -np.inf, dtype=to_numpy(x[:1]).dtype)
    indices = np.full((x.shape[0], k), -1, dtype=np.int64)
    for rows, columns, block in score_blocks(x, gallery, metric, bias):
        fresh, where = _best(block, min(k, block.shape[1]))
        scores[rows], indices[rows] = _merge((scores[rows], indices[rows]), (fresh, where + columns.start), k)
    if metric == "euclidean":
        return _by_distance(x, gallery, indices)
    return Neighbors(indices, scores)


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


def _buffer(x: Array, gallery: Array) -> np.ndarray | None:
    """Return room for the largest block, because fresh memory of this size costs as much as a pass over it."""
    if not isinstance(x, np.ndarray):
        return None
    return np.empty(min(QUERY_ROWS, x.shape[0]) * min(GALLERY_ROWS, gallery.shape[0]), dtype=x.dtype)


def _product(x: Array, gallery: Array, buffer: np.ndarray | None) -> Array:
    if buffer is None:
        return x @ gallery.T
    shape = x.shape[0], gallery.shape[0]
    return np.matmul(x, gallery.T, out=buffer[: shape[0] * shape[1]].reshape(shape))


def _best(block: Array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k largest of every row and their columns, in no order."""
    if not isinstance(block, np.ndarray):
        top = block.topk(k, dim=1, sorted=False)
        return to_numpy(top.values), to_numpy(top.indices)
    width = block.shape[1] // GROUP
    if width <= 2 * k:
        return _partition(block, k)
    # Columns c, c + width, c + 2·width, … share a maximum. The k best columns lie in the k groups of best maximum.
    grouped = block[:, : GROUP * width]
    maxima = np.max(grouped.reshape(len(block), GROUP, width), axis=1)
    _, groups = _partition(maxima, k)
    inside = (groups[:, :, None] + width * np.arange(GROUP)).reshape(len(block), -1)
    rest = np.arange(GROUP * width, block.shape[1])
    candidates = np.concatenate([inside, np.broadcast_to(rest, (len(block), len(rest)))], axis=1)
    values, chosen = _partition(np.take_along_axis(block, candidates, axis=1), k)
    return values, np.take_along_axis(candidates, chosen, axis=1)


def _partition(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    chosen = np.argpartition(values, values.shape[1] - k, axis=1)[:, values.shape[1] - k :]
    return np.take_along_axis(values, chosen, axis=1), chosen


def _merge(
    kept: tuple[np.ndarray, np.ndarray], fresh: tuple[np.ndarray, np.ndarray], k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Order the best so far and the best of a block together, and keep k."""
    values = np.concatenate([kept[0], fresh[0]], axis=1)
    indices = np.concatenate([kept[1], fresh[1]], axis=1)
    order = np.lexsort((indices, -values), axis=1)[:, :k]
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(indices, order, axis=1)


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
