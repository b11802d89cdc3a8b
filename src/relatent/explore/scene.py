"""What is explored: the items that all spaces share, or a sample of them, and translations fitted on their anchors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import clone

from relatent._array import suggest
from relatent._linalg import Plane, unit_norm
from relatent.anchors import uniform
from relatent.evaluate.neighbors import nearest, without_own
from relatent.spaces import Space, key_hashes
from relatent.spaces.join import common_rows
from relatent.spaces.sample import shuffled_rows
from relatent.translate import Translator

# Columns that are used as labels unless one is named.
LABEL_NAMES = ("label", "class", "category", "topic", "language")
MAX_ANCHORS = 2_000
# A browser gives a page few drawing contexts, and more panels could not be told apart.
MIN_SPACES, MAX_SPACES = 2, 6
MIN_ITEMS = 10
# Neighbors of an item that are shown and compared.
NEIGHBORS = 10
# Held-out items whose neighbors are compared after each fit: enough for two digits, few enough to follow a slider.
QUERIES = 300


@dataclass(frozen=True, eq=False)
class Scene:
    """Items with their vectors in every space. The last space is the target that the others are translated into."""

    vectors: dict[str, np.ndarray]
    keys: list[str]
    labels: list[str] | None
    label_name: str | None
    anchors: np.ndarray
    """Rows to fit on, in the order in which they are added."""
    total: int
    """Number of items that all spaces share, of which the rows here may be a sample."""

    @classmethod
    def of(
        cls,
        spaces: Sequence[Space],
        *,
        label: str | None = None,
        seen_keys: np.ndarray | None = None,
        points: int = 20_000,
        seed: int = 0,
    ) -> Scene:
        """Join spaces on their keys and draw at most ``points`` of their items by the seed.

        ``seen_keys`` are hashes of keys that a translator was fitted on (``seen_keys_``): these are the anchors, and
        up to half of the points are kept for them. Without it, the anchors are drawn from half of the items.
        """
        named = _named(spaces)
        rows = dict(zip(named, common_rows(*named.values()), strict=True))
        first = next(iter(named))
        keys, total = named[first].keys[rows[first]], len(rows[first])
        if total < MIN_ITEMS:
            raise ValueError(f"The spaces share {total} items: expected at least {MIN_ITEMS}.")
        seen = np.zeros(total, bool) if seen_keys is None else np.isin(key_hashes(keys), seen_keys)
        chosen = _sampled(seen, points, seed)
        rows = {name: taken[chosen] for name, taken in rows.items()}
        label_name, labels = _labels(named, rows, label)
        return cls(
            vectors={name: _checked(space, rows[name]) for name, space in named.items()},
            keys=[str(key) for key in keys[chosen]],
            labels=labels,
            label_name=label_name,
            anchors=_anchors(seen[chosen], seed),
            total=total,
        )

    @property
    def target(self) -> str:
        """The name of the space that the others are translated into."""
        return list(self.vectors)[-1]

    @property
    def sources(self) -> list[str]:
        """The names of the other spaces."""
        return list(self.vectors)[:-1]

    @property
    def held_out(self) -> np.ndarray:
        """The rows that no translator is fitted on; all rows if each is an anchor."""
        rest = np.setdiff1d(np.arange(len(self)), self.anchors)
        return rest if len(rest) else np.arange(len(self))

    @cached_property
    def planes(self) -> dict[str, Plane]:
        """The principal axes of every space."""
        return {name: Plane.fit(x) for name, x in self.vectors.items()}

    def __len__(self) -> int:
        return len(self.keys)


@dataclass(frozen=True)
class Score:
    """Similarity of a translated source to the target, on held-out items."""

    cosine: float
    """Mean cosine between an item's translation and its own vector in the target."""
    before: float
    """Share of an item's neighbors within the source that are also its neighbors in the target."""
    after: float
    """The same for its translation, searched among the target's vectors."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The anchors of a fit, and the translation of each source."""

    anchors: np.ndarray
    translated: dict[str, np.ndarray]
    error: dict[str, np.ndarray]
    """One minus the cosine between each item's translation and its own vector in the target."""
    score: dict[str, Score]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Items to score fits on, and their neighbors before translation, which no fit changes."""

    rows: np.ndarray
    target: np.ndarray
    before: dict[str, float]
    """For each source, the share of neighbors that it has in common with the target."""

    @classmethod
    def of(cls, scene: Scene, seed: int = 0) -> HeldOut:
        """Draw items that no translator is fitted on."""
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
    score = {}
    for name, rows in translated.items():
        after = _shared(neighbors_of(rows, target, held_out.rows), held_out.target)
        score[name] = Score(float(1 - np.mean(error[name][scene.held_out])), held_out.before[name], after)
    return Fit(anchors, translated, error, score)


def neighbors_of(queries: np.ndarray, gallery: np.ndarray, rows: Any) -> np.ndarray:
    """Return the nearest items of the gallery for some rows of the queries, without the items themselves."""
    rows = np.asarray(rows)
    found = nearest(queries[rows], gallery, min(NEIGHBORS + 1, len(gallery)))
    return without_own(found, rows).indices


def _shared(found: np.ndarray, own: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, own, strict=True)]))


def _named(spaces: Sequence[Space]) -> dict[str, Space]:
    """Return spaces by name; equal names are numbered."""
    if not MIN_SPACES <= len(spaces) <= MAX_SPACES:
        raise ValueError(f"{len(spaces)} spaces were given: expected {MIN_SPACES} to {MAX_SPACES}.")
    named: dict[str, Space] = {}
    for i, space in enumerate(spaces, start=1):
        name = space.name or f"space {i}"
        named[f"{name} ({i})" if name in named else name] = space
    return named


def _sampled(seen: np.ndarray, points: int, seed: int) -> np.ndarray:
    """Return the rows to keep, sorted: anchors up to half of the points, others for the rest."""
    if len(seen) <= points:
        return np.arange(len(seen))
    rng = np.random.default_rng(seed)
    anchors, others = rng.permutation(np.flatnonzero(seen)), rng.permutation(np.flatnonzero(~seen))
    kept = anchors[: max(points // 2, points - len(others))]
    return np.sort(np.concatenate([kept, others[: points - len(kept)]]))


def _anchors(seen: np.ndarray, seed: int) -> np.ndarray:
    """Return the rows to fit on in a random order, so that k + 1 anchors contain the first k."""
    if seen.any():
        return shuffled_rows(np.flatnonzero(seen), MAX_ANCHORS, seed)
    return uniform(np.empty((len(seen), 1)), min(MAX_ANCHORS, len(seen) // 2), seed=seed)


def _labels(
    spaces: dict[str, Space], rows: dict[str, np.ndarray], wanted: str | None
) -> tuple[str | None, list[str] | None]:
    """Return the name and the values of the column of labels, of the first space that has it."""
    for name in LABEL_NAMES if wanted is None else (wanted,):
        for which, space in spaces.items():
            if name in space.schema.names:
                values = space.others.column(name).take(pa.array(rows[which]))
                return name, [str(value) for value in values.to_pylist()]
    if wanted is None:
        return None, None
    every = dict.fromkeys(name for space in spaces.values() for name in space.schema.names)
    raise ValueError(f"There is no column {wanted!r} to color by.{suggest(wanted, every)}")


def _checked(space: Space, rows: np.ndarray) -> np.ndarray:
    """Return the vectors of some rows in float32, which is enough to draw and compare them."""
    with np.errstate(over="ignore"):
        found = space.take(rows).astype(np.float32)
    if not np.isfinite(found).all():
        raise ValueError(
            f"The vectors of {space.name} hold NaN, infinity, or numbers beyond float32: leave those rows out."
        )
    return found
