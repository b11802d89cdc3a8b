"""One autoencoder, several seeds: figures 1 and 5 of Moschella et al., ICLR 2023.

The same autoencoder of MNIST is trained from several seeds, with a bottleneck of 2 coordinates (figure 1, shown as they
are) and of many (figure 5: principal axes of each space, and those of the first space applied to all; and, not in the
paper, the same of relative representations). The table says by how much the spaces differ: the cosine of the same
image's vectors in two spaces (centered), after the best rotation and scale, the correlation of the distances between
images, and the similarity of relative representations; beside it, what unrelated rows score.

    python -m experiments rr-figure1 [--full]
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import torch
from experiments.data.images import Images, load_images
from experiments.figures import panels
from experiments.models.autoencoder import fitted
from experiments.relative_representations.autoencoders import FULL, QUICK, TESTED
from experiments.relative_representations.points import draw_digits, pack
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.decomposition import PCA

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANCHORS, ALIKE = 100, 0.8
COLUMNS = ("as they are", "rotated and scaled", "distances correlate", "relative")
CLAIMS = {
    "rotated and scaled": "trainings of one network differ by a nearly isometric transformation",
    "distances correlate": "the distances between images are about the same in all trainings",
    "relative": "relative representations of two trainings agree",
}


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
    unrelated = {
        width: np.asarray([compared(x, np.roll(x, 1, axis=0)) for x in found]) for width, found in spaces.items()
    }
    rows = [
        [f"{width}", name, *map(spread, found[width].T)]
        for width in spaces
        for name, found in (("two seeds", scores), ("unrelated rows", unrelated))
    ]
    return Result(
        [Table("Latent spaces of two seeds, test images", ("bottleneck", "compared", *COLUMNS), rows)],
        [
            finding
            for width, where in ((2, "in the plane"), (how.latent, f"with {how.latent} coordinates"))
            for finding in findings(where, scores[width].mean(axis=0), unrelated[width].mean(axis=0))
        ],
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


def findings(where: str, found: np.ndarray, unrelated: np.ndarray) -> list[Finding]:
    """Judge the measures of two trainings, beside those of unrelated rows."""
    return [
        Finding(
            f"{claim}, {where}",
            bool(found[i] > ALIKE),
            f"{column} {found[i]:.2f}, of unrelated rows {unrelated[i]:.2f}; cosine as they are {found[0]:.2f}",
        )
        for i, column in enumerate(COLUMNS)
        if (claim := CLAIMS.get(column))
    ]


def pictured(images: Images, planes: list[np.ndarray], wide: list[np.ndarray]) -> dict[str, object]:
    """Return the planes, and the wide spaces on principal axes: of each, of the first, and relative."""
    own = [PCA(2, random_state=0).fit_transform(x) for x in wide]
    rows = rl.anchors.uniform(wide[0], ANCHORS, seed=0)
    relative = [rl.RelativeProjection().fit(x[rows]).transform(x) for x in wide]
    width = wide[0].shape[1]
    found = {
        "2, as they are": planes,
        # The sign of an axis means nothing: take the one that resembles the first space.
        f"{width}, own axes": [x * np.sign(np.sum(x * own[0], axis=0)) for x in own],
        f"{width}, axes of the first": on_axes_of_first(wide),
        f"{width}, relative, first's axes": on_axes_of_first(relative),
    }
    return {"labels": images.test_labels, "planes": {name: list(map(pack, spaces)) for name, spaces in found.items()}}


def on_axes_of_first(spaces: list[np.ndarray]) -> list[np.ndarray]:
    """Project every space onto the two principal axes of the first."""
    axes = PCA(2, random_state=0).fit(spaces[0])
    return [axes.transform(x) for x in spaces]


def draw(result: Result) -> Figure:
    """Draw a column per seed."""
    planes, labels = result.series["planes"], np.asarray(result.series["labels"])
    figure, axes = panels(len(planes), result.seeds, size=(2.1, 2.0))
    for row, (kind, spaces) in zip(axes, planes.items(), strict=True):
        row[0].set_ylabel(kind)
        for panel, points in zip(row, spaces, strict=True):
            draw_digits(panel, points, labels)
    for seed, panel in enumerate(axes[0]):
        panel.set_title(f"seed {seed}")
    return figure
