"""What a report shows, measured on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent._linalg import row_norms, unit_norm
from relatent.decide.anchors import diagnose_anchors
from relatent.decide.verdict import Verdict
from relatent.evaluate.fidelity import fidelity_report
from relatent.evaluate.interval import bootstrap
from relatent.evaluate.linear import cka
from relatent.evaluate.pairwise import mutual_knn
from relatent.evaluate.scale import norms
from relatent.report.data import Anchors, Closeness, Geometry, PairsCurve, Similarity, Spread, WorstRow
from relatent.spaces.join import match_keys
from relatent.spaces.space import Space
from relatent.translate import Translator
from relatent.translate.quality import learning_curve


def measure_curve(translator: Translator, x: np.ndarray, y: np.ndarray, seed: int) -> PairsCurve | None:
    """Return how held-out pairs are ranked by fewer pairs and by all, and what twice as many would add."""
    curve = learning_curve(translator, x, y, seed=seed)
    if curve is None:
        return None
    n, room = curve.anchors[-1], 1 - curve.values[-1]
    scores = tuple(bootstrap(column, seed=seed) for column in curve.scores.T)
    return PairsCurve(curve.anchors, scores, curve.gain(n, 2 * n, limit=room), len(y))


# Items that are named, the worst first.
MAX_NAMED = 10
# Anchors that are looked at: coverage needs many, and a decomposition of so many takes a second.
MAX_ANCHORS = 4_000
# Norms that differ by less than this share of their mean are all the same.
CONSTANT = 1e-3
# Singular values that are kept of each space.
MAX_SINGULAR = 400
MEASURES = {"cka": cka, "mutual_knn": mutual_knn}


def drawn(rows: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Return at most so many of the rows, drawn by the seed, in order."""
    return rows if len(rows) <= most else np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


def measure_closeness(
    translated: np.ndarray, x: np.ndarray, y: np.ndarray, keys: np.ndarray, slices: Any, seed: int
) -> Closeness:
    """Compare translated vectors with true ones, row by row, and name the items that come out worst."""
    rows = _cosines(translated, y)
    series, untranslated = {"translated": rows}, None
    if x.shape[1] == y.shape[1]:
        series["untranslated"] = _cosines(x, y)
        untranslated = bootstrap(series["untranslated"], seed=seed)
    worst = [WorstRow(str(keys[i]), float(rows[i])) for i in np.argsort(rows, kind="stable")[:MAX_NAMED]]
    fidelity = fidelity_report(translated, y, slices, seed=seed)
    return Closeness(len(rows), fidelity, untranslated, Spread.of(series), tuple(worst))


def worst_queries(verdict: Verdict) -> tuple[WorstRow, ...]:
    """Name the queries that lose most when they are translated instead of staying."""
    if verdict.keys is None:
        return ()
    kept, before = (verdict.query_scores(option) for option in ("translate", "stay"))
    order = np.argsort(kept - before, kind="stable")[:MAX_NAMED]
    named = [WorstRow(str(verdict.keys[i]), float(kept[i]), float(before[i])) for i in order]
    return tuple(row for row in named if row.value < (row.against or 0))


def measure_anchors(source: Space, rows: np.ndarray, x: np.ndarray, seed: int) -> Anchors | None:
    """Diagnose the anchors in some rows of the source, centered, and how far they cover the rows of x."""
    if len(rows) < 2 or not len(x):
        return None
    anchors = source.take(drawn(rows, MAX_ANCHORS, seed)).astype(np.float64)
    center = np.mean(anchors, axis=0)
    return Anchors(len(rows), len(anchors), diagnose_anchors(anchors - center, x - center))


def measure_geometry(spaces: Mapping[str, np.ndarray]) -> Geometry:
    """Return singular values and norms of the rows of each space."""
    norm = {name: norms(x) for name, x in spaces.items()}
    varied = {name: x for name, x in spaces.items() if norm[name].std > CONSTANT * norm[name].mean}
    relative = {name: np.asarray(row_norms(x)) / norm[name].mean for name, x in varied.items()}
    singular = {name: _singular(x) for name, x in spaces.items()}
    return Geometry(max(map(len, spaces.values())), singular, norm, Spread.of(relative) if relative else None)


def measure_similarity(spaces: Mapping[str, Space], most: int, seed: int) -> Similarity:
    """Compare every two of several spaces on a sample of the keys that all of them share."""
    first, *rest = spaces.values()
    matches = [match_keys(first, other) for other in rest]
    shared = reduce(np.intersect1d, [matched.x_rows for matched in matches])
    if len(shared) < 2:
        raise ValueError(f"The {len(spaces)} spaces share {len(shared)} keys: expected at least 2, and hundreds.")
    rows = drawn(shared, most, seed)
    places = [matched.y_rows[np.searchsorted(matched.x_rows, rows)] for matched in matches]
    vectors = [first.take(rows), *(other.take(part) for other, part in zip(rest, places, strict=True))]
    return Similarity(len(rows), tuple(spaces), {name: _square(m, vectors) for name, m in MEASURES.items()})


def with_texts(rows: tuple[WorstRow, ...], spaces: Sequence[Space], column: str | None) -> tuple[WorstRow, ...]:
    """Return items with their texts, from the first space that has the column; as they are where none is asked for."""
    if column is None or not rows:
        return rows
    for space in spaces:
        if column in space.others.column_names:
            places = space.rows_of([row.key for row in rows])
            texts = space.others.column(column).take(pa.array(places)).to_pylist()
            return tuple(replace(row, text=str(text)) for row, text in zip(rows, texts, strict=True))
    every = dict.fromkeys(name for space in spaces for name in space.others.column_names)
    raise ValueError(f"There is no column {column!r} of texts.{suggest(column, every)}")


def _cosines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(np.sum(unit_norm(x) * unit_norm(y), axis=1, dtype=np.float64))


def _singular(x: np.ndarray) -> tuple[float, ...]:
    """Return the singular values of the centered rows over the largest, without those that are rounding noise."""
    centered = x.astype(np.float64) - np.mean(x, axis=0, dtype=np.float64)
    values = np.linalg.eigvalsh(centered.T @ centered)[::-1][: min(*x.shape, MAX_SINGULAR)]
    live = values[values > values[0] * 1e-12]
    return tuple(np.sqrt(live / values[0]).tolist())


def _square(measure: Any, vectors: Sequence[np.ndarray]) -> tuple[tuple[float, ...], ...]:
    """Score every two spaces; a symmetric measure is computed once, and a space is as similar to itself as can be."""
    square = np.eye(len(vectors))
    for i, x in enumerate(vectors):
        for j, y in enumerate(vectors[:i]):
            square[i, j] = square[j, i] = float(measure(x, y))
    return tuple(map(tuple, square.tolist()))
