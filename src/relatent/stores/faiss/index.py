"""FAISS indexes as rows: their ids, their vectors, and a new index of the kind of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from relatent._errors import needs
from relatent._files import atomic_write
from relatent._linalg import unit_norm
from relatent.stores.address import StoreError
from relatent.stores.store import Field

# Vectors per list that IVF is trained on: what FAISS asks for at least, with some to spare.
TRAINED_PER_LIST = 64


def faiss() -> Any:
    """Import FAISS at use."""
    return needs("faiss", "faiss", "read and write FAISS indexes")


def read_index(path: Path) -> Any:
    """Read an index file."""
    try:
        return faiss().read_index(str(path))
    except RuntimeError as error:
        raise StoreError(f"{path} is no FAISS index that can be read ({_reason(error)}): get a new copy.") from error


def write_index(index: Any, path: Path) -> None:
    """Write an index file, whole or not at all."""
    with atomic_write(path) as aside:
        faiss().write_index(index, str(aside))


class IndexRows:
    """The vectors of an index, and the id of each."""

    def __init__(self, index: Any, name: str) -> None:
        f = faiss()
        self.index, self._name = index, name
        mapped = isinstance(index, f.IndexIDMap | f.IndexIDMap2)
        self._inner = f.downcast_index(index.index) if mapped else index
        ivf = f.try_extract_index_ivf(self._inner)
        if ivf is not None:
            ivf.set_direct_map_type(f.DirectMap.Hashtable)
        inside = np.arange(index.ntotal) if ivf is None else np.sort(_ivf_ids(ivf))
        self._inside = inside.astype(np.int64)
        self.ids = f.vector_to_array(index.id_map) if mapped else self._inside

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Reconstruct the vectors of some rows."""
        try:
            vectors: np.ndarray = self._inner.reconstruct_batch(self._inside[rows])
        except RuntimeError as error:
            raise StoreError(
                f"{self._name} is {type(self._inner).__name__}, which cannot give its vectors back "
                f"({_reason(error)}): use the vectors that it was built from."
            ) from error
        return vectors

    @property
    def is_exact(self) -> bool:
        """Whether a search of the index itself is exact."""
        return isinstance(self._inner, faiss().IndexFlat)


def _ivf_ids(ivf: Any) -> np.ndarray:
    lists = ivf.invlists
    found = [faiss().rev_swig_ptr(lists.get_ids(i), lists.list_size(i)).copy() for i in range(ivf.nlist)]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def metric_of(index: Any) -> str:
    """Return the metric of an index. FAISS has no cosine: an index of unit vectors looks like any inner product."""
    known = {faiss().METRIC_INNER_PRODUCT: "inner", faiss().METRIC_L2: "l2"}
    if index.metric_type not in known:
        raise StoreError(f"The metric of the index is FAISS's number {index.metric_type}: expected inner or L2.")
    return known[index.metric_type]


def flat(of: Field) -> Any:
    """Return an empty index that holds every vector as its field does, and compares with all of them."""
    f = faiss()
    if of.dtype == "float32":
        return f.IndexFlat(of.dim, _metric(of))
    made = f.IndexScalarQuantizer(of.dim, _stored_as(of), _metric(of))
    _set_scale(made, of)
    return made


def empty_like(index: Any, of: Field, sample: np.ndarray) -> Any:
    """Return an empty index for a field, of the kind of another: HNSW and IVF as they are, all others flat."""
    f = faiss()
    inner = IndexRows(index, "the index")._inner
    if isinstance(inner, f.IndexHNSW):
        return _hnsw(inner, of)
    ivf = f.try_extract_index_ivf(inner)
    if ivf is None or len(sample) < ivf.nlist:
        return flat(of)
    return _ivf(ivf, of, sample[: TRAINED_PER_LIST * ivf.nlist])


def _hnsw(like: Any, of: Field) -> Any:
    f, links = faiss(), like.hnsw.nb_neighbors(1)
    if of.dtype == "float32":
        made = f.IndexHNSWFlat(of.dim, links, _metric(of))
    else:
        made = f.IndexHNSWSQ(of.dim, _stored_as(of), links, _metric(of))
        _set_scale(f.downcast_index(made.storage), of)
        made.is_trained = True
    made.hnsw.efConstruction, made.hnsw.efSearch = like.hnsw.efConstruction, like.hnsw.efSearch
    return made


def _ivf(like: Any, of: Field, sample: np.ndarray) -> Any:
    f = faiss()
    lists = (f.IndexFlat(of.dim, _metric(of)), of.dim, like.nlist)
    if of.dtype == "float32":
        made = f.IndexIVFFlat(*lists, _metric(of))
    else:  # the vectors themselves are coded, not what they differ by from the center of their list
        made = f.IndexIVFScalarQuantizer(*lists, _stored_as(of), _metric(of), False)
    made.nprobe = like.nprobe
    made.cp.min_points_per_centroid = 1
    made.train(sample)
    if of.dtype != "float32":
        _set_scale(made, of)
    return made


def _stored_as(of: Field) -> int:
    """Return FAISS's number for how a scalar quantizer keeps vectors."""
    kinds = faiss().ScalarQuantizer
    kind: int = kinds.QT_fp16 if of.dtype == "float16" else kinds.QT_8bit_uniform
    return kind


def _set_scale(index: Any, of: Field) -> None:
    """Have a scalar quantizer code as the field does, instead of finding a scale of its own.

    FAISS cuts a range into 256 cells, and a code stands for the middle of its cell. Signed codes count from the middle.
    """
    if of.scale is not None:
        lowest = -128 * of.scale if of.dtype == "int8" else of.offset
        cells = np.asarray([lowest - of.scale / 2, 255 * of.scale], np.float32)
        faiss().copy_array_to_vector(cells, index.sq.trained)
    index.is_trained = True


def search_index(index: Any, metric: str, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ids and scores, the larger the better; -1 and minus infinity where fewer are found."""
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    scores, ids = index.search(unit_norm(queries) if metric == "cosine" else queries, k)
    if metric == "l2":
        scores = -np.sqrt(np.maximum(scores, 0))
    return ids, np.where(ids < 0, -np.inf, scores)


def _metric(of: Field) -> int:
    kind: int = faiss().METRIC_L2 if of.metric == "l2" else faiss().METRIC_INNER_PRODUCT
    return kind


def _reason(error: RuntimeError) -> str:
    """Return what FAISS says, without the place in its source."""
    return str(error).strip().splitlines()[0].split(": ")[-1]
