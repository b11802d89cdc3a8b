"""Every encoder with every classifier
===================================

Four encoders of the same digits, each with a classifier (head) that was trained on it alone. Apply the head of one to
the vectors of another: untranslated, it guesses. Relative vectors work between encoders of one kind and lose more
across kinds. Translated vectors work nearly as well as those of the head's own encoder.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.random_projection import GaussianRandomProjection

import relatent as rl
from relatent.demo import Network

images, labels = load_digits(return_X_y=True)
images = images / 16
trained = slice(0, 400)  # images that the two networks learn from
spaces = {
    "network, seed 1": Network.train(images[trained], labels[trained], 1).encode(images),
    "network, seed 2": Network.train(images[trained], labels[trained], 2).encode(images),
    "PCA": PCA(64, whiten=True, random_state=0).fit_transform(images),
    "random": np.tanh(GaussianRandomProjection(64, random_state=0).fit_transform(images - images.mean(axis=0))),
}
head = LogisticRegression(max_iter=2000)
matrix = rl.stitching_matrix(
    spaces, head, labels, methods=("absolute", "relative", "stitching"), anchors=300, seed=0, progress=False
)
print(matrix)

# %%
# The same as a picture: rows are encoders, columns are heads. On the diagonal, a head is used with its own encoder.


def ink(value):
    """Return a text color that is legible on a cell."""
    return "black" if value > 0.6 else "white"


titles = {"absolute": "as they are", "relative": "relative to anchors", "stitching": "translated"}
names = list(spaces)
figure, row = plt.subplots(1, 3, figsize=(12, 4.3), sharey=True)
for axes, (method, title) in zip(row, titles.items(), strict=True):
    own = "relative" if method == "relative" else "absolute"
    values = np.asarray([[matrix[a, b, own if a == b else method].value for b in names] for a in names])
    picture = axes.imshow(values, vmin=0, vmax=1)
    for i, j in np.ndindex(values.shape):
        axes.text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", color=ink(values[i, j]))
    axes.set_xticks(range(4), names, rotation=30, ha="right")
    axes.set_yticks(range(4), names)
    axes.set(title=title, xlabel="head trained on")
    axes.spines[:].set_visible(False)
row[0].set_ylabel("encoder")
figure.colorbar(picture, ax=row, shrink=0.8, label="accuracy")
plt.show()
