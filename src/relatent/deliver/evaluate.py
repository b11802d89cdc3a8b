"""Judge a translator on the two spaces it joins, by the keys that it was not fitted on."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent._atomic import FileError
from relatent.deliver.fit import unseen_rows
from relatent.deliver.translate import check_translator
from relatent.evaluate.verdict import Rule, Search, Verdict, migration
from relatent.spaces.files import AnyPath
from relatent.spaces.join import match_keys
from relatent.spaces.keys import key_hashes
from relatent.spaces.space import Space
from relatent.spaces.table import read_table
from relatent.translate import Translator

__all__ = ["Relevance", "judge", "read_relevance"]

SIDES = ("documents", "queries")
# An exact search of so many rows among each other takes seconds.
MOST_ROWS = 10_000


@dataclass(frozen=True)
class Relevance:
    """Which item should be found for which query, as two lists of keys in step."""

    queries: Sequence[Any]
    items: Sequence[Any]
    name: str = "the pairs given"


def judge(
    translator: Translator,
    source: Space,
    target: Space,
    *,
    side: str | None = None,
    relevant: Relevance | None = None,
    slices: str | None = None,
    k: int = 10,
    max_rows: int = MOST_ROWS,
    rule: Rule | None = None,
    accept: bool = False,
    seed: int = 0,
) -> Verdict:
    """Search three ways among the held-out items and say GO or NO-GO (:func:`relatent.evaluate.verdict`).

    ``side="documents"``: the source is the old model; its translated vectors are the index, and the target's vectors
    ask. ``side="queries"``: the source is the new model; its translated vectors ask in the target's index, which is
    not touched. By default the side follows from the goal of the translator: retrieval translates queries.
    ``slices`` names a column of either space; ``accept`` lets spaces pass whose fingerprints are others'.
    """
    side = _side(translator, side)
    if accept:
        translator.accept(source).accept(target)
    translator.endpoints_.check(source, "source")
    translator.endpoints_.check(target, "target")
    matched = match_keys(source, target)
    if not len(translator.seen_keys_):
        warnings.warn("The translator does not know the keys it was fitted on: some may be judged here.", stacklevel=2)
    named = () if relevant is None else [*relevant.queries, *relevant.items]
    rows = unseen_rows(translator, matched, max_rows, named)
    wanted = None if relevant is None else _wanted(relevant, matched.keys[rows])
    own = np.arange(len(rows)) if wanted is None else np.asarray(list(wanted), dtype=np.intp)
    x_rows, y_rows = matched.x_rows[rows], matched.y_rows[rows]
    labels = None if slices is None else _labels(slices, source, x_rows, target, y_rows)[own]
    return migration(
        **_searches(translator, source.take(x_rows), target.take(y_rows), own, side),
        own=own,
        relevant=None if wanted is None else list(wanted.values()),
        relevance="" if relevant is None else relevant.name,
        slices=labels,
        k=k,
        rule=rule,
        seed=seed,
    )


def read_relevance(path: AnyPath) -> Relevance:
    """Read pairs of a query's and an item's key: the first two columns of a table.

    Columns named ``query`` and ``item`` (or ``document``) are used wherever they stand.
    """
    path = Path(path)
    table = read_table(path)
    names = table.column_names
    if len(names) < 2:
        raise FileError(f"{path} has {len(names)} columns: expected two, the key of a query and that of an item.")
    queries = "query" if "query" in names else names[0]
    items = next((name for name in ("item", "document") if name in names), names[1])
    return Relevance(table.column(queries).to_pylist(), table.column(items).to_pylist(), f"the pairs in {path.name}")


def _side(translator: Translator, side: str | None) -> str:
    check_translator(translator)
    if side is None:
        return "queries" if translator.goal == "retrieval" else "documents"
    if side not in SIDES:
        raise ValueError(f"There is no side {side!r}.{suggest(side, SIDES)}")
    if side == "documents" and translator.target_map_ is not None:
        raise ValueError(
            "This translator ranks the target's items for queries of the source: judge it with side 'queries', or fit "
            "one with goal 'vectors' to translate documents."
        )
    return side


def _searches(t: Translator, x: np.ndarray, y: np.ndarray, asks: np.ndarray, side: str) -> dict[str, Any]:
    old, new = (x, y) if side == "documents" else (y, x)
    metric = "cosine" if t.target_map_ is None else "inner"
    z, index = np.asarray(t.transform(x)), np.asarray(t.transform_target(y))
    translated = (index, z) if side == "documents" else (z, index)
    return {
        "old": Search(old[asks], old),
        "untranslated": Search(new[asks], old) if old.shape == new.shape else None,
        "translated": Search(translated[0][asks], translated[1], metric),
        "new": Search(new[asks], new),
    }


def _wanted(relevant: Relevance, keys: np.ndarray) -> dict[int, list[int]]:
    """Give the rows to be found for each query that is there, by the query's row."""
    row_of = {key: row for row, key in enumerate(key_hashes(keys).tolist())}
    wanted: dict[int, list[int]] = {}
    for query, item in zip(key_hashes(relevant.queries).tolist(), key_hashes(relevant.items).tolist(), strict=True):
        if query in row_of and item in row_of and query != item:
            wanted.setdefault(row_of[query], []).append(row_of[item])
    if not wanted:
        raise ValueError(
            f"None of {relevant.name} has both keys among the {len(keys)} that are held out: check the keys, and hold "
            "more out."
        )
    return wanted


def _labels(column: str, source: Space, x_rows: np.ndarray, target: Space, y_rows: np.ndarray) -> np.ndarray:
    for space, rows in ((source, x_rows), (target, y_rows)):
        if column in space.schema.names:
            return np.asarray([str(v) for v in space.others.column(column).take(pa.array(rows)).to_pylist()])
    every = dict.fromkeys([*source.schema.names, *target.schema.names])
    raise ValueError(f"There is no column {column!r} to slice by.{suggest(column, every)}")
