"""What a verdict searches: which of the rows of two spaces are items, which ask, and what each should find."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent.decide.gallery import ServedIndex
from relatent.decide.held_out import MAX_ROWS, HeldOut, least_unlike, near_copies
from relatent.decide.relevance import Relevance
from relatent.evaluate.retrieval import Judgments
from relatent.spaces.join import Matched, match_keys
from relatent.spaces.keys import key_hashes
from relatent.spaces.sample import sample_rows
from relatent.spaces.space import Space
from relatent.translate import Translator
from relatent.translate.joined import unseen_rows

# Fitted rows that copies are searched among: with 10,000 held-out rows this takes as long as a search.
MAX_FITTED = 20_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Some of the rows that two spaces have in common, in the order of the first."""

    source: Space
    target: Space
    matched: Matched
    rows: np.ndarray

    @classmethod
    def of(cls, source: Space, target: Space) -> Rows:
        """Join two spaces and take all rows in common."""
        matched = match_keys(source, target)
        return cls(source, target, matched, np.arange(len(matched)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def keys(self) -> np.ndarray:
        """The keys of these rows."""
        return np.asarray(self.matched.keys[self.rows])

    @property
    def hashes(self) -> np.ndarray:
        """The hashes of their keys."""
        return key_hashes(self.keys)

    def at(self, places: np.ndarray) -> Rows:
        """Return the rows at some places among these."""
        return replace(self, rows=self.rows[places])

    def in_source(self) -> np.ndarray:
        """Read the vectors in the source."""
        return self.source.take(self.matched.x_rows[self.rows])

    def in_target(self) -> np.ndarray:
        """Read the vectors in the target."""
        return self.target.take(self.matched.y_rows[self.rows])

    def labels(self, name: str) -> np.ndarray:
        """Return the value of a column of either space for each row."""
        for space, places in ((self.source, self.matched.x_rows), (self.target, self.matched.y_rows)):
            if name in space.others.column_names:
                values = space.others.column(name).take(pa.array(places[self.rows]))
                return np.asarray([str(value) for value in values.to_pylist()])
        every = dict.fromkeys([*self.source.others.column_names, *self.target.others.column_names])
        raise ValueError(f"There is no column {name!r} to slice by.{suggest(name, every)}")


@dataclass(frozen=True, eq=False)
class SearchTask:
    """Which rows are searched among, and which ask: those at the places ``asks`` of the rows that could.

    ``are_items`` tells whether queries are items too. ``relevant`` gives for each query the places among the items
    that should be found, with grades, and ``judged`` is where they come from; None where nothing was judged.
    """

    items: Rows
    asking: Rows
    asks: np.ndarray
    are_items: bool
    relevant: list[dict[int, float]] | None = None
    judged: Relevance | None = None

    @property
    def queries(self) -> Rows:
        """The rows that ask."""
        return self.asking.at(self.asks)

    @property
    def own(self) -> np.ndarray | None:
        """The place of each query among the items; None where queries are no items."""
        return np.searchsorted(self.items.rows, self.queries.rows) if self.are_items else None

    def item_rows(self, space: Space) -> np.ndarray:
        """Return the rows of a space that are items, and do not only ask."""
        if self.judged is None or self.are_items or self.asking.source is not self.items.source:
            return np.arange(len(space))
        return np.flatnonzero(~np.isin(key_hashes(space.keys), key_hashes(self.judged.queries)))

    def served(self, space: Space, rows: int) -> ServedIndex | None:
        """Return the index that will be served, of a number of rows, with what is relevant among those of a space.

        None where it is no larger than what is searched here, and where nothing was judged.
        """
        if self.judged is None or self.relevant is None or rows <= len(self.items):
            return None
        found = _by_query(self.judged, key_hashes(space.keys), self.asking.hashes, self.are_items)
        whole = Judgments.of([found[int(query)] for query in self.asks], len(self.asks), len(space))
        share = sum(map(len, self.relevant)) / sum(map(len, found.values()))
        return ServedIndex(rows, len(self.items), whole, share)


def search_task(
    translator: Translator,
    common: Rows,
    queries: tuple[Space, Space] | None,
    relevant: Relevance | None,
    migrated: np.ndarray | None,
    max_rows: int,
    seed: int,
) -> tuple[SearchTask, HeldOut]:
    """Return what to search, of the rows that the translator was not fitted on and that are no copies of these."""
    apart = None if queries is None else Rows.of(*queries)
    named = () if relevant is None else [*(relevant.queries if apart is None else ()), *relevant.items]
    unseen = replace(common, rows=unseen_rows(translator, common.matched, max_rows, named))
    fitted = common.at(np.flatnonzero(np.isin(common.hashes, translator.seen_keys_)))
    fitted = fitted.at(sample_rows(len(fitted), MAX_FITTED, seed))
    asking = unseen if apart is None else apart
    are_items = apart is None and (
        relevant is None or bool(np.isin(key_hashes(relevant.queries), key_hashes(relevant.items)).any())
    )
    if not are_items and apart is None and relevant is not None:
        unseen = unseen.at(np.flatnonzero(~np.isin(unseen.hashes, key_hashes(relevant.queries))))
    copies = _copies(unseen, fitted)
    items = unseen.at(np.flatnonzero(~copies))
    if relevant is None:
        task = SearchTask(items, items, np.arange(len(items)), are_items=True)
        if apart is not None:
            task = SearchTask(items, apart, np.arange(len(apart)), are_items=False)
    else:
        task = _judged_task(relevant, items, items if are_items else asking, are_items)
    if migrated is None:
        migrated = common.source.take(sample_rows(task.item_rows(common.source), MAX_ROWS, seed))
    unlike = _unlike(migrated, task, fitted, seed)
    return task, HeldOut(bool(len(translator.seen_keys_)), len(fitted), int(np.sum(copies)), unlike)


def _judged_task(relevant: Relevance, items: Rows, asking: Rows, are_items: bool) -> SearchTask:
    found = _by_query(relevant, items.hashes, asking.hashes, are_items)
    if not found:
        raise ValueError(
            f"None of {relevant.name} has both keys among the {len(items)} that are held out: check the keys, and "
            "hold more out."
        )
    return SearchTask(items, asking, np.asarray(list(found)), are_items, list(found.values()), relevant)


def _by_query(
    relevant: Relevance, items: np.ndarray, asking: np.ndarray, are_items: bool
) -> dict[int, dict[int, float]]:
    """Return the relevant items with their grades by query, as rows of these hashes; an item is not its own answer."""
    found: dict[int, dict[int, float]] = {}
    for query, item, grade in relevant.rows(items, asking):
        if not (are_items and asking[query] == items[item]):
            found.setdefault(query, {})[item] = grade
    return found


def _copies(unseen: Rows, fitted: Rows) -> np.ndarray:
    """Return which rows are near-copies of fitted ones in both spaces; the target is read where the source has some."""
    copies = near_copies(unseen.in_source(), fitted.in_source())
    suspects = np.flatnonzero(copies)
    if len(suspects):
        copies[suspects] = near_copies(unseen.at(suspects).in_target(), fitted.in_target())
    return copies


def _unlike(migrated: np.ndarray, task: SearchTask, fitted: Rows, seed: int) -> float | None:
    """Return the share of the rows to migrate that resemble neither the fitted items nor the relevant ones."""
    found = task.items
    if task.relevant is not None:
        found = found.at(np.unique([place for places in task.relevant for place in places]))
    known = [part.at(sample_rows(len(part), MAX_ROWS, seed)).in_source() for part in (fitted, found)]
    return least_unlike(migrated, *known, seed=seed)
