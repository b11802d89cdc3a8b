"""What the page asks for, as JSON: the items, where each layout draws them, and the neighbors of one."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._errors import needs
from relatent._linalg import Plane
from relatent.explore.scene import Fit, HeldOut, Scene, fit_anchors, fit_given, neighbors_of
from relatent.project import RelativeProjection
from relatent.spaces import Space
from relatent.translate import Translator
from relatent.translate.endpoints import Side

# The number of anchors that stands for the given translator.
GIVEN = 0
DEFAULT_ANCHORS = 300
MIN_ANCHORS = 5
# Fits that are kept, so that moving a slider back costs nothing.
MAX_FITS = 16
# t-SNE of more items than this takes minutes.
TSNE_ITEMS = 5_000


class Exploration:
    """A scene and its fits.

    ``translator`` translates the first space into the last, and its parameters are those of every refit. Without it,
    affine translators, which are fast enough to follow a slider, are fitted on anchors of the scene.

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
        self._kept: Callable[[int], Fit] = lru_cache(MAX_FITS)(self._fit)

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
        """Join spaces and sample them (:meth:`Scene.of`); a translator fitted on other spaces is refused.

        ``accept`` allows spaces whose fingerprints differ from those of the translator.
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
        """What the page starts with: the given translator, or the default number of anchors."""
        return self._default_k if self.given is None else GIVEN

    def about(self) -> dict[str, Any]:
        """Return what does not change: spaces, keys, labels, layouts, limits."""
        scene = self.scene
        return {
            "spaces": [{"name": name, "dim": x.shape[1]} for name, x in scene.vectors.items()],
            "keys": scene.keys,
            "labels": scene.labels,
            "labelName": scene.label_name,
            "total": scene.total,
            "anchors": {"min": min(MIN_ANCHORS, len(scene.anchors)), "max": len(scene.anchors)},
            "k": self.start_k,
            "defaultK": self._default_k,
            "translator": None if self.given is None else repr(self.given),
            "layouts": [
                {"name": name, "title": layout.title, "missing": layout.missing(scene)}
                for name, layout in LAYOUTS.items()
            ],
        }

    def view(self, layout: str, k: int) -> dict[str, Any]:
        """Return the positions of all items at both ends of the slider, and how well the translation fits."""
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
        """Return everything that a page without a server needs: fast layouts, and the neighbors of every item."""
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
    """Return an array as base64 of little-endian bytes, which a browser reads fast."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode()


def _check_kind(translator: Translator) -> None:
    if not isinstance(translator, Translator):
        raise ValueError(f"A {type(translator).__name__} was given: expected a Translator, as `relatent fit` writes.")
    if translator.target_map_ is not None:
        raise ValueError(
            "This translator maps queries and documents into a shared space, and the explorer shows the space of the "
            'target: fit a translator with goal="vectors" or frozen_target=True.'
        )


def _check_dimensions(translator: Translator, scene: Scene) -> None:
    dims = tuple(scene.vectors[name].shape[1] for name in (scene.sources[0], scene.target))
    fitted = translator.map_.dims_in, translator.map_.width
    if dims != fitted:
        raise ValueError(
            f"The translator maps {fitted[0]} to {fitted[1]} coordinates, and {scene.sources[0]} has {dims[0]} and "
            f"{scene.target} {dims[1]}: give the source first and the target last."
        )


@dataclass(frozen=True, eq=False)
class Panel:
    """Positions of the items of one space before and after translation, (n, 2) each."""

    start: np.ndarray
    end: np.ndarray


@dataclass(frozen=True)
class Layout:
    """A way to draw spaces: its title, its function, and why it is not available for some scenes."""

    title: str
    draw: Callable[[Scene, Fit], dict[str, Panel]]
    missing: Callable[[Scene], str] = lambda scene: ""
    static: bool = True
    """Whether it is fast enough to be part of every exported page."""


def layout_panels(scene: Scene, fit: Fit, name: str) -> dict[str, Panel]:
    """Return a panel per space."""
    if name not in LAYOUTS:
        raise ValueError(f"There is no layout {name!r}.{suggest(name, LAYOUTS)}")
    missing = LAYOUTS[name].missing(scene)
    if missing:
        raise ValueError(f"The layout {name!r} cannot be drawn: {missing}.")
    return LAYOUTS[name].draw(scene, fit)


