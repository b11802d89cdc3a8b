"""Compare many models
===================

How similar are the spaces of many models? One number per pair shows which models agree and which do not.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF, PCA
from sklearn.kernel_approximation import RBFSampler

import relatent as rl
from relatent.demo import Network

images, labels = load_digits(return_X_y=True)
images = images / 16
seen, few = slice(0, 800), slice(0, 50)
odd = labels % 2
zoo = {
    "digits, seed 1": Network.train(images[seen], labels[seen], 1),
    "digits, seed 2": Network.train(images[seen], labels[seen], 2),
    "digits, 50 images": Network.train(images[few], labels[few], 3),
    "odd or even, seed 1": Network.train(images[seen], odd[seen], 1),
    "odd or even, seed 2": Network.train(images[seen], odd[seen], 2),
}
held_out = images[1200:]
spaces = {name: network.encode(held_out) for name, network in zoo.items()} | {
    "PCA": PCA(30, random_state=0).fit(images[seen]).transform(held_out),
    "NMF": NMF(30, init="nndsvda", max_iter=600, random_state=0).fit(images[seen]).transform(held_out),
    "random features": RBFSampler(n_components=64, gamma=0.05, random_state=0).fit_transform(held_out),
}
names = list(spaces)

# %%
# The share of an item's ten nearest neighbors that two models have in common, and the tree that follows from it.

alike = np.asarray([[rl.evaluate.mutual_knn(spaces[a], spaces[b], k=10) for b in names] for a in names])
tree = linkage(squareform(1 - alike, checks=False), method="average")

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8), width_ratios=[1, 1.25])
drawn = dendrogram(tree, labels=names, orientation="left", ax=left, color_threshold=0, above_threshold_color="C7")
left.set(title="models by similarity", xlabel="1 − shared neighbors")
left.spines["left"].set_visible(False)
order = drawn["leaves"][::-1]
picture = right.imshow(alike[np.ix_(order, order)], vmin=0, vmax=1)
for i, j in np.ndindex(alike.shape):
    value = alike[order[i], order[j]]
    right.text(j, i, f"{value:.2f}", ha="center", va="center", size=9, color="black" if value > 0.6 else "white")
right.set_xticks(range(len(names)), [names[i] for i in order], rotation=40, ha="right")
right.set_yticks(range(len(names)), [names[i] for i in order])
right.spines[:].set_visible(False)
right.set_title("shared neighbors")
plt.show()

# %%
# One pair in every measure, each next to its value for shuffled rows:

print(rl.compare(spaces["digits, seed 1"], spaces["digits, seed 2"]))
