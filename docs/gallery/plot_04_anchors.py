"""How many anchors are needed?
============================

The error falls with the number of anchors. Least squares is worst with as many anchors as dimensions, because it then
fits them exactly, noise included. An orthogonal map never does, but it soon stops improving. The default shrinks its
predictions if there are few anchors, and keeps improving with more.
"""

import matplotlib.pyplot as plt
import numpy as np

import relatent as rl
from relatent.demo import digits_upgrade

upgrade = digits_upgrade()
old, new = (network.encode(upgrade.images) for network in (upgrade.old, upgrade.new))
x, y = (network.encode(upgrade.anchors) for network in (upgrade.old, upgrade.new))
counts, draws = (10, 20, 40, 64, 100, 200, 300), 5
maps = {
    "vectors, the default": {},
    "least squares": {"map": "least_squares"},
    "orthogonal (Procrustes)": {"map": "orthogonal"},
}


def errors(options, k):
    """Return the share of the variance that is not explained, for several draws of k anchors."""
    found = []
    for draw in range(draws):
        rows = np.random.default_rng(draw).choice(len(x), k, replace=False)
        translated = rl.Translator(**options).fit(x[rows], y[rows]).transform(old)
        found.append(1 - rl.evaluate.r2(translated, new))
    return found


# %%
# Anchors are drawn five times; the band spans all draws. The networks have 64 dimensions.

figure, axes = plt.subplots(figsize=(9.5, 4.2))
for (name, options), marker in zip(maps.items(), "osD", strict=True):
    found = np.asarray([errors(options, k) for k in counts])
    (line,) = axes.plot(counts, found.mean(axis=1), marker=marker, label=name)
    axes.fill_between(counts, found.min(axis=1), found.max(axis=1), color=line.get_color(), alpha=0.15, linewidth=0)
axes.axvline(64, color="C7", linewidth=1, linestyle=":")
axes.text(66, 20, "as many as coordinates", color="C7", va="top")
axes.axhline(1, color="C7", linewidth=1)
axes.text(10, 1.04, "the mean, for everything", color="C7")
axes.set(xscale="log", yscale="log", xlabel="anchors", ylabel="error, share of the variance")
axes.set_xticks(counts, [str(k) for k in counts])
axes.set_yticks((0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10), ("0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10"))
axes.minorticks_off()
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
axes.set_title("error on images that no map has seen")
plt.show()

# %%
# You need not draw this curve for your own data: ``expected_quality`` of a fitted translator estimates its quality from
# the anchors alone, and what more anchors would add.
