"""One autoencoder, several seeds: figures 1 and 5 of Moschella et al., ICLR 2023.

The same autoencoder of MNIST is trained from several seeds, with a bottleneck of 2 coordinates (figure 1, shown as they
are) and of many (figure 5: principal axes of each space, and those of the first space applied to all; and, not in the
paper, the same of relative representations). The table says by how much the spaces differ: the cosine of the same
image's vectors in two spaces (centered), after the best rotation and scale, the correlation of the distances between
images, and the similarity of relative representations.

    python -m experiments rr-figure1 [--full]
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import torch
from experiments.data.images import Images, load_images
from experiments.figures import numerals, panels
from experiments.models.autoencoder import fitted
from experiments.relative_representations.autoencoders import FULL, QUICK, TESTED
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.decomposition import PCA

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANCHORS, SHOWN, COLUMNS_SHOWN = 100, 70, 3
COLUMNS = ("as they are", "rotated and scaled", "distances correlate", "relative")


def run(setting: Setting) -> Result:
    """Train from each seed, compare every two spaces, and keep a sample of each."""
    torch.set_num_threads(1)
    how, seeds = setting.pick(quick=(QUICK, 5), full=(FULL, 5))
    images = load_images("MNIST", how.images, TESTED)
    settings = {2: replace(how, latent=2, steps=3 * how.steps, gelu=False), how.latent: how}
    spaces = {
        width: [embedded(fitted(images, one, seed, setting.models), images) for seed in range(seeds)]
        for width, one in settings.items()
    }
    scores = {width: np.asarray([compared(x, y) for x, y in combinations(s, 2)]) for width, s in spaces.items()}
    unrelated = np.asarray([compared(x, np.roll(x, 1, axis=0)) for x in spaces[how.latent]])
    rows = [[f"{width}", "two seeds", *map(spread, found.T)] for width, found in scores.items()]
    rows.append([f"{how.latent}", "unrelated rows", *map(spread, unrelated.T)])
    return Result(
        [Table("Latent spaces of two seeds, test images", ("bottleneck", "compared", *COLUMNS), rows)],
        findings(scores[2].mean(axis=0), scores[how.latent].mean(axis=0)),
        seeds=seeds,
        data=[f"MNIST: {how.images or 'all'} images to train, {TESTED} to compare"],
        series=pictured(images, spaces[2], spaces[how.latent]),
    )


@torch.no_grad()
def embedded(model: torch.nn.Module, images: Images) -> np.ndarray:
    """Return the latent vectors of the test images."""
    return model.encoder(torch.from_numpy(images.test)).numpy()


def compared(x: np.ndarray, y: np.ndarray) -> list[float]:
    """Return how similar two spaces are: as they are, rotated and scaled, by distances, and relative."""
    rows = rl.anchors.uniform(x, ANCHORS, seed=0)
    centered = (one - one.mean(axis=0) for one in (x, y))
    rotated = 1 - rl.evaluate.procrustes(x, y, distance="squared") / 2
    distances = rl.evaluate.rsa(x, y, dissimilarity="euclidean", correlation="pearson")
    similar = rl.evaluate.relative_similarity(x, y, rows)
    return [float(value) for value in (rl.evaluate.mean_cosine(*centered), rotated, distances, similar)]


def findings(plane: np.ndarray, wide: np.ndarray) -> list[Finding]:
    """Judge what the figures show."""
    return [
        Finding(
            "trainings of one autoencoder give one space, up to a nearly isometric transformation",
            bool(abs(wide[0]) < 0.3 and wide[1] > 0.8),
            f"500 coordinates: cosine {wide[0]:.2f} as they are, {wide[1]:.2f} rotated; "
            f"in the plane {plane[0]:.2f} and {plane[1]:.2f}",
        ),
        Finding(
            "relative representations of two trainings agree",
            bool(wide[3] > 0.8),
            f"similarity {wide[3]:.2f} with 500 coordinates, {plane[3]:.2f} in the plane",
        ),
    ]


def pictured(images: Images, planes: list[np.ndarray], wide: list[np.ndarray]) -> dict[str, object]:
    """Return samples of the planes, and of the wide spaces on principal axes: of each, of the first, and relative."""
    own = [PCA(2, random_state=0).fit_transform(x) for x in wide]
    rows = rl.anchors.uniform(wide[0], ANCHORS, seed=0)
    relative = [rl.RelativeProjection().fit(x[rows]).transform(x) for x in wide]
    found = {
        "2 coordinates, as they are": planes,
        # The sign of an axis means nothing: take the one that resembles the first space.
        "500, principal axes of each": [x * np.sign(np.sum(x * own[0], axis=0)) for x in own],
        "500, axes of the first": on_axes_of_first(wide),
        "500, relative, axes of the first": on_axes_of_first(relative),
    }
    shown = {name: [x[:SHOWN] for x in spaces[:COLUMNS_SHOWN]] for name, spaces in found.items()}
    return {"labels": images.test_labels[:SHOWN], "planes": shown}


def on_axes_of_first(spaces: list[np.ndarray]) -> list[np.ndarray]:
    """Project every space onto the two principal axes of the first."""
    axes = PCA(2, random_state=0).fit(spaces[0])
    return [axes.transform(x) for x in spaces]


def draw(result: Result) -> Figure:
    """Draw a column per seed."""
    planes, labels = result.series["planes"], result.series["labels"]
    figure, axes = panels(len(planes), COLUMNS_SHOWN, size=(2.9, 2.2))
    for row, (kind, spaces) in zip(axes, planes.items(), strict=True):
        for seed, (panel, points) in enumerate(zip(row, spaces, strict=True)):
            numerals(panel, np.asarray(points), labels, f"{kind}, seed {seed}")
    return figure
