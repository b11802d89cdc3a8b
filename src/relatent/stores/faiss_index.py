"""FAISS indexes as rows: their ids, vectors and keys, and a new index of the kind of another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._errors import StoreError, needs
from relatent._files import atomic_write
from relatent.spaces.io.columns import KEY_NAMES
from relatent.spaces.io.formats.npy import ids_beside, read_ids
from relatent.stores.address import Address
from relatent.stores.base import Effort, Shard
from relatent.stores.fields import Field, Metric, key_column

# Vectors per list that IVF is trained on: what FAISS asks for at least, with some to spare.
TRAINED_PER_LIST = 64
# In place of a hash, where the ids are the keys.
NO_KEYS = "ids"


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
    """Write an index file, atomically."""
    with atomic_write(path) as tmp:
        faiss().write_index(index, str(tmp))


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
        inside = self._inside[rows]
        try:
            if isinstance(self._inner, faiss().IndexFlatCodes) and len(inside) and (np.diff(inside) == 1).all():
                return np.asarray(self._inner.reconstruct_n(int(inside[0]), len(inside)))  # one copy
            return np.asarray(self._inner.reconstruct_batch(inside))
        except RuntimeError as error:
            raise StoreError(
                f"{self._name} is {type(self._inner).__name__}, which cannot give its vectors back "
                f"({_reason(error)}): use the vectors that it was built from."
            ) from error

    def take_ids(self, ids: np.ndarray) -> np.ndarray:
        """Reconstruct the vectors of some ids, which must be there."""
        order = np.argsort(self.ids)
        return self.take(order[np.searchsorted(self.ids, ids, sorter=order)])

    @property
    def is_exact(self) -> bool:
        """Whether a search of the index itself is exact."""
        return isinstance(self._inner, faiss().IndexFlat)

    @property
    def effort(self) -> Effort | None:
        """The setting of HNSW and IVF; a flat index has none."""
        f, inner = faiss(), self._inner
        ivf = f.try_extract_index_ivf(inner)
        if isinstance(inner, f.IndexHNSW):
            return _effort("efSearch", inner.hnsw.efSearch, self.index.ntotal, "larger M and efConstruction")
        return None if ivf is None else _effort("nprobe", ivf.nprobe, ivf.nlist, "larger nlist")

    def search(self, queries: np.ndarray, k: int, effort: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Search the index itself; return distances and ids."""
        f, about = faiss(), None if effort is None else self.effort
        params = None
        if about is not None:
            kind = f.SearchParametersHNSW if about.setting == "efSearch" else f.SearchParametersIVF
            params = kind(**{about.setting: effort})
        distances, ids = self.index.search(queries, k, params=params)
        return distances, ids


def _effort(setting: str, value: int, maximum: int, what: str) -> Effort:
    advice = f"faiss.ParameterSpace().set_index_parameter(index, {setting!r}, {{n}}) after reading the index"
    denser = f"build the served index again with {what}: apply builds the new one like it"
    return Effort(setting, value, maximum, advice, denser)


def _ivf_ids(ivf: Any) -> np.ndarray:
    lists = ivf.invlists
    found = [faiss().rev_swig_ptr(lists.get_ids(i), lists.list_size(i)).copy() for i in range(ivf.nlist)]
    return np.concatenate(found) if found else np.empty(0, np.int64)


def metric_of(index: Any) -> Metric:
    """Return the metric of an index. FAISS has no cosine: an index of unit vectors looks like any inner product."""
    known: dict[int, Metric] = {faiss().METRIC_INNER_PRODUCT: "inner", faiss().METRIC_L2: "l2"}
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


def filled_like(index: Any, vectors: np.ndarray, ids: np.ndarray) -> Any:
    """Return an index of the same kind, parameters and training with other vectors, as far as it keeps ids with theirs.

    Where it keeps none, FAISS numbers the vectors.
    """
    f = faiss()
    made = f.clone_index(index)
    made.reset()
    ivf = f.try_extract_index_ivf(made)
    if ivf is not None:
        ivf.set_direct_map_type(f.DirectMap.NoMap)  # which reading it has set
    given = np.ascontiguousarray(vectors, np.float32)
    if ivf is not None or isinstance(made, f.IndexIDMap | f.IndexIDMap2):
        made.add_with_ids(given, ids)
    else:
        made.add(given)
    return made


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
    return int(kinds.QT_fp16 if of.dtype == "float16" else kinds.QT_8bit_uniform)


