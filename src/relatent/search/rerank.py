"""Retrieve candidates from an old index of any kind, and rerank them by a new model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._array import is_space
from relatent._linalg import unit_norm
from relatent.decide.options import CANDIDATES
from relatent.evaluate.neighbors import nearest
from relatent.translate.quality import DEPTH

if TYPE_CHECKING:
    from relatent.spaces.space import Space
    from relatent.translate import Translator

Lookup = Callable[[np.ndarray, int], list[list[Any]]]
"""A function of queries (n, d) and k that returns the keys of each query's nearest items, nearest first."""


def as_lookup(index: Any) -> Lookup:
    """Return a search function for an index of any kind.

    >>> as_lookup(np.eye(3))(np.asarray([[0.0, 2.0, 0.1]]), 2)
    [[1, 2]]
    """
    if is_space(index):
        return lambda queries, k: _nearest_keys(index.vectors, index.keys, queries, k)
    if isinstance(index, np.ndarray):
        return lambda queries, k: _nearest_keys(index, np.arange(len(index)), queries, k)
    if hasattr(index, "ntotal") and hasattr(index, "search"):
        return lambda queries, k: _faiss_ids(index, queries, k)
    if hasattr(index, "served") and hasattr(index, "search"):
        return lambda queries, k: index.search(queries, k).keys
    if callable(index):
        return lambda queries, k: [list(keys) for keys in index(queries, k)]
    raise ValueError(
        f"A {type(index).__name__} was given to search in: expected an array, a Space, a FAISS index, a store "
        "(relatent.stores.open_store) or a function of (vectors, k)."
    )


def _nearest_keys(vectors: np.ndarray, keys: np.ndarray, queries: np.ndarray, k: int) -> list[list[Any]]:
    rows = nearest(queries.astype(vectors.dtype, copy=False), vectors, min(k, len(vectors))).indices
    found: list[list[Any]] = keys[rows].tolist()
    return found


def _faiss_ids(index: Any, queries: np.ndarray, k: int) -> list[list[Any]]:
    """Search a FAISS index as it is; it pads with −1 where it found fewer."""
    _, ids = index.search(np.ascontiguousarray(queries, dtype=np.float32), min(k, index.ntotal))
    return [[int(i) for i in row if i >= 0] for row in ids]


def _size(index: Any) -> int | None:
    """Return the number of items where the index tells it."""
    return int(index.ntotal) if hasattr(index, "ntotal") else len(index) if hasattr(index, "__len__") else None


Embed = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class RerankResult:
    """The keys of each query, the best first, and their cosines under the new model.

    ``embedded`` is how many items had to be embedded for it; the others were in the cache.
    """

    keys: list[list[Any]]
    scores: list[np.ndarray]
    embedded: int


