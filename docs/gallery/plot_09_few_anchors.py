"""From a few pairs to many
========================

Only a few items are known in both models. All other images are on one side or the other, and it is unknown which belong
together. If the two spaces have nearly the same shape, a few pairs are enough to match the rest, and a check on
held-out pairs reports if they were not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import relatent as rl

images, _ = load_digits(return_X_y=True)
images = images / 16
rng = np.random.default_rng(0)

# %%
# Two independent encoders, neither of them trained: a random layer with a nonlinearity, and random 3 × 3 filters with
# 2 × 2 max pooling.

old = np.tanh((images - images.mean(axis=0)) @ rng.normal(size=(64, 128)))
patches = np.lib.stride_tricks.sliding_window_view(images.reshape(-1, 8, 8), (3, 3), axis=(1, 2)).reshape(-1, 36, 9)
answers = np.maximum(patches @ rng.normal(size=(9, 16)), 0).reshape(-1, 3, 2, 3, 2, 16)
new = answers.max(axis=(2, 4)).reshape(len(images), -1)

# %%
# The old model has one part of the images, the new model another part, and k images are known in both.

order = rng.permutation(len(images))
test, left, right = order[:297], order[297:1047], order[1047:]


def mrr(translator):
    """Return the mean reciprocal rank of unseen images."""
    queries, index = translator.transform(old[test]), translator.transform_target(new[test])
    return rl.evaluate.mrr(queries, index, metric="inner")


counts = (10, 20, 40)
alone, grown, passed = [], [], []
for k in counts:
    x, y = old[np.concatenate([right[:k], left])], new[right]
    alone.append(mrr(rl.Translator("retrieval").fit(x[:k], y[:k])))
    found = rl.grow_pairs(x, y, known=(np.arange(k), np.arange(k)), seed=0, progress=False)
    grown.append(mrr(found.translator))
    passed.append(found.succeeded)
    print(f"{k} known pairs grew into {len(found.rows_x)}; {'succeeded' if found.succeeded else 'failed'}")

# %%
# Each image is searched among 297. The mean reciprocal rank is 1 if the right one always comes first.

figure, axes = plt.subplots(figsize=(8, 4.2))
axes.fill_between(counts, alone, grown, color="C0", alpha=0.12, linewidth=0)
lines = (("grown from them", grown, "o", "C0", 0.05), ("the known pairs alone", alone, "s", "C1", -0.09))
for name, scores, marker, color, above in lines:
    axes.plot(counts, scores, marker=marker, color=color, markersize=8, label=name)
    for k, score in zip(counts, scores, strict=True):
        axes.text(k, score + above, f"{score:.2f}", color=color, ha="center", size=10)
for k, success in zip(counts, passed, strict=True):
    axes.text(k, 0.03, "succeeded" if success else "failed", ha="center", color="C7", size=10)
axes.set(xscale="log", xlim=(9, 45), ylim=(0, 1.12), xlabel="known pairs", ylabel="MRR on unseen images")
axes.set_xticks(counts, [str(k) for k in counts])
axes.minorticks_off()
axes.legend(loc="center right")
plt.show()
