"""Train with a relative layer, then swap encoders
===============================================

Three networks are trained from three seeds. Each has a layer between encoder and head that describes a vector by its
similarity to 100 anchor images. Then each head is used with the encoder of another network. The spread of raw cosines
differs between trainings, so heads cannot be exchanged. Scaled to mean 0 and variance 1, the default of the layer, they
can.
"""

from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import relatent as rl

torch.set_num_threads(1)
images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
train, test = slice(0, 1000), slice(1000, None)


def trained(seed, **options):
    """Train encoder, relative layer and head together."""
    torch.manual_seed(seed)
    encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
    relative = rl.nn.RelativeProjection(images[:100], encoder=encoder, **options)
    model = nn.Sequential(encoder, relative, nn.Linear(100, 10))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(15):
        for rows in torch.randperm(1000).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
    return model.eval()


@torch.no_grad()
def accuracy(encoder, relative, head):
    """Return the accuracy of a head on the relative vectors of an encoder."""
    return float((head(relative(encoder(images[test]))).argmax(1) == labels[test]).float().mean())


# %%
# For each setting: three networks with their own heads, and six heads with the encoder of another network.

settings = {
    'output="none"\n(raw cosines)': {"output": "none"},
    'output="l2"\n(unit norm)': {"output": "l2"},
    'output="layer"\n(the default)': {},
}
figure, axes = plt.subplots(figsize=(8.5, 4.4))
for i, options in enumerate(settings.values()):
    models = [trained(seed, **options) for seed in range(3)]
    own = [accuracy(*model) for model in models]
    swapped = [accuracy(*a[:2], b[2]) for a, b in permutations(models, 2)]
    for found, place, color, marker in ((own, i - 0.2, "C0", "o"), (swapped, i + 0.12, "C1", "D")):
        spread = np.linspace(-0.08, 0.08, len(found))
        axes.scatter(place + spread, found, color=color, marker=marker, s=36, alpha=0.7, linewidths=0)
        axes.plot([place - 0.11, place + 0.11], [np.mean(found)] * 2, color=color)
        axes.text(place + 0.13, np.mean(found), f"{np.mean(found):.0%}", color=color, va="center", weight="bold")
axes.axhline(0.1, color="C7", linewidth=1, linestyle=":")
axes.text(-0.4, 0.105, "chance", color="C7", va="bottom")
axes.set_xticks(range(3), settings)
axes.set(ylim=(0, 1.02), title="test accuracy of a head")
axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
axes.text(1.42, 0.25, "● own encoder", color="C0")
axes.text(1.42, 0.18, "◆ encoder of another seed", color="C1")
plt.show()
