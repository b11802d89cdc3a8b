"""Search across two models
========================

An index holds vectors of an old network; queries come from a new one. Without translation the results are random; with
it they are right.
"""

import matplotlib.pyplot as plt
import numpy as np

import relatent as rl
from relatent.demo import digits_upgrade

upgrade = digits_upgrade()  # an old and a new network of digits, anchors, and images that neither has seen
old, new = (network.encode(upgrade.images) for network in (upgrade.old, upgrade.new))
x, y = (network.encode(upgrade.anchors) for network in (upgrade.new, upgrade.old))
translator = rl.Translator("retrieval", frozen_target=True).fit(x, y)  # new queries into the old index

queries = [int(np.flatnonzero(upgrade.labels == digit)[3]) for digit in (2, 3, 5, 9)]
others = np.setdiff1d(np.arange(len(old)), queries)
answers = {
    "untranslated": rl.evaluate.nearest(new[queries], old[others], 5).indices,
    "translated": rl.evaluate.nearest(translator.transform(new[queries]), old[others], 5).indices,
}

# %%
# The query on the left, the five nearest images of the index next to it. A frame marks a result of the wrong digit.

figure, grid = plt.subplots(len(queries), 13, figsize=(11, 4.1), width_ratios=[1, 0.3, *[1] * 5, 0.3, *[1] * 5])
for axes in grid.flat:
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def show(axes, row, asked):
    """Draw one image, with a frame if it shows another digit than the query."""
    axes.imshow(upgrade.images[row].reshape(8, 8), cmap="gray_r")
    if upgrade.labels[row] != upgrade.labels[asked]:
        axes.spines[:].set(visible=True, color="C1", linewidth=2.5)


for line, (row, asked) in enumerate(zip(grid, queries, strict=True)):
    show(row[0], asked, asked)
    for start, found in zip((2, 8), answers.values(), strict=True):
        for axes, answer in zip(row[start : start + 5], found[line], strict=True):
            show(axes, others[answer], asked)
for column, title in {0: "query", 2: "untranslated", 8: "translated"}.items():
    grid[0, column].set_title(title)
plt.show()

# %%
# Over all images: the share of the ten nearest that show the digit of the query.

for name, queries in {"untranslated": new, "translated": translator.transform(new)}.items():
    found = rl.evaluate.nearest(queries, old, 10, exclude_self=True).indices
    print(f"{name:13} {np.mean(upgrade.labels[found] == upgrade.labels[:, None]):.2f}")
