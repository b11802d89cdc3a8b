"""The idea: one model, many coordinate systems
============================================

The same autoencoder, trained several times, arranges the data in nearly the same way every time, but rotated, mirrored
and stretched. Which items are close to each other stays the same, and that is enough to translate one model's vectors
into another's.
"""

# sphinx_gallery_thumbnail_number = 2

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import relatent as rl

torch.set_num_threads(1)
images, labels = load_digits(return_X_y=True)
shown = np.flatnonzero(np.isin(labels, [0, 2, 4, 6, 7]))
images, labels = torch.tensor(images[shown] / 16, dtype=torch.float32), labels[shown]


def trained_encoder(seed, width, steps=500):
    """Train an autoencoder from one seed and return the bottleneck vectors of all images."""
    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, width))
    decoder = nn.Sequential(nn.Linear(width, 96), nn.GELU(), nn.Linear(96, 96), nn.GELU(), nn.Linear(96, 64))
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 3e-3)
    for _ in range(steps):
        batch = images[torch.randint(len(images), (128,))]
        optimizer.zero_grad()
        nn.functional.mse_loss(decoder(encoder(batch)), batch).backward()
        optimizer.step()
    return encoder(images).detach().numpy()


def draw(axes, points):
    """Draw each digit in its own color, and write it where most of its images are."""
    for color, digit in enumerate(np.unique(labels)):
        some = points[labels == digit]
        axes.scatter(*some.T, s=5, color=f"C{color}", alpha=0.6, linewidths=0)
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1}
        axes.text(*np.median(some, axis=0), str(digit), color=f"C{color}", weight="bold", size=13, bbox=box)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)


# %%
# A bottleneck of two dimensions can be drawn as it is. Four trainings that differ only in their seed:

figure, row = plt.subplots(1, 4, figsize=(11, 3))
for seed, axes in enumerate(row):
    draw(axes, trained_encoder(seed, width=2))
    axes.set_title(f"training {seed + 1}")
plt.show()

# %%
# Twelve dimensions, all drawn in the plane in which the first space varies most. As they are, the spaces are unrelated.
# Cosines to 200 shared images are nearly the same in all of them, and nothing was fitted. A translator, fitted on 300
# shared images, maps each space into the first.

spaces = [trained_encoder(seed, width=12) for seed in range(4)]
far, near = rl.anchors.farthest_point(spaces[0], 200, seed=0), rl.anchors.kmeans(spaces[0], 300, seed=0)
relative = [rl.RelativeProjection().fit(x[far]).transform(x) for x in spaces]
translated = [rl.Translator().fit(x[near], spaces[0][near]).transform(x) for x in spaces]


def plane(x):
    """Return the mean of a space and the two directions in which it varies most."""
    center = x.mean(axis=0)
    return center, np.linalg.svd(x - center, full_matrices=False)[2][:2].T


figure, grid = plt.subplots(3, 4, figsize=(11, 8.4))
for row, (name, views) in zip(
    grid, {"as they are": spaces, "relative": relative, "translated": translated}.items(), strict=True
):
    center, axis = plane(views[0])
    for axes, view in zip(row, views, strict=True):
        draw(axes, (view - center) @ axis)
    row[0].set_ylabel(name, weight="bold", size=13)
for i, axes in enumerate(grid[0]):
    axes.set_title(f"training {i + 1}")
plt.show()

# %%
# How often the nearest vector of training 1 to a vector of training 2 belongs to the same image (self-retrieval@1):

for name, views in {"as they are": spaces, "relative": relative, "translated": translated}.items():
    print(f"{name:12} {rl.evaluate.top1(views[1], views[0]):.2f}")

# %%
# What a relative representation is, after figure 2 of the paper. Left: a space whose vectors lie on a sheet, with three
# anchors (stars) and one vector (dot). Middle: the cosines of the vector to the anchors. Right: the same three
# numbers as coordinates in a system whose axes belong to the anchors. The anchors are nearly orthogonal only for the
# picture.

rng = np.random.default_rng(0)
sheet = rng.dirichlet((0.8, 0.8, 0.8), 900) ** 0.5 * (1 + 0.06 * rng.normal(size=(900, 1)))
turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
cloud, stars, point = sheet @ turn, np.eye(3) @ turn, np.asarray([[0.45, 0.25, 0.86]]) @ turn
cosines = rl.relative_projection(point, stars)[0]
hues = ("C1", "C2", "C3")

figure = plt.figure(figsize=(11, 3.6))
left, right = figure.add_subplot(1, 3, 1, projection="3d"), figure.add_subplot(1, 3, 3, projection="3d")
left.scatter(*cloud.T, s=5, color="C7", alpha=0.7, linewidths=0)
left.scatter(*point.T, s=70, color="C0")
for star, hue in zip(stars, hues, strict=True):
    left.plot(*np.stack([point[0], star]).T, color=hue, linewidth=1.2, linestyle="--")
    left.scatter(*star, s=160, color=hue, marker="*")
left.set(xticks=[], yticks=[], zticks=[], title="a vector and three anchors")
bars = figure.add_subplot(1, 3, 2)
bars.bar(range(3), cosines, color=hues)
bars.set(xticks=range(3), xticklabels=["anchor 1", "anchor 2", "anchor 3"], ylim=(0, 1), title="its cosines")
for i, hue in enumerate(hues):
    axis, foot = np.zeros((2, 3)), cosines.copy()
    axis[1, i], foot[i] = 1.1, 0
    right.plot(*axis.T, color=hue)
    right.plot(*np.stack([cosines, foot]).T, color=hue, linewidth=1, linestyle=":")
right.scatter(*cosines, s=70, color="C0")
right.set(xticks=[], yticks=[], zticks=[], title="the cosines as coordinates")
plt.show()
