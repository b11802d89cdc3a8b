"""The pairs of two spaces: joined on keys, some of them held out, summed up shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from relatent._errors import with_remedy
from relatent._terminal import Result, progress_bar, stages
from relatent.engines import Engine, Serial
from relatent.spaces.chunks import chunk_rows
from relatent.spaces.join import Matched, match_keys, row_blocks
from relatent.spaces.keys import held_out as is_held_out
from relatent.spaces.keys import key_hashes
from relatent.spaces.multi_vectors import MultiSpace
from relatent.spaces.space import Space
from relatent.translate.goals import Selection
from relatent.translate.overview import NO_RELATION, concerns, notes, unexplained, unrelated
from relatent.translate.pairs import Pairs

if TYPE_CHECKING:
    from relatent.translate.translator import Translator

# Rows of the source, as bytes of float32, whose pairs make a shard: some seconds of work.
SHARD_BYTES = 256 * 2**20
# More pairs than this hardly change a closed-form map, and the hashes of their keys would swell its file.
MAX_PAIRS = 1_000_000
# Fewer held-out pairs than this give wide intervals.
MIN_HELD_OUT = 100


@dataclass(frozen=True)
class FitReport(Result):
    """What a translator was fitted on, and what was kept from it."""

    source: str
    target: str
    dims: tuple[int, int]
    joined: str
    pairs: int
    held_out: int
    unused: int
    selection: Selection | None
    notes: tuple[str, ...] = ()
    """What a kernel gains and costs, and what is not known of queries."""
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.source} ({self.dims[0]}-d) → {self.target} ({self.dims[1]}-d): {self.joined}.",
            f"Fitted on {self.pairs:,} pairs; {self.held_out:,} held out for evaluation"
            + (f"; {self.unused:,} more not needed." if self.unused else "."),
        ]
        if self.selection is not None:
            lines.append(f"Map: {self.selection.chosen}, chosen by {self.selection.criterion}.")
        lines += [f"{note}." for note in self.notes]
        if self.held_out < MIN_HELD_OUT:
            lines.append(f"Only {self.held_out} pairs are left to evaluate it by: expect wide intervals.")
        return "\n".join([*lines, *(f"Warning: {text}." for text in self.warnings)])


@dataclass(frozen=True, eq=False)
class JoinedPairs:
    """Pairs of two spaces, the hashes of their keys, and how they were joined."""

    pairs: Pairs
    seen_keys: np.ndarray
    spaces: tuple[Space, Space]
    joined: str
    held_out: int
    unused: int
    related: bool
    """Whether they are known to show a relation."""

    def keys_of(self, hashes: np.ndarray) -> list[Any]:
        """Return the keys of these hashes, in their order."""
        keys = self.spaces[0].keys
        found = key_hashes(keys)
        rows = np.flatnonzero(np.isin(found, hashes))
        by_hash = dict(zip(found[rows].tolist(), keys[rows].tolist(), strict=True))
        return [by_hash[h] for h in hashes.tolist()]

    def report(self, translator: Translator) -> FitReport:
        """Return what to tell of a translator that was fitted on them."""
        (source, target), found = self.spaces, tuple(concerns(translator, related=self.related))
        names, dims = (source.name, target.name), (source.dim, target.dim)
        counts = len(self.pairs), self.held_out, self.unused
        return FitReport(*names, dims, self.joined, *counts, translator.selection_, tuple(notes(translator)), found)


def join_pairs(
    source: Space,
    target: Space,
    options: dict[str, Any],
    *,
    held_out: float | None = None,
    max_pairs: int | None = None,
    anchors: Sequence[Any] | None = None,
    force: bool = False,
    engine: Engine | None = None,
    progress: bool | None = None,
) -> JoinedPairs:
    """Sum up the pairs of the keys that two spaces share, as :meth:`relatent.Translator.fit` describes.

    ``options`` are those of :meth:`relatent.Pairs.of`. Keys are joined; vectors are streamed. Items of several vectors
    are paired vector by vector, and held out as a whole.
    """
    if isinstance(source, MultiSpace) and isinstance(target, MultiSpace):
        x, y, left_out = source.fit_on(target, held_out or 0.0)
        joining: dict[str, Any] = {"max_pairs": max_pairs, "anchors": anchors, "force": force, "engine": engine}
        return replace(join_pairs(x, y, options, progress=progress, **joining), held_out=left_out)
    with stages(progress) as stage:
        stage("joining keys")
        matched = match_keys(source, target)
        hashes, joined = key_hashes(matched.keys), matched.summary()
        pair_rows = np.stack([matched.x_rows, matched.y_rows], axis=1)
        del matched  # the keys of millions of rows take more memory than everything else here
        pa.default_memory_pool().release_unused()
    wanted = (
        ~is_held_out(hashes, held_out or 0.0) if anchors is None else np.isin(hashes, _anchor_hashes(anchors, hashes))
    )
    rows = np.flatnonzero(wanted)
    if len(rows) < 2:
        raise ValueError(
            f"{len(rows)} pairs are left to fit on, of {len(hashes)} keys in common: expected at least 2, and about "
            "as many as there are coordinates. Hold out less, or give more rows."
        )
    rows = _first(rows, hashes, MAX_PAIRS if max_pairs is None else max_pairs)
    with progress_bar(len(rows), "fit", progress) as advance:
        pairs = sum_pairs(source, target, pair_rows[rows], hashes[rows], options, engine or Serial(), advance)
    if not force:
        with stages(progress) as stage:
            stage("checking for a relation")
            _refuse_unrelated(pairs)
    kept = int(np.sum(~wanted))
    unused = len(hashes) - len(rows) - kept
    return JoinedPairs(pairs, np.sort(hashes[rows]), (source, target), joined, kept, unused, related=not force)


def joined_queries(queries: Any, relevant: Any) -> tuple[Any, Any]:
    """Return queries of spaces as arrays, and what each should find by the ids that pairs of spaces have.

    ``queries`` is a space of the target, or a pair of spaces that is joined on keys; ``relevant`` holds row-aligned
    ``queries``, ``items`` and perhaps ``grades``, by key.
    """
    if queries is None:
        return None, relevant
    source, target = queries if isinstance(queries, tuple) else (None, queries)
    if source is None:
        vectors, keys = target.vectors, target.keys
    else:
        matched = match_keys(source, target)
        vectors, keys = (source.take(matched.x_rows), target.take(matched.y_rows)), matched.keys
    if relevant is None:
        return vectors, None
    asked = {one: row for row, one in enumerate(key_hashes(keys).tolist())}
    wanted: list[dict[int, float]] = [{} for _ in asked]
    grades = [1.0] * len(relevant.queries) if relevant.grades is None else relevant.grades
    hashed = key_hashes(relevant.queries).tolist(), key_hashes(relevant.items).tolist()
    for query, item, grade in zip(*hashed, grades, strict=True):
        if query in asked:
            wanted[asked[query]][item] = float(grade)
    return vectors, wanted


def unseen_rows(translator: Translator, matched: Matched, most: int, first: Sequence[Any] = ()) -> np.ndarray:
    """Find the pairs that a translator was not fitted on: those of the keys in ``first``, then others, in row order."""
    hashes = key_hashes(matched.keys)
    rows = np.flatnonzero(~np.isin(hashes, translator.seen_keys_))
    if not len(rows):
        raise ValueError(
            f"The translator was fitted on all {len(matched)} keys in common: expected others to evaluate it by. Fit "
            "again and hold part out, or give spaces of other keys."
        )
    later = ~np.isin(hashes[rows], key_hashes(first))
    return np.sort(rows[np.lexsort((hashes[rows], later))][:most])


def _refuse_unrelated(pairs: Pairs) -> None:
    left = unexplained(pairs)
    if left >= NO_RELATION:
        error = ValueError(
            f"{unrelated(pairs, left)}: keys that do not mean the same in both files, or rows in another order. Check "
            "the keys."
        )
        raise with_remedy(error, python="To fit anyway, use force=True.", command="To fit anyway, add --force.")


def _first(rows: np.ndarray, hashes: np.ndarray, limit: int) -> np.ndarray:
    """Take rows up to a limit, by the largest hashes of their keys: a draw that any run repeats."""
    if limit < 2:
        raise ValueError(f"At most {limit} pairs were allowed: expected at least 2.")
    return np.sort(rows[np.argsort(hashes[rows])[::-1][:limit]])


def _anchor_hashes(anchors: Sequence[Any], known: np.ndarray) -> np.ndarray:
    hashes = key_hashes(anchors)
    missing = ~np.isin(hashes, known)
    if missing.any():
        first = anchors[int(np.argmax(missing))]
        raise ValueError(
            f"{int(missing.sum())} of the {len(hashes)} anchors are not in both spaces, first {first!r}: "
            "take anchors from the keys that both have."
        )
    return hashes


@dataclass(frozen=True, eq=False)
class PairShard:
    """Which row of the source goes with which row of the target, (n, 2), and the hashes of their keys."""

    start: int
    rows: np.ndarray
    hashes: np.ndarray

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        return f"pairs {self.start:,} to {self.start + len(self):,}"


def sum_pairs(
    source: Space,
    target: Space,
    rows: np.ndarray,
    hashes: np.ndarray,
    options: dict[str, Any],
    engine: Engine,
    advance: Callable[[int], None],
) -> Pairs:
    """Sum up the pairs of rows (n, 2), those of the source ascending."""
    edges = _edges(source, rows, engine)
    shards = [PairShard(a, rows[a:b], hashes[a:b]) for a, b in pairwise(edges.tolist()) if a < b]
    if isinstance(engine, Serial):  # in this process, where progress within a shard can be seen
        return engine.sum(_SumShard(source, target, options, advance), shards)
    return engine.sum(_SumShard(source, target, options), shards, lambda shard: advance(len(shard)))


def _edges(source: Space, rows: np.ndarray, engine: Engine) -> np.ndarray:
    """Cut the pairs where the source can be entered. A target in another order is read once by each worker instead."""
    if np.any(np.diff(rows[:, 1]) <= 0):
        return np.linspace(0, len(rows), engine.workers + 1).astype(np.intp)
    ranges = source.ranges(max(1, SHARD_BYTES // (4 * source.dim)))
    return np.searchsorted(rows[:, 0], [0, *(stop for _, stop in ranges)])


@dataclass(frozen=True)
class _SumShard:
    """What a worker does: read the vectors of a shard block by block, and sum them up."""

    source: Space
    target: Space
    options: dict[str, Any]
    advance: Callable[[int], None] | None = None

    def __call__(self, shard: PairShard) -> Pairs:
        size = max(1, chunk_rows(max(self.source.dim, self.target.dim), np.dtype(np.float64)) // 4)
        # The target first: it may have to be brought into order, and only one file should be read at a time.
        targets = row_blocks(self.target, shard.rows[:, 1], size)
        blocks = zip(targets, row_blocks(self.source, shard.rows[:, 0], size), strict=True)
        total: list[Pairs] = []
        for start, (y, x) in zip(range(0, len(shard), size), blocks, strict=True):
            part = Pairs.of(x, y, ids=shard.hashes[start : start + len(x)], **self.options)
            total = Pairs.collected([*total, part])
            if self.advance is not None:
                self.advance(len(x))
        return Pairs.total(total)
