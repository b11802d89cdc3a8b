"""Translations of every source into the target: refitted on so many anchors, or by a given translator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from relatent._linalg import unit_norm
from relatent.evaluate import nearest
from relatent.explore.scene import Scene
from relatent.spaces.sample import shuffled_rows
from relatent.translate import Translator

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


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Items that every fit is judged by, and their neighbors as they are, which no fit changes."""

    rows: np.ndarray
    target: np.ndarray
    before: dict[str, float]
    """For each source, the share of neighbors that it has in common with the target."""

    @classmethod
    def of(cls, scene: Scene, seed: int = 0) -> HeldOut:
        """Draw items that nothing is fitted on."""
        rows = shuffled_rows(scene.held_out, QUERIES, seed)
        own = {name: neighbors_of(x, x, rows) for name, x in scene.vectors.items()}
        target = own[scene.target]
        return cls(rows, target, {name: _shared(own[name], target) for name in scene.sources})


def fit_anchors(scene: Scene, held_out: HeldOut, k: int, model: Translator) -> Fit:
    """Fit every source to the target on the first k anchors, with the parameters of a translator."""
    if not 2 <= k <= len(scene.anchors):
        raise ValueError(f"{k} anchors were asked for: expected 2 to {len(scene.anchors)}.")
    rows = scene.anchors[:k]
    return _fit(scene, held_out, rows, _fitted(scene, scene.sources, rows, model))


def fit_given(scene: Scene, held_out: HeldOut, given: Translator) -> Fit:
    """Translate the first source by a given translator, and fit the others on all anchors."""
    others = _fitted(scene, scene.sources[1:], scene.anchors, given)
    return _fit(scene, held_out, scene.anchors, {scene.sources[0]: given, **others})


def _fitted(scene: Scene, sources: list[str], rows: np.ndarray, model: Translator) -> dict[str, Translator]:
    target = scene.vectors[scene.target][rows]
    return {name: clone(model).fit(scene.vectors[name][rows], target) for name in sources}


def _fit(scene: Scene, held_out: HeldOut, anchors: np.ndarray, translators: dict[str, Translator]) -> Fit:
    target = scene.vectors[scene.target]
    translated = {name: np.asarray(t.transform(scene.vectors[name])) for name, t in translators.items()}
    error = {name: 1 - np.sum(unit_norm(rows) * unit_norm(target), axis=1) for name, rows in translated.items()}
    after = {name: neighbors_of(rows, target, held_out.rows) for name, rows in translated.items()}
    score = {
        name: Score(
            float(1 - np.mean(error[name][scene.held_out])),
            held_out.before[name],
            _shared(after[name], held_out.target),
        )
        for name in translated
    }
    return Fit(anchors, translated, error, score)


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