def _set_scale(index: Any, of: Field) -> None:
    """Have a scalar quantizer code as the field does, instead of finding a scale of its own.

    FAISS cuts a range into 256 cells, and a code stands for the middle of its cell. Signed codes count from the middle.
    """
    if of.scale is not None:
        lowest = -128 * of.scale if of.dtype == "int8" else of.offset
        cells = np.asarray([lowest - of.scale / 2, 255 * of.scale], np.float32)
        faiss().copy_array_to_vector(cells, index.sq.trained)
    index.is_trained = True


def _metric(of: Field) -> int:
    return int(faiss().METRIC_L2 if of.metric == "l2" else faiss().METRIC_INNER_PRODUCT)


def _reason(error: RuntimeError) -> str:
    """Return what FAISS says, without the place in its source."""
    return str(error).strip().splitlines()[0].split(": ")[-1]


@dataclass(frozen=True)
class Items:
    """The items of the served index: rows in order of their keys, and FAISS's id of each."""

    table: pa.Table
    key: str
    ids: np.ndarray
    hash: str
    """Of the keys file as it is now, since ids are rows of it; NO_KEYS where there is none."""

    @cached_property
    def keys(self) -> pa.Array:
        """The sorted keys."""
        return self.table.column(self.key).combine_chunks()

    @cached_property
    def _sortable(self) -> np.ndarray:
        return np.asarray(self.keys.to_numpy(zero_copy_only=False))

    @cached_property
    def by_id(self) -> tuple[np.ndarray, np.ndarray]:
        """The sorted ids, and the row of each."""
        rows = np.argsort(self.ids)
        return self.ids[rows], rows

    def rows_of_ids(self, ids: np.ndarray) -> np.ndarray:
        """Return the row of each id; -1 for those that are not there."""
        known, rows = self.by_id
        if not len(known):
            return np.full(len(ids), -1)
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where(known[at] == ids, rows[at], -1)

    def rows_of_keys(self, keys: pa.Array) -> np.ndarray:
        """Return the row of each key; -1 for those that are not there."""
        if pa.types.is_integer(keys.type) and len(self.keys):
            sought, known = keys.to_numpy(zero_copy_only=False), self._sortable
            at = np.minimum(np.searchsorted(known, sought), len(known) - 1)
            return np.where(known[at] == sought, at, -1)
        return np.asarray(pc.fill_null(pc.index_in(keys, value_set=self.keys), -1))

    def within(self, shard: Shard) -> tuple[int, int]:
        """Return the first row of a shard and its end."""
        keys = self._sortable
        low = 0 if shard.low is None else int(np.searchsorted(keys, shard.low))
        high = len(keys) if shard.high is None else int(np.searchsorted(keys, shard.high))
        return low, max(low, high)


def read_items(address: Address, path: Path, ids: np.ndarray) -> Items:
    """Give the ids of an index their keys: the rows of the keys file with these numbers, or the ids themselves."""
    beside = ids_beside(path)
    if beside is None:
        ids = np.sort(ids)
        return Items(pa.table({"key": ids}), "key", ids, NO_KEYS)
    table = read_ids(beside)
    if len(ids) and ids.max() >= len(table):
        raise StoreError(
            f"{beside} has {len(table):,} rows and {address} has the id {ids.max():,}: expected a row for each id, "
            "from 0 on. Write the keys again."
        )
    key = next((name for name in KEY_NAMES if name in table.column_names), table.column_names[0])
    table = table.set_column(table.column_names.index(key), key, key_column(table.column(key))).take(pa.array(ids))
    order = pc.sort_indices(table.column(key))
    with beside.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Items(table.take(order), key, ids[order.to_numpy()], digest)
