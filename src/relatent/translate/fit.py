"""Pairs of two spaces, summed up shard by shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._errors import with_remedy
from relatent._terminal import Result, progress_bar, stages
from relatent.engines import Engine, Serial
from relatent.spaces.chunks import chunk_rows
from relatent.spaces.join import Matched, match_keys, row_blocks
from relatent.spaces.keys import held_out as is_held_out
from relatent.spaces.keys import key_hashes
from relatent.spaces.multi_space import MultiSpace
from relatent.spaces.space import Space
from relatent.translate.endpoints import Endpoints
from relatent.translate.goals import Selection
from relatent.translate.overview import NO_RELATION, unexplained
from relatent.translate.pairs import Pairs
from relatent.translate.translator import Translator

# Rows of the source, as bytes of float32, whose pairs make a shard: some seconds of work.
SHARD_BYTES = 256 * 2**20


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


# More pairs than this hardly change a closed-form map, and the hashes of their keys would swell its file.
MAX_PAIRS = 1_000_000
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
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.source} ({self.dims[0]}-d) → {self.target} ({self.dims[1]}-d): {self.joined}.",
            f"Fitted on {self.pairs:,} pairs; {self.held_out:,} held out for `relatent evaluate`"
            + (f"; {self.unused:,} more not needed." if self.unused else "."),
        ]
        if self.selection is not None:
            lines.append(f"Map: {self.selection.chosen}, chosen by {self.selection.criterion}.")
        if self.held_out < MIN_HELD_OUT:
            lines.append(f"Only {self.held_out} pairs are left to evaluate it by: expect wide intervals.")
        return "\n".join([*lines, *(f"Warning: {text}." for text in self.warnings)])


def fit_spaces(
    translator: Translator,
    source: Space,
    target: Space,
    *,
    held_out: float = 0.2,
    max_pairs: int = MAX_PAIRS,
    anchors: Sequence[Any] | None = None,
    force: bool = False,
    engine: Engine | None = None,
    progress: bool | None = None,
) -> FitReport:
    """Fit on the keys that two spaces share, without those held out. Keys are joined; vectors stream by.

    Whether a key is held out follows from the key alone (:func:`relatent.spaces.held_out`), so that the same keys are
    held out in every run, file and order. The translator remembers the keys that it was fitted on, and an evaluation
    leaves them out. ``anchors`` are keys to fit on instead of all; then nothing but the other keys is held out. Pairs
    that show no relation at all are refused, unless ``force``. Items of several vectors are paired vector by vector,
    and held out as a whole. An ``engine`` (:mod:`relatent.engines`) sums up several shards of pairs at a time.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 4))
    >>> t = Translator()
    >>> print(fit_spaces(t, Space(x, name="old"), Space(2 * x[:, ::-1], name="new")).pairs)
    392
    """
    if isinstance(source, MultiSpace) and isinstance(target, MultiSpace):
        x, y, left_out = source.fit_on(target, held_out)
        options: dict[str, Any] = {"max_pairs": max_pairs, "force": force, "engine": engine, "progress": progress}
        return replace(fit_spaces(translator, x, y, held_out=0.0, anchors=anchors, **options), held_out=left_out)
    with stages(progress) as stage:
        stage("joining keys")
        matched = match_keys(source, target)
        hashes, joined = key_hashes(matched.keys), matched.summary()
        pair_rows = np.stack([matched.x_rows, matched.y_rows], axis=1)
        del matched  # the keys of millions of rows take more room than everything else here
        pa.default_memory_pool().release_unused()
    wanted = ~is_held_out(hashes, held_out) if anchors is None else np.isin(hashes, _anchor_hashes(anchors, hashes))
    rows = np.flatnonzero(wanted)
    if len(rows) < 2:
        raise ValueError(
            f"{len(rows)} pairs are left to fit on, of {len(hashes)} keys in common: expected at least 2, and about "
            "as many as there are coordinates. Hold out less, or give more rows."
        )
    rows = _most(rows, hashes, max_pairs)
    with progress_bar(len(rows), "fit", progress) as advance:
        pairs = sum_pairs(
            source, target, pair_rows[rows], hashes[rows], translator.pairs_options(), engine or Serial(), advance
        )
    with stages(progress) as stage:
        stage("looking for a relation")
        if not force:
            _refuse_strangers(pairs)
        stage("choosing a map")
        translator.fit_pairs(pairs, endpoints=Endpoints.of(source, target), seen_keys=np.sort(hashes[rows]))
    kept = int(np.sum(~wanted))
    return FitReport(
        source.name,
        target.name,
        (source.dim, target.dim),
        joined,
        len(rows),
        kept,
        len(hashes) - len(rows) - kept,
        translator.selection_,
        translator.summary().warnings,
    )


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


def _refuse_strangers(pairs: Pairs) -> None:
    left = unexplained(pairs)
    if left >= NO_RELATION:
        error = ValueError(
            f"The two sides show no relation: from {len(pairs):,} pairs, the best linear map leaves {left:.1%} of the "
            "target's variance unexplained in cross-validation. The likely cause is wrong pairs: keys that do not mean "
            "the same in both files, or rows in another order. Check the keys."
        )
        raise with_remedy(error, python="To fit anyway, say force=True.", command="To fit anyway, add --force.")


def _most(rows: np.ndarray, hashes: np.ndarray, most: int) -> np.ndarray:
    """Take at most so many rows, by the largest hashes of their keys: a draw that any run repeats."""
    if most < 2:
        raise ValueError(f"At most {most} pairs were allowed: expected at least 2.")
    return np.sort(rows[np.argsort(hashes[rows])[::-1][:most]])


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
