"""Translations of every source into the target: refitted on so many anchors, or by a given translator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from relatent._linalg import unit_norm
from relatent.evaluate import nearest
from relatent.explore.scene import Scene
from relatent.translate import Translator

__all__ = ["NEIGHBORS", "Fit", "Score", "fit_anchors", "neighbors_of", "with_given"]

# Neighbors of an item that are shown and compared.
NEIGHBORS = 10
# Held-out items whose neighbors are compared after each fit: enough for two digits, few enough to follow a slider.
QUERIES = 300


@dataclass(frozen=True)
class Score:
    """How alike a translated source and the target are, on held-out items."""

    cosine: float
    """Mean cosine between an item's translation and its own vector in the target."""
    before: float
    """Share of an item's neighbors within the source that are its neighbors in the target too."""
    after: float
    """The same for its translation, searched among the target's vectors."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The anchors that were fitted on, and what each source becomes."""

    anchors: np.ndarray
    translated: dict[str, np.ndarray]
    error: dict[str, np.ndarray]
    """One minus the cosine between each item's translation and its own vector in the target."""
    score: dict[str, Score]


def fit_anchors(scene: Scene, k: int, model: Translator) -> Fit:
    """Fit every source to the target on the first k anchors, with the parameters of a translator."""
    if not 2 <= k <= len(scene.anchors):
        raise ValueError(f"{k} anchors were asked for: expected 2 to {len(scene.anchors)}.")
    rows = scene.anchors[:k]
    target = scene.vectors[scene.target][rows]
    translators = {name: _copy(model).fit(scene.vectors[name][rows], target) for name in scene.sources}
    return _fit(scene, rows, translators)


def with_given(scene: Scene, given: Translator, fitted: Fit) -> Fit:
    """Return a fit in which the first source is translated by a given translator."""
    first = _fit(scene, scene.anchors, {scene.sources[0]: given})
    return Fit(
        first.anchors,
        fitted.translated | first.translated,
        fitted.error | first.error,
        fitted.score | first.score,
    )


def _fit(scene: Scene, anchors: np.ndarray, translators: dict[str, Translator]) -> Fit:
    target = scene.vectors[scene.target]
    translated = {name: np.asarray(t.transform(scene.vectors[name])) for name, t in translators.items()}
    error = {name: 1 - np.sum(unit_norm(rows) * unit_norm(target), axis=1) for name, rows in translated.items()}
    score = {name: _score(scene, name, rows, error[name]) for name, rows in translated.items()}
    return Fit(anchors, translated, error, score)


def _score(scene: Scene, name: str, translated: np.ndarray, error: np.ndarray) -> Score:
    held_out = scene.held_out
    rows = np.random.default_rng(0).permutation(held_out)[:QUERIES]
    source, target = scene.vectors[name], scene.vectors[scene.target]
    own = neighbors_of(target, target, rows)
    before, after = (neighbors_of(*pair, rows) for pair in ((source, source), (translated, target)))
    return Score(float(1 - np.mean(error[held_out])), _shared(before, own), _shared(after, own))


def neighbors_of(queries: np.ndarray, gallery: np.ndarray, rows: Any) -> np.ndarray:
    """Return the nearest items of the gallery for some rows of the queries, without the items themselves."""
    rows = np.asarray(rows)
    k = min(NEIGHBORS, len(gallery) - 1)
    found = nearest(queries[rows], gallery, k + 1).indices
    own = found == rows[:, None]
    own[:, -1] |= ~own.any(axis=1)  # an item that is not among them gives way to the last
    return np.asarray(found[~own].reshape(len(rows), k))


def _shared(found: np.ndarray, own: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, own, strict=True)]))


def _copy(model: Translator) -> Translator:
    copy: Translator = clone(model)
    return copy