def _own(scene: Scene, fit: Fit) -> dict[str, Panel]:
    """Draw every space by its own principal axes, and translations by those of the target."""
    return _into(scene, fit, {name: scene.planes[name](x) for name, x in scene.vectors.items()})


def _shared(scene: Scene, fit: Fit) -> dict[str, Panel]:
    """Draw every space by the principal axes of the target, which are meaningless for another model."""
    axes = scene.planes[scene.target]
    # The centers are moved to that of the target, so that every space is in view.
    centered = {name: x - scene.planes[name].mean + axes.mean for name, x in scene.vectors.items()}
    return _into(scene, fit, {name: axes(x) for name, x in centered.items()})


def _into(scene: Scene, fit: Fit, start: dict[str, np.ndarray]) -> dict[str, Panel]:
    plane = scene.planes[scene.target]
    own = plane(scene.vectors[scene.target])
    panels = {name: Panel(start[name], plane(fit.translated[name])) for name in scene.sources}
    return panels | {scene.target: Panel(own, own)}


def _relative(scene: Scene, fit: Fit) -> dict[str, Panel]:
    """Draw similarities to the anchors by the principal axes of the target's: no translator is needed."""
    vectors, projection = scene.vectors, RelativeProjection()
    relative = {name: np.asarray(projection.fit(x[fit.anchors]).transform(x)) for name, x in vectors.items()}
    plane = Plane.fit(relative[scene.target])
    return {name: Panel(scene.planes[name](x), plane(relative[name])) for name, x in scene.vectors.items()}


def _umap(scene: Scene, fit: Fit) -> dict[str, Panel]:
    """Draw every space by its own UMAP, and translations by that of the target."""
    umap = needs("umap", "umap", "draw by UMAP")
    fitted = {name: umap.UMAP(random_state=0, n_jobs=1).fit(x) for name, x in scene.vectors.items()}
    start = {name: _framed(model.embedding_) for name, model in fitted.items()}
    model, own = fitted[scene.target], start[scene.target]
    frame = Plane.fit(model.embedding_)
    panels = {name: Panel(start[name], frame(model.transform(fit.translated[name]))) for name in scene.sources}
    return panels | {scene.target: Panel(own, own)}


def _tsne(scene: Scene, fit: Fit) -> dict[str, Panel]:
    """Draw every space by its own t-SNE; at the end, the target and all translations by one t-SNE together."""
    start = {name: _framed(_embedded(x)) for name, x in scene.vectors.items()}
    together = np.concatenate([*(fit.translated[name] for name in scene.sources), scene.vectors[scene.target]])
    ends = np.split(_framed(_embedded(together)), len(scene.vectors))
    return {name: Panel(start[name], end) for name, end in zip(scene.vectors, ends, strict=True)}


def _embedded(x: np.ndarray) -> np.ndarray:
    from sklearn.manifold import TSNE

    return np.asarray(TSNE(random_state=0, init="pca", perplexity=min(30.0, (len(x) - 1) / 3)).fit_transform(x))


def _framed(points: np.ndarray) -> np.ndarray:
    return Plane.fit(points)(points)


def _other_dimensions(scene: Scene) -> str:
    dims = {name: x.shape[1] for name, x in scene.vectors.items()}
    if len(set(dims.values())) == 1:
        return ""
    return f"{', '.join(f'{name} has {d}' for name, d in dims.items())} coordinates: expected the same number"


def _no_umap(_: Scene) -> str:
    return "" if find_spec("umap") else "UMAP is not installed: pip install 'relatent[umap]'"


def _too_many(scene: Scene) -> str:
    return f"t-SNE of more than {TSNE_ITEMS:,} items takes minutes" if len(scene) > TSNE_ITEMS else ""


LAYOUTS: dict[str, Layout] = {
    "own": Layout("Each space by its own principal axes", _own),
    "shared": Layout("All by the target's principal axes", _shared, _other_dimensions),
    "relative": Layout("Similarities to the anchors", _relative),
    "umap": Layout("UMAP", _umap, _no_umap, static=False),
    "tsne": Layout("t-SNE", _tsne, _too_many, static=False),
}
