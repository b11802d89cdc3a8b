"""What the page asks for: the items, where to draw them, and the neighbors of one; as JSON can hold it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any

import numpy as np

from relatent.explore.fits import Fit, HeldOut, fit_anchors, fit_given, neighbors_of
from relatent.explore.layouts import LAYOUTS, layout_panels
from relatent.explore.scene import Scene
from relatent.spaces import Space
from relatent.translate import Translator
from relatent.translate.endpoints import Side

# The number of anchors that stands for the translator that was given.
GIVEN = 0
DEFAULT_ANCHORS = 300
MIN_ANCHORS = 5
# Fits that are kept, so that moving a slider back costs nothing.
KEPT = 16


class Exploration:
    """A scene and the fits that were asked for so far.

    ``translator`` translates the first space into the last; without it, translators are fitted on anchors of the
    scene. Its parameters are those of every refit. Affine maps are fast enough to follow a slider, and the default.

    >>> from relatent.spaces import Space
    >>> x = np.random.default_rng(0).normal(size=(40, 3))
    >>> exploration = Exploration.of([Space(x, name="old"), Space(2 * x[:, ::-1], name="new")])
    >>> exploration.about()["spaces"]
    [{'name': 'old', 'dim': 3}, {'name': 'new', 'dim': 3}]
    """

    def __init__(self, scene: Scene, translator: Translator | None = None) -> None:
        self.scene, self.given = scene, translator
        self.model = Translator(max_cost="affine") if translator is None else translator
        if translator is not None:
            _check_kind(translator)
            _check_dimensions(translator, scene)
        self._lock = Lock()  # requests come in threads, and two fits at once would only slow each other down
        self._kept: Callable[[int], Fit] = lru_cache(KEPT)(self._fit)

    @classmethod
    def of(
        cls,
        spaces: Sequence[Space],
        translator: Translator | None = None,
        *,
        label: str | None = None,
        points: int = 20_000,
        accept: bool = False,
        seed: int = 0,
    ) -> Exploration:
        """Join spaces and sample them (:meth:`Scene.of`); a translator that was fitted on others is refused.

        ``accept`` takes spaces that look like another model's.
        """
        if translator is not None:
            _check_kind(translator)
            sides: tuple[tuple[Space, Side], ...] = ((spaces[0], "source"), (spaces[-1], "target"))
            for space, side in sides:
                (translator.accept(space) if accept else translator).endpoints_.check(space, side)
        seen = None if translator is None else translator.seen_keys_
        return cls(Scene.of(spaces, label=label, seen_keys=seen, points=points, seed=seed), translator)

    def fit(self, k: int) -> Fit:
        """Return the fit on the first k anchors, or that of the given translator for 0."""
        with self._lock:
            return self._kept(k)

    def _fit(self, k: int) -> Fit:
        if k != GIVEN:
            return fit_anchors(self.scene, self._held_out, k, self.model)
        if self.given is None:
            raise ValueError("No translator was given: ask for a number of anchors.")
        return fit_given(self.scene, self._held_out, self.given)

    @cached_property
    def _held_out(self) -> HeldOut:
        return HeldOut.of(self.scene)

    @property
    def _default_k(self) -> int:
        return min(DEFAULT_ANCHORS, len(self.scene.anchors))

    @property
    def start_k(self) -> int:
        """What the page begins with: the given translator, or a usual number of anchors."""
        return self._default_k if self.given is None else GIVEN

    def about(self) -> dict[str, Any]:
        """Return what does not change: spaces, keys, labels, ways to draw, limits."""
        scene = self.scene
        return {
            "spaces": [{"name": name, "dim": x.shape[1]} for name, x in scene.vectors.items()],
            "keys": scene.keys,
            "labels": scene.labels,
            "labelName": scene.label_name,
            "total": scene.total,
            "anchors": {"fewest": min(MIN_ANCHORS, len(scene.anchors)), "most": len(scene.anchors)},
            "k": self.start_k,
            "usualK": self._default_k,
            "translator": None if self.given is None else repr(self.given),
            "layouts": [
                {"name": name, "words": layout.words, "missing": layout.missing(scene)}
                for name, layout in LAYOUTS.items()
            ],
        }

    def view(self, layout: str, k: int) -> dict[str, Any]:
        """Return where to draw every item, at both ends of the slider, and how well the translation fits."""
        fit = self.fit(k)
        panels = layout_panels(self.scene, fit, layout)
        return {
            "layout": layout,
            "k": k,
            "anchors": fit.anchors.tolist(),
            "panels": [{"start": packed(p.start), "end": packed(p.end)} for p in panels.values()],
            "errors": [packed(fit.error[name]) for name in self.scene.sources],
            "scores": [asdict(fit.score[name]) for name in self.scene.sources],
        }

    def neighbors(self, row: int, k: int) -> dict[str, Any]:
        """Return the nearest items of one: within each source, after its translation, and within the target."""
        if not 0 <= row < len(self.scene):
            raise ValueError(f"There is no row {row}: expected 0 to {len(self.scene) - 1}.")
        return {name: found[0].tolist() for name, found in self._lists([row], k).items()}

    def everything(self, k: int) -> dict[str, Any]:
        """Return all that a page without a server needs: fast layouts, and the neighbors of every item."""
        layouts = [name for name, layout in LAYOUTS.items() if layout.static and not layout.missing(self.scene)]
        rows = np.arange(len(self.scene))
        return {
            "about": self.about() | {"k": k},
            "views": {name: self.view(name, k) for name in layouts},
            "neighbors": {name: packed(found, "<u4") for name, found in self._lists(rows, k).items()},
        }

    def _lists(self, rows: Any, k: int) -> dict[str, np.ndarray]:
        """Return neighbors by the name of their list: "before i" and "after i" of source i, and "target"."""
        fit, scene = self.fit(k), self.scene
        target = scene.vectors[scene.target]
        lists = {"target": neighbors_of(target, target, rows)}
        for i, name in enumerate(scene.sources):
            source = scene.vectors[name]
            lists[f"before {i}"] = neighbors_of(source, source, rows)
            lists[f"after {i}"] = neighbors_of(fit.translated[name], target, rows)
        return lists


def packed(array: np.ndarray, dtype: str = "<f4") -> str:
    """Return numbers as base64 of little-endian bytes, which a browser reads at once."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode()


def _check_kind(translator: Translator) -> None:
    if not isinstance(translator, Translator):
        raise ValueError(f"A {type(translator).__name__} was given: expected a Translator, as `relatent fit` writes.")
    if translator.target_map_ is not None:
        raise ValueError(
            "This translator moves both sides, so that nothing stays where the target is: fit one with "
            'goal="vectors" or with frozen_target=True to see it.'
        )


def _check_dimensions(translator: Translator, scene: Scene) -> None:
    dims = tuple(scene.vectors[name].shape[1] for name in (scene.sources[0], scene.target))
    fitted = translator.map_.dims_in, translator.map_.width
    if dims != fitted:
        raise ValueError(
            f"The translator maps {fitted[0]} to {fitted[1]} coordinates, and {scene.sources[0]} has {dims[0]} and "
            f"{scene.target} {dims[1]}: give the source first and the target last."
        )
