"""Invariances of cosines to anchors
=================================

A relative representation does not change when a space is rotated or rescaled, because its anchors change with it. An
offset does change it: all cosines move toward 1. Subtracting the mean of the anchors first removes the offset.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import relatent as rl

images, labels = load_digits(return_X_y=True)
order = np.argsort(labels[:300], kind="stable")
x = (images[:300] - images.mean(axis=0))[order]
anchors = np.arange(0, 300, 6)  # in the order of their digits, so that each digit is a block

rng = np.random.default_rng(0)
rotation = np.linalg.qr(rng.normal(size=(64, 64)))[0]
changes = {
    "as it is": lambda z: z,
    "rotated and rescaled": lambda z: 3 * z @ rotation,
    "shifted": lambda z: z + 8,
}


def raw(z):
    """Return cosines of the vectors as they are."""
    return rl.relative_projection(z, z[anchors])


def centered(z):
    """Return cosines after the anchors' mean is subtracted, the default of the estimator."""
    return rl.RelativeProjection().fit(z[anchors]).transform(z)


figure, grid = plt.subplots(2, 3, figsize=(10.5, 6.4))
for row, (name, project) in zip(grid, {"cosines": raw, "centered cosines": centered}.items(), strict=True):
    for axes, (change, apply) in zip(row, changes.items(), strict=True):
        picture = axes.imshow(project(apply(x)), aspect="auto", vmin=-1, vmax=1)
        moved = np.abs(project(apply(x)) - project(x)).mean()
        axes.set(xticks=[], yticks=[], xlabel=f"50 anchors; mean change {moved:.2f}", title=change)
    row[0].set_ylabel(f"{name}\n300 images of digits")
figure.colorbar(picture, ax=grid, shrink=0.7, label="cosine")
plt.show()

# %%
# Rotating and rescaling change nothing in either row. The offset washes out the upper row and leaves the lower.
