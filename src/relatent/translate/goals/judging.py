"""How well a head reads translated vectors: the user's own, or one for given labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from relatent._array import as_labels, to_numpy
from relatent.translate.sample import Sample

__all__ = ["Judge"]

Reader = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Judge:
    """What the user knows of the head that will read: the head itself, labels of the pairs by their number, or both."""

    head: Any = None
    labels: np.ndarray | None = None

    @staticmethod
    def of(head: Any, labels: Any, n: int) -> Judge:
        """Check a head and labels for so many pairs."""
        if head is not None and not (hasattr(head, "predict") or callable(head)):
            raise TypeError(
                f"head is a {type(head).__name__}: expected something that predicts, or a function of NumPy rows."
            )
        if labels is None:
            return Judge(head)
        labels = as_labels(labels)
        if len(labels) != n:
            raise ValueError(f"There are {len(labels)} labels for {n} pairs: expected one per pair.")
        return Judge(head, labels)

    def scores(self, candidates: list[np.ndarray], held: Sample, known: Sample) -> list[float]:
        """Return the share of held-out rows that the head reads right, for each way of translating them.

        Right is what their labels say, or without labels what the head says of the target's own vectors. Without a
        head, one is fitted to the labels of the other pairs.
        """
        if self.head is not None:
            read = _reader(self.head)
        else:
            assert self.labels is not None
            read = _fitted(known.y, self.labels[known.ids.astype(np.intp)])
        right = read(held.y) if self.labels is None else self.labels[held.ids.astype(np.intp)]
        return [_agreement(read(moved), right) for moved in candidates]


def _reader(head: Any) -> Reader:
    """Return what a head says of rows: classes, also where it gives a score for each."""
    call = head.predict if hasattr(head, "predict") else head

    def read(rows: np.ndarray) -> np.ndarray:
        said = to_numpy(call(rows))
        return np.asarray(np.argmax(said, axis=1) if said.ndim == 2 and said.shape[1] > 1 else np.ravel(said))

    return read


def _fitted(rows: np.ndarray, labels: np.ndarray) -> Reader:
    """Fit a head; labels that are all the same need none."""
    if len(np.unique(labels)) == 1:
        return lambda new: np.repeat(labels[:1], len(new))
    head = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1_000))
    return _reader(head.fit(rows, labels))


def _agreement(said: np.ndarray, right: np.ndarray) -> float:
    """Return the share of equal answers; of numbers on a scale, the share of their variance that is explained."""
    if said.dtype.kind != "f" or right.dtype.kind != "f":
        return float(np.mean(said == right))
    return 1 - float(np.mean((said - right) ** 2) / (np.var(right) or 1.0))