@dataclass
class Reranker:
    """Retrieve from an old index with queries of a new model, and rerank by the new model.

    The translator maps queries of the new model into the space of the index (``Translator("retrieval",
    frozen_target=True).fit(new, old)``). The index, which is not changed, gives ``candidates``; ``embed`` takes their
    keys and returns the new model's vectors of these items; the cosine to them decides. What was embedded once stays
    in a cache, which grows into the vectors of a new index, the most retrieved items first.

    ``index`` is an array or a Space in memory (keys or row numbers), a FAISS index (its ids), a store, or any function
    of (vectors, k) that returns keys.

    With ``recall``, a query takes only as many of the candidates as find its own item with this probability, by the
    translator's confidence (:meth:`relatent.Translator.confidence`) among ``items``, the size of the index where it
    cannot be told: fewer items are embedded for queries that translate well.

    What breaks it: an item that the translated search does not find among its candidates cannot be ranked.

    >>> from relatent import Translator
    >>> rng = np.random.default_rng(0)
    >>> new = rng.normal(size=(300, 6))
    >>> old = new @ np.linalg.qr(rng.normal(size=(6, 6)))[0] + 0.3 * rng.normal(size=(300, 6))
    >>> t = Translator("retrieval", frozen_target=True).fit(new[:200], old[:200])
    >>> reranker = Reranker(t, old, embed=lambda keys: new[keys], candidates=20)
    >>> reranker.search(new[250:], k=1).keys[0]
    [250]
    >>> len(reranker.cache) < 300
    True
    """

    translator: Translator
    index: Any
    embed: Embed
    candidates: int = CANDIDATES
    cache: dict[Any, np.ndarray] = field(default_factory=dict)
    asked: Counter[Any] = field(default_factory=Counter)
    """How often each item was among the candidates."""
    recall: float | None = None
    items: int | None = None

    def __post_init__(self) -> None:
        """Refuse a translator whose queries the index does not understand."""
        if self.translator.target_map_ is not None:
            raise ValueError(
                "This translator maps queries and documents into a shared space, and the index holds the documents as "
                'they were: fit it with Translator("retrieval", frozen_target=True), or translate the index first.'
            )
        if self.candidates < 1:
            raise ValueError(f"{self.candidates} candidates were asked for: expected at least 1.")
        if self.recall is not None and not 0 < self.recall < 1:
            raise ValueError(f"recall is {self.recall}: expected a probability between 0 and 1, such as 0.95.")
        self._lookup: Lookup = as_lookup(self.index)

    def search(self, queries: Any, k: int = 10) -> RerankResult:
        """Return the k best items for each query, which is a vector of the new model."""
        if not 1 <= k <= self.candidates:
            raise ValueError(
                f"{k} items were asked for of {self.candidates} candidates: expected from 1 to {self.candidates}."
            )
        asked = np.atleast_2d(np.asarray(queries))
        found = self._lookup(np.asarray(self.translator.transform(asked)), self.candidates)
        if self.recall is not None:
            found = [keys[:n] for keys, n in zip(found, self.depths(asked, k), strict=True)]
        embedded = self._fill([key for keys in found for key in keys])
        self.asked.update(key for keys in found for key in keys)
        ranked = [self._ranked(query, keys, k) for query, keys in zip(unit_norm(asked), found, strict=True)]
        return RerankResult([keys for keys, _ in ranked], [scores for _, scores in ranked], embedded)

    def depths(self, queries: np.ndarray, k: int = 10) -> list[int]:
        """Return how many candidates each query takes: k, doubled until ``recall`` is reached, at most all.

        The rank of an item grows with the number of items, so the first n of N are as the first ten of 10 N / n.
        """
        size = self.items or _size(self.index) or self.translator.n_pairs_
        taken = np.full(len(queries), self.candidates)
        steps = [k * 2**i for i in range(self.candidates.bit_length()) if k * 2**i < self.candidates]
        for n in reversed(steps):
            sure = self.translator.confidence(queries, items=max(1, DEPTH * size // n)) >= (self.recall or 1.0)
            taken[sure] = n
        return [int(n) for n in taken]

    def backfilled(self) -> Space:
        """Return the new vectors of everything embedded so far, with their keys: the beginning of a new index."""
        if not self.cache:
            raise ValueError("Nothing was embedded yet: search first.")
        import pyarrow as pa

        from relatent.spaces.space import Space

        return Space(np.stack(list(self.cache.values())), keys=pa.array(list(self.cache)))

    def remember(self, known: Space) -> None:
        """Take new vectors of items that were embedded elsewhere, or in an earlier run, into the cache."""
        self.cache.update(zip(known.keys.tolist(), np.asarray(known.vectors), strict=True))

    def _fill(self, keys: list[Any]) -> int:
        """Embed what is not in the cache, each item once."""
        missing = [key for key in dict.fromkeys(keys) if key not in self.cache]
        if missing:
            vectors = np.asarray(self.embed(missing))
            if vectors.ndim != 2 or len(vectors) != len(missing):
                raise ValueError(
                    f"embed returned an array of shape {vectors.shape} for {len(missing)} keys: expected one vector "
                    "per key, in their order."
                )
            self.cache.update(zip(missing, vectors, strict=True))
        return len(missing)

    def _ranked(self, query: np.ndarray, keys: list[Any], k: int) -> tuple[list[Any], np.ndarray]:
        if not keys:
            return [], np.empty(0)
        scores = unit_norm(np.stack([self.cache[key] for key in keys])) @ query
        best = np.argsort(-scores, kind="stable")[:k]
        return [keys[i] for i in best], np.asarray(scores[best])
