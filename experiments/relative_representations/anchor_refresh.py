"""What embedding the anchors again costs while training, and what it brings: the conclusion of Moschella et al., 2023.

Classifiers of MNIST are trained while their anchors are embedded again at every step, at every 10th or 100th, never, or
follow a moving average, and with fewer or more anchors: accuracy, accuracy with the head of another seed, and CPU time
per step.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import torch
from experiments.data.images import Images
from experiments.models.classifier import ARCHITECTURES, LATENT, classification_loss
from experiments.models.heads import norm_head
from experiments.models.training import Training, train
from experiments.results import Finding, Table, spread
from torch import Tensor, nn

import relatent as rl

STEP_ANCHORS, FEW, MANY, NEVER = 150, 50, 500, 10**9


@dataclass(frozen=True)
class Way:
    """How many anchors there are, and at every how many steps they are embedded again, or by which moving average."""

    k: int = STEP_ANCHORS
    every: int = 1
    momentum: float | None = None


ALWAYS, TENTH = "at every step", "at every 10th step"
FEWER, MORE = f"at every step, {FEW} anchors", f"at every step, {MANY} anchors"
WAYS = {
    ALWAYS: Way(),
    TENTH: Way(every=10),
    "at every 100th step": Way(every=100),
    "never": Way(every=NEVER),
    "moving average, 0.9": Way(momentum=0.9),
    "moving average, 0.99": Way(momentum=0.99),
    FEWER: Way(FEW),
    MORE: Way(MANY),
}
Refreshings = Mapping[str, np.ndarray]  # by way: own accuracy, with another's head, milliseconds per step, over seeds


class Refreshed(nn.Module):
    """Cosines to anchor samples that are embedded without gradient at every so many steps; after training, again."""

    def __init__(self, anchors: Tensor, encoder: nn.Module, every: int) -> None:
        super().__init__()
        self.samples, self.embed, self.every, self.step = anchors, [encoder], every, 0
        self.held: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return one cosine per anchor."""
        due = self.step % self.every == 0 if self.training else self.every < NEVER
        if due or self.held is None:
            with torch.no_grad():
                self.held = self.embed[0](self.samples)
        self.step += self.training
        return rl.relative_projection(x, self.held)


def network(images: Images, way: Way | None) -> nn.Sequential:
    """Build a classifier: of absolute vectors, or relative to anchors that are embedded again in some way."""
    encoder = ARCHITECTURES["plain"](images.side, LATENT, images.colors)
    if way is None:
        return nn.Sequential(OrderedDict(encoder=encoder, decoder=norm_head(LATENT, 10)))
    anchors = torch.from_numpy(images.anchors(way.k))
    layer: nn.Module = Refreshed(anchors, encoder, way.every)
    if way.momentum is not None:
        layer = rl.nn.RelativeProjection(anchors, encoder=encoder, momentum=way.momentum, output="none")
    return nn.Sequential(OrderedDict(encoder=nn.Sequential(encoder, layer), decoder=norm_head(way.k, 10)))


def refreshing(images: Images, seeds: int, steps: int) -> Refreshings:
    """Train classifiers in every way."""
    x, labels, test = (torch.from_numpy(one) for one in (images.train, images.train_labels, images.test))
    found = {}
    train(lambda: network(images, None), x, labels, classification_loss, Training(10), seed=0)  # first steps are slow
    for name, way in {"absolute": None, **WAYS}.items():
        models, times = [], []
        for seed in range(seeds):
            start = time.process_time()
            how = Training(steps, 5e-3)
            models.append(train(lambda w=way: network(images, w), x, labels, classification_loss, how, seed=seed))
            times.append(1_000 * (time.process_time() - start) / steps)
        with torch.inference_mode():
            codes = [m.encoder(test) for m in models]
            right = [[m.decoder(z).argmax(dim=1).numpy() == images.test_labels for m in models] for z in codes]
        accuracy = np.mean(right, axis=2)
        apart = [np.mean([accuracy[i, j] for i, j in permutations(range(seeds), 2) if j == to]) for to in range(seeds)]
        found[name] = np.asarray([np.diag(accuracy), apart, times])
    return found


def refresh_table(found: Refreshings) -> Table:
    """Lay the ways to refresh anchors out."""
    base = found["absolute"][2].mean()
    rows = [[way, *map(spread, scores[:2]), spread(scores[2] / base)] for way, scores in found.items()]
    columns = ("anchors are embedded again", "accuracy", "with another seed's head", "CPU time, absolute = 1")
    return Table("MNIST: how often anchors are embedded again while training", columns, rows)


def refresh_findings(found: Refreshings) -> list[Finding]:
    """Judge what anchors cost, and whether fewer refreshes lose anything."""
    base = found["absolute"][2].mean()
    times = {way: float(scores[2].mean() / base) for way, scores in found.items()}
    always, rarely = found[ALWAYS], found[TENTH]
    return [
        Finding(
            "training costs more with more anchors, and at every step more than at every 10th",
            times[FEWER] < times[ALWAYS] < times[MORE] and times[TENTH] < times[ALWAYS],
            "CPU time, absolute = 1: " + ", ".join(f"{way} {value:.2f}" for way, value in times.items()),
        ),
        Finding(
            "anchors may be embedded again at every 10th step without loss (a question of the conclusion)",
            bool((rarely[:2].mean(axis=1) > always[:2].mean(axis=1) - 0.01).all()),
            "accuracy, and with another seed's head in brackets: "
            + ", ".join(f"{way} {own.mean():.3f} ({apart.mean():.3f})" for way, (own, apart, _) in found.items()),
        ),
    ]
