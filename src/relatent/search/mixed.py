"""Half-migrated collections: rows of two spaces under one name, searched as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._array import Array, as_matrix, as_parallel, check_count, suggest, to_numpy
from relatent._linalg import unit_norm
from relatent.evaluate.neighbors import Neighbors, nearest
from relatent.monitor.origin import tell_apart

if TYPE_CHECKING:
    from relatent.translate.translator import Translator

# Of the anchors, the share nearest to a query that its scores are measured against.
TAIL = 0.1
MIN_ANCHORS = 50
# The constant of reciprocal rank fusion, as in its paper.
RANK_CONSTANT = 60


class MixedIndex:
    r"""Search a collection of which one part is still in the old space and the other in the new one.

    Queries are of the new space. The new part is searched with them as they are, the old part with their translation.
    Scores of the two searches cannot be compared: a cosine of .6 may be a chance hit in one space and a near duplicate
    in the other. Three ways to put the two ranked lists together:

    ===================  =======================================================================================
    ``calibrated``       :math:`(s - \mu_q) / \sigma_q` by the mean and standard deviation of the scores of the
                         tenth of the anchors that is nearest to the query. The anchors are the same items in both
                         spaces, so that both parts are on one scale
    ``share``            the rank within the part over the size of the part; needs no anchors
    ``rank``             reciprocal rank fusion, :math:`1 / (60 + \text{rank})`; needs no anchors, and knows nothing
                         of how large the parts are
    ===================  =======================================================================================

    With one part only, each of them is the plain search of that part.

    Parameters
    ----------
    old, new : vectors of the two parts, which may differ in dimension
    translator : a translator from the new space into the old one, for queries; goal "retrieval"
    anchors : vectors of the same items in the old and in the new space, such as the translator was fitted on
    rows : which rows of the collection the two parts are; by default those of the old part come first
    metric : what vectors of the new space are compared by: cosine or inner

    References: Cormack et al., SIGIR 2009 (reciprocal rank fusion); Auckenthaler et al., Digital Signal Processing 2000
    (scores normalized per query by a cohort).

    >>> from relatent import Translator
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=(300, 4)); x = y @ rng.normal(size=(4, 4))
    >>> t = Translator(goal="retrieval", frozen_target=True).fit(y[:100], x[:100])
    >>> index = MixedIndex(x[100:200], y[200:], t, anchors=(x[:100], y[:100]), rows=(range(100, 200), range(200, 300)))
    >>> index.search(y[[150, 250]], k=1).indices.tolist()
    [[150], [250]]
    """

    def __init__(
        self,
        old: Array,
        new: Array,
        translator: Translator,
        anchors: tuple[Array, Array],
        *,
        rows: tuple[Any, Any] | None = None,
        metric: str = "cosine",
    ) -> None:
        self.old, self.new = to_numpy(old), to_numpy(new)
        self.translator, self.metric = translator, metric
        before, after = as_parallel(x=anchors[0], y=anchors[1])
        self._anchors = to_numpy(before), to_numpy(after)
        if len(before) < MIN_ANCHORS:
            raise ValueError(f"There are {len(before)} anchors: expected at least {MIN_ANCHORS} to calibrate by.")
        in_order = np.split(np.arange(len(self.old) + len(self.new)), [len(self.old)])
        self.rows = tuple(np.asarray(part, dtype=np.intp) for part in (in_order if rows is None else rows))
        for name, part, where in zip(("old", "new"), (self.old, self.new), self.rows, strict=True):
            if len(part) != len(where):
                raise ValueError(
                    f"The {name} part has {len(part)} vectors and {len(where)} rows: expected one row per vector."
                )

    @classmethod
    def of_collection(
        cls, vectors: Array, translator: Translator, anchors: tuple[Array, Array], *, metric: str = "cosine"
    ) -> MixedIndex:
        """Tell the rows of a collection apart by the anchors (:func:`relatent.monitor.tell_apart`), and index it."""
        matrix = to_numpy(as_matrix(vectors, "vectors"))
        is_new = tell_apart(matrix, *anchors).is_new
        rows = np.flatnonzero(~is_new), np.flatnonzero(is_new)
        return cls(matrix[rows[0]], matrix[rows[1]], translator, anchors, rows=rows, metric=metric)

    def search(self, queries: Array, k: int = 10, *, merge: str = "calibrated") -> Neighbors:
        """Return the k nearest rows of the collection for every query of the new space, nearest first."""
        if merge not in MERGES:
            raise ValueError(f"There is no merge {merge!r}.{suggest(merge, MERGES)}")
        q = to_numpy(as_matrix(queries, "queries"))
        k = check_count(k, len(self.old) + len(self.new), "neighbors")
        parts = [self._part(side, q, k, MERGES[merge]) for side in ("old", "new")]
        indices, scores = (np.concatenate(both, axis=1) for both in zip(*parts, strict=True))
        order = np.lexsort((indices, -scores), axis=1)[:, :k]
        return Neighbors(np.take_along_axis(indices, order, axis=1), np.take_along_axis(scores, order, axis=1))

    def _part(self, side: str, queries: np.ndarray, k: int, score: _Merge) -> tuple[np.ndarray, np.ndarray]:
        """Search one part in its own space, and score what is found."""
        (part, cohort), rows = self._gallery(side), self.rows[side == "new"]
        if not len(part):
            return np.empty((len(queries), 0), np.intp), np.empty((len(queries), 0))
        asked, metric = self._asked(side, queries)
        found = nearest(asked, part, min(k, len(part)), metric)
        return rows[found.indices], score(found.similarities, len(part), asked, cohort, metric)

    def _gallery(self, side: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of a part and those of the anchors, as they are compared."""
        if side == "new":
            return self.new, self._anchors[1]
        cohort = to_numpy(self.translator.transform_target(self._anchors[0]))
        return (to_numpy(self.translator.transform_target(self.old)) if len(self.old) else self.old), cohort

    def _asked(self, side: str, queries: np.ndarray) -> tuple[np.ndarray, str]:
        if side == "new":
            return queries, self.metric
        return to_numpy(self.translator.transform(queries)), self.translator.metric_


_Merge = Callable[[np.ndarray, int, np.ndarray, np.ndarray, str], np.ndarray]


def _calibrated(found: np.ndarray, _rows: int, queries: np.ndarray, cohort: np.ndarray, metric: str) -> np.ndarray:
    """Measure scores by those of the anchors that are nearest to the query."""
    if metric == "cosine":
        queries, cohort = unit_norm(queries), unit_norm(cohort)
    scores = queries @ cohort.T
    tail = max(2, int(TAIL * len(cohort)))
    best = np.partition(scores, -tail, axis=1)[:, -tail:]
    spread = np.maximum(best.std(axis=1, keepdims=True), np.finfo(best.dtype).tiny)
    return np.asarray((found - best.mean(axis=1, keepdims=True)) / spread)


def _share(found: np.ndarray, rows: int, *_: Any) -> np.ndarray:
    return np.broadcast_to(-(np.arange(found.shape[1]) + 0.5) / rows, found.shape)


def _reciprocal_rank(found: np.ndarray, *_: Any) -> np.ndarray:
    return np.broadcast_to(1 / (RANK_CONSTANT + 1 + np.arange(found.shape[1])), found.shape)


MERGES: dict[str, _Merge] = {"calibrated": _calibrated, "share": _share, "rank": _reciprocal_rank}
