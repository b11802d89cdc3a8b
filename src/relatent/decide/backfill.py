"""Which items to re-embed first: those whose expected translation error is largest, and that are retrieved most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import as_matrix, as_parallel, row_chunks, suggest, to_numpy
from relatent._linalg import unit_norm
from relatent._terminal import Result
from relatent.decide.anchors import drawn_pairs
from relatent.spaces.io.files import AnyPath, check_new, write_space
from relatent.spaces.join import match_keys
from relatent.spaces.space import Space
from relatent.translate import Translator
from relatent.translate.files import check_translator

# Nearest anchors, whose own errors predict that of an item.
NEIGHBORS = 10
FOLDS = 5
MIN_ROWS = 50
BLOCK_ROWS = 2_048
# Penalty of the leverage, in mean eigenvalues; and what keeps logarithms finite.
PENALTY, TINY = 0.1, 1e-6


@dataclass(frozen=True, eq=False)
class ExpectedError:
    r"""The error, 1 − cosine, that a translator will make on an item, learned from the anchors held out in turn.

    A regression of the log-error on five things that are known of an item x without its true vector: its leverage
    :math:`x^\top (A^\top A + \lambda I)^{-1} x`, the errors of the anchors nearest to it, how near the nearest is and
    the ten nearest are, and its norm, all centered by the anchors.

    On real encoders it orders items by their true error with a rank correlation of .5 to .7
    (``python -m experiments.migration.backfill``). What breaks it: fewer than a few hundred anchors.
    """

    anchors: np.ndarray
    errors: np.ndarray
    regression: Any

    @staticmethod
    def fit(x: Any, y: Any, translator: Translator | None = None, *, seed: int = 0) -> ExpectedError:
        """Learn from parallel anchors, with a translator of the settings given (by default, of the vectors goal)."""
        from sklearn.base import clone
        from sklearn.linear_model import LinearRegression
        from sklearn.model_selection import KFold

        x, y = (to_numpy(a).astype(np.float64) for a in as_parallel(x=x, y=y))
        if len(x) < MIN_ROWS:
            raise ValueError(f"{len(x)} pairs were given: expected at least {MIN_ROWS} to learn errors from.")
        unfitted = Translator() if translator is None else clone(translator)
        errors = np.empty(len(x))
        for kept, held in KFold(FOLDS, shuffle=True, random_state=seed).split(x):
            errors[held] = _errors(unfitted.fit(x[kept], y[kept]), x[held], y[held])
        model = LinearRegression().fit(_features(x, x, errors, own=True), np.log(errors))
        return ExpectedError(x, errors, model)

    def predict(self, vectors: Any) -> np.ndarray:
        """Return the error to expect of each row, (n,)."""
        rows = to_numpy(as_matrix(vectors, "vectors"))
        parts = [_features(rows[part], self.anchors, self.errors) for part in row_chunks(len(rows), BLOCK_ROWS)]
        return np.asarray(np.exp(self.regression.predict(np.concatenate(parts))))


@dataclass(frozen=True, eq=False)
class Backfill:
    """Rows in the order in which to re-embed them, and what each is worth.

    ``worth`` is the expected error times how often the item is retrieved, in the order of ``rows``.
    """

    rows: np.ndarray
    worth: np.ndarray

    def stop(self, left: float = 0.05) -> int:
        """Return after how many rows at most this share of what they are worth is left in the others.

        >>> Backfill(np.asarray([2, 0, 1]), np.asarray([8.0, 1.0, 1.0])).stop(0.25)
        1
        """
        if not 0 <= left < 1:
            raise ValueError(f"The share that may be left is {left}: expected from 0 to less than 1, such as 0.05.")
        remaining = 1 - np.cumsum(self.worth) / max(float(np.sum(self.worth)), 1e-300)
        return int(np.searchsorted(-remaining, -(left + 1e-12))) + 1 if len(remaining) else 0


def backfill_order(expected: np.ndarray, counts: Sequence[float] | np.ndarray | None = None) -> Backfill:
    """Order rows by their expected error times how often each is retrieved, by default equally often.

    ``counts`` are such as those of :attr:`relatent.Reranker.asked`; one is added, so that what was never retrieved is
    ordered by its error.

    >>> backfill_order(np.asarray([0.1, 0.4, 0.2]), [9, 0, 0]).rows.tolist()
    [0, 1, 2]
    """
    errors = np.asarray(expected, dtype=np.float64)
    retrieved = np.zeros(len(errors)) if counts is None else np.asarray(counts, dtype=np.float64)
    if errors.ndim != 1 or retrieved.shape != errors.shape:
        raise ValueError(
            f"There are errors of shape {errors.shape} and counts of {retrieved.shape}: expected one count per error."
        )
    if np.any(retrieved < 0) or not np.all(np.isfinite(errors)):
        raise ValueError("A count is negative or an error is not finite: expected counts of 0 or more.")
    worth = errors * (1 + retrieved)
    order = np.argsort(-worth, kind="stable")
    return Backfill(order, worth[order])


def _errors(translator: Translator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    translated, wanted = translator.transform(x), translator.transform_target(y)
    return np.asarray(np.maximum(1 - np.sum(unit_norm(translated) * unit_norm(wanted), axis=1), TINY))


def _features(x: np.ndarray, anchors: np.ndarray, errors: np.ndarray, *, own: bool = False) -> np.ndarray:
    """Return the five features; with ``own``, of the anchors themselves, each as if it were not among them."""
    mean = np.mean(anchors, axis=0)
    x, a = x - mean, anchors - mean
    similarity = unit_norm(x) @ unit_norm(a).T
    if own:
        np.fill_diagonal(similarity, -np.inf)
    near = np.argpartition(-similarity, NEIGHBORS, axis=1)[:, :NEIGHBORS]
    close = np.take_along_axis(similarity, near, axis=1)
    weight = np.maximum(close, 0) + 0.05
    around = np.sum(weight * np.log(errors[near]), axis=1) / np.sum(weight, axis=1)
    norm = np.log(np.linalg.norm(x, axis=1) + TINY)
    leverage = np.log(_leverage(x, a, own) + TINY)
    return np.stack([leverage, around, close.max(axis=1), close.mean(axis=1), norm], axis=1)


def _leverage(x: np.ndarray, a: np.ndarray, own: bool) -> np.ndarray:
    gram = a.T @ a
    gram[np.diag_indices_from(gram)] += PENALTY * np.trace(gram) / len(gram) + TINY
    leverage = np.sum(x * np.linalg.solve(gram, x.T).T, axis=1)
    return np.asarray(leverage / (1 - np.minimum(leverage, 0.999)) if own else leverage)


@dataclass(frozen=True)
class BackfillReport(Result):
    """How many items there are, after how many one may stop, and how the errors are spread."""

    items: int
    stop: int
    left: float
    error: float
    first_tenth: float

    def __str__(self) -> str:
        return (
            f"{self.items:,} items, expected error (1 - cosine) {self.error:.3f} on average.\n"
            f"The first tenth holds {self.first_tenth:.0%} of what is to be gained; after {self.stop:,} items "
            f"({self.stop / max(self.items, 1):.0%}), {self.left:.0%} of it is left."
        )


def plan_backfill(
    translator: Translator,
    source: Space,
    target: Space,
    path: AnyPath,
    *,
    counts: str | None = None,
    left: float = 0.05,
    overwrite: bool = False,
    seed: int = 0,
) -> BackfillReport:
    """Order the items of the source by the expected error of their translation and how often they are retrieved.

    ``target`` holds true vectors of some of the items, to learn errors from; those are not ordered. ``counts`` names a
    column of the source that says how often each item was retrieved. Written are the keys and other columns in order,
    with the ``expected_error``.
    """
    import pyarrow as pa

    check_translator(translator)
    check_new(path, source, target, overwrite=overwrite)
    matched = match_keys(source, target)
    expected = ExpectedError.fit(*drawn_pairs(source, target, matched, seed), translator, seed=seed)
    errors = np.concatenate([expected.predict(chunk.vectors) for chunk in source.chunks() if len(chunk)])
    rows = np.setdiff1d(np.arange(len(source)), matched.x_rows)
    if not len(rows):
        raise ValueError(f"All {len(source)} items have true vectors already: nothing is left to embed.")
    plan = backfill_order(errors[rows], None if counts is None else _counts(source, counts)[rows])
    ordered = rows[plan.rows]
    others = source.others.take(pa.array(ordered)).append_column("expected_error", pa.array(errors[ordered]))
    write_space(_with_others(source, ordered, others), path, overwrite=overwrite)
    tenth = float(np.sum(plan.worth[: -(-len(rows) // 10)]) / np.sum(plan.worth))
    return BackfillReport(len(rows), plan.stop(left), left, float(np.mean(errors[rows])), tenth)


def _with_others(source: Space, rows: np.ndarray, others: Any) -> Space:
    import pyarrow as pa

    key = source.layout.key
    if key is None:
        return Space(source.take(rows), pa.array(rows), source.name, others=others)
    return Space(source.take(rows), others.column(key).combine_chunks(), source.name, others=others.drop_columns([key]))


def _counts(source: Space, name: str) -> np.ndarray:
    if name not in source.schema.names:
        raise ValueError(f"There is no column {name!r} of counts.{suggest(name, source.schema.names)}")
    return np.asarray(source.others.column(name).to_numpy(), dtype=np.float64)
