"""Items of one space looked up in another: the measures of tables 1, 7 and 8 of Moschella et al., ICLR 2023.

Each item is looked up, as the source describes it, among all items as the target describes them. Jaccard compares the
K items that are found with the K that the target itself finds, MRR asks at which place the item itself comes, cosine
compares the two descriptions of an item. A sample of items is looked up; the gallery is always whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

import relatent as rl

K = 10
QUERIES = 20_230  # a seed apart from those that draw anchors
MEASURES = ("jaccard", "mrr", "cosine")
RELATIVE: dict[str, Mapping[str, Any]] = {
    "relative": {"normalize": "none"},
    "relative, centered (ours)": {},
    "relative, whitened (ours)": {
        "similarity": partial(rl.project.similarity.mahalanobis, ridge=1.0),
        "normalize": "none",
    },
}
TRANSLATED = "translated (ours)"
KINDS = ("absolute", *RELATIVE, TRANSLATED)


def described(kind: str, x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return source and target in one description, so that their rows can be compared; ``rows`` are the anchors.

    "absolute" fills the narrower space up with zeros, "relative" is the paper's raw cosine, "centered" subtracts the
    mean of the anchors first, "whitened" is the Mahalanobis similarity.
    """
    if kind == "absolute":
        width = max(x.shape[1], y.shape[1])
        return np.pad(x, ((0, 0), (0, width - x.shape[1]))), np.pad(y, ((0, 0), (0, width - y.shape[1])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # raw cosines of an off-center space: that is what is measured
        projections = (rl.RelativeProjection(**RELATIVE[kind]).fit(a[rows]) for a in (x, y))
        return tuple(p.transform(a) for p, a in zip(projections, (x, y), strict=True))  # type: ignore[return-value]


def compared(kind: str, x: np.ndarray, y: np.ndarray, rows: np.ndarray, queries: np.ndarray, k: int = K) -> list[float]:
    """Return Jaccard, MRR and cosine of the queries that are not anchors, in one description."""
    queries = np.setdiff1d(queries, rows)
    if kind == TRANSLATED:
        return translated(x, y, rows, queries, k)
    x, y = described(kind, x, y, rows)
    found, true = (rl.evaluate.nearest(a[queries], y, k).indices for a in (x, y))
    return [*measured(found, true, queries), float(rl.evaluate.mean_cosine(x[queries], y[queries]))]


def translated(x: np.ndarray, y: np.ndarray, rows: np.ndarray, queries: np.ndarray, k: int = K) -> list[float]:
    """Return the same of a translator with the goal that each measure asks for: retrieval, and for the cosine vectors.

    The neighbors that are to be found are those in y as it is.
    """
    search, predict = (rl.Translator(goal).fit(x[rows], y[rows]) for goal in ("retrieval", "vectors"))
    found = rl.evaluate.nearest(search.transform(x[queries]), search.transform_target(y), k, metric="inner").indices
    true = rl.evaluate.nearest(y[queries], y, k).indices
    return [*measured(found, true, queries), float(rl.evaluate.mean_cosine(predict.transform(x[queries]), y[queries]))]


def measured(found: np.ndarray, true: np.ndarray, queries: np.ndarray) -> list[float]:
    """Return Jaccard and MRR of the neighbors found for some rows, beside those that the target itself has.

    >>> measured(np.asarray([[4, 2]]), np.asarray([[4, 3]]), np.asarray([2]))
    [0.333..., 0.5]
    """
    places = found == queries[:, None]
    reciprocal = np.where(places.any(axis=1), 1 / (1 + places.argmax(axis=1)), 0.0)
    return [shared_neighbors(found, true), float(reciprocal.mean())]


def shared_neighbors(a: np.ndarray, b: np.ndarray) -> float:
    """Return the mean Jaccard similarity of two lists of neighbors per row.

    >>> shared_neighbors(np.asarray([[1, 2]]), np.asarray([[2, 3]]))
    0.333...
    """
    both = (a[:, :, None] == b[:, None, :]).sum(axis=(1, 2))
    return float(np.mean(both / (a.shape[1] + b.shape[1] - both)))


def own_neighbors_shared(x: np.ndarray, y: np.ndarray, queries: np.ndarray, k: int = K) -> float:
    """Return how far two spaces agree on who is near whom, each asked in its own vectors."""
    return shared_neighbors(*(rl.evaluate.nearest(a[queries], a, k).indices for a in (x, y)))


def sample(n: int, size: int) -> np.ndarray:
    """Return the rows that are looked up: the same for every seed, so that seeds differ by their anchors alone."""
    return np.sort(np.random.default_rng(QUERIES).choice(n, min(size, n), replace=False))


def mean_of(scores: Mapping[Any, np.ndarray], measure: str, keys: Sequence[Any]) -> list[float]:
    """Return the mean over seeds of one measure, for each of some keys."""
    return [float(scores[key][:, MEASURES.index(measure)].mean()) for key in keys]
