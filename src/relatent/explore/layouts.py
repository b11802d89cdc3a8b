"""Where items are drawn: at the start and at the end of the slider, by several ways to make a plane of a space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from relatent._errors import needs
from relatent._linalg import Plane
from relatent.explore.fits import Fit
from relatent.explore.scene import Scene
from relatent.project import RelativeProjection

# t-SNE of more items than this takes minutes.
TSNE_ITEMS = 5_000


@dataclass(frozen=True, eq=False)
class Panel:
    """Where the items of one space are drawn: as they are, and after translation, (n, 2) each."""

    start: np.ndarray
    end: np.ndarray


@dataclass(frozen=True)
class Layout:
    """A way to draw spaces, in words, and why it cannot be had for some of them."""

    words: str
    draw: Callable[[Scene, Fit], dict[str, Panel]]
    missing: Callable[[Scene], str] = lambda scene: ""
    static: bool = True
    """Whether it is fast enough to be drawn for every exported page."""


def layout_panels(scene: Scene, fit: Fit, name: str) -> dict[str, Panel]:
    """Return a panel per space."""
    if name not in LAYOUTS:
        raise ValueError(f"There is no layout {name!r}: expected one of {', '.join(LAYOUTS)}.")
    missing = LAYOUTS[name].missing(scene)
    if missing:
        raise ValueError(f"The layout {name!r} cannot be drawn: {missing}.")
    return LAYOUTS[name].draw(scene, fit)


def _own(scene: Scene, fit: Fit) -> dict[str, Panel]:
    """Draw every space by its own principal axes, and translations by those of the target."""
    return _into(scene, fit, {name: scene.planes[name](x) for name, x in scene.vectors.items()})


def _shared(scene: Scene, fit: Fit) -> dict[str, Panel]:
    """Draw every space by the principal axes of the target, which mean nothing to vectors of another model."""
    axes = scene.planes[scene.target]
    # Only the middle of a space is moved to that of the target, so that it is seen at all.
    centered = {name: x - scene.planes[name].mean + axes.mean for name, x in scene.vectors.items()}
    return _into(scene, fit, {name: axes(x) for name, x in centered.items()})


def _into(scene: Scene, fit: Fit, start: dict[str, np.ndarray]) -> dict[str, Panel]:
    plane = scene.planes[scene.target]
    own = plane(scene.vectors[scene.target])
    panels = {name: Panel(start[name], plane(fit.translated[name])) for name in scene.sources}
    return panels | {scene.target: Panel(own, own)}


def _relative(scene: Scene, fit: Fit) -> dict[str, Panel]:
    """Draw similarities to the anchors by the principal axes of the target's: no translator is needed for it."""
    relative = {name: _similarities(x, fit.anchors) for name, x in scene.vectors.items()}
    plane = Plane.fit(relative[scene.target])
    return {name: Panel(scene.planes[name](x), plane(relative[name])) for name, x in scene.vectors.items()}


def _similarities(x: np.ndarray, anchors: np.ndarray) -> np.ndarray:
    return np.asarray(RelativeProjection().fit(x[anchors]).transform(x))


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
    said = ", ".join(f"{name} has {d}" for name, d in dims.items())
    return f"{said} coordinates: the axes of {scene.target} mean nothing there" if len(set(dims.values())) > 1 else ""


def _no_umap(_: Scene) -> str:
    return "" if find_spec("umap") else "needs pip install 'relatent[umap]'"


def _too_many(scene: Scene) -> str:
    return f"t-SNE of more than {TSNE_ITEMS:,} items takes minutes" if len(scene) > TSNE_ITEMS else ""


LAYOUTS: dict[str, Layout] = {
    "own": Layout("Each space by its own principal axes", _own),
    "shared": Layout("All by the target's principal axes", _shared, _other_dimensions),
    "relative": Layout("Similarities to the anchors", _relative),
    "umap": Layout("UMAP", _umap, _no_umap, static=False),
    "tsne": Layout("t-SNE", _tsne, _too_many, static=False),
}
