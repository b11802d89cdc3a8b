"""Training with relative representations is not detrimental: table 2 of Moschella et al., ICLR 2023.

The same network with and without the relative layer, from the same seeds. Image classifiers of several architectures
read cosines to anchor images, which are embedded again at each step without gradient. Node classifiers on citation
graphs, of GCN2 layers, read cosines to anchor nodes; each seed draws its own 80 / 10 / 10 % of the nodes to train,
validate and test, and its own anchors, and the score is taken at the epoch with the best validation accuracy. The score
is the paper's: F1 on test data, weighted by class.

Embeddings of a graph network start out nearly parallel, and raw cosines hardly tell them apart: they learn more slowly
and need hundreds of epochs, as the paper gives them. "relative" on graphs is the paper's raw cosine with gradient
through the anchors, as in its code; "relative, centered (ours)" subtracts the mean of the anchors first.

``--full`` has all images, and on graphs the paper's 10 seeds and depths (A.5.4): 32 and 64 layers on Cora, 32 on
CiteSeer; PubMed keeps 4. Every training is kept, so that an interrupted run resumes.

A second table stitches the image classifiers: the encoder of each is joined, without training, to the head of every
other, as it is (absolute), relative, or with a translator fitted on the same anchors between two absolute models. Two
controls: a relative encoder that was never trained, and a translator fitted on shuffled pairs.

    python -m experiments rr-table2 [--full]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from experiments.data.graphs import load_citations
from experiments.data.images import Images, load_images
from experiments.data.source import BySource
from experiments.models.autoencoder import untrained
from experiments.models.classifier import classification_loss, classifier
from experiments.models.training import Training, train, trained
from experiments.published import published
from experiments.relative_representations import nodes
from experiments.relative_representations.stitched import ShuffledPairs
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.metrics import f1_score
from torch import nn

import relatent as rl

CENTERED = "relative, centered (ours)"
KINDS = ("absolute", "relative")
GRAPH_KINDS: dict[str, dict[str, bool] | None] = {
    "absolute": None,
    "relative": {"anchor_grad": True},
    CENTERED: {"anchor_grad": True, "center": True},
}
UNTRAINED, SHUFFLED = "relative, untrained encoder (control)", "translated, shuffled pairs (control)"
STITCHED = ("own absolute", "own relative", "absolute", "relative", "translated (ours)", UNTRAINED, SHUFFLED)
NETWORKS = BySource(
    packages={
        "digits": ("plain", "residual", "mlp"),
        "MNIST": ("plain",),
        "Fashion-MNIST": ("plain",),
        "CIFAR-10": ("plain",),
    },
    hub=dict.fromkeys(("MNIST", "Fashion-MNIST", "CIFAR-10", "CIFAR-100"), ("plain",)),
)

Name = tuple[str, int]  # architecture and seed
Models = dict[str, dict[Name, nn.Module]]  # by kind
Scores = dict[tuple[str, str, str], list[float]]  # by data set, network and kind


@dataclass(frozen=True)
class Size:
    """How much is trained."""

    seeds: int
    images: Training
    graphs: dict[tuple[str, int], int]
    """Epochs by graph and number of layers."""
    graph_seeds: int
    graph_kinds: tuple[str, ...]


GRAPHS, WIDTH = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}, 64
QUICK = Size(
    5,
    Training(400, 5e-3, images=5_000, anchors=150),
    # PubMed has seven times the nodes of Cora, and as many epochs as minutes allow.
    graphs={("cora", 4): 300, ("citeseer", 4): 300, ("pubmed", 4): 50},
    graph_seeds=5,
    graph_kinds=tuple(GRAPH_KINDS),
)
FULL = Size(
    6,
    Training(1_500, 2e-3, anchors=300),
    # Deep networks no longer gain after 150 epochs.
    graphs={("cora", 32): 150, ("cora", 64): 150, ("citeseer", 32): 150, ("pubmed", 4): 50},
    graph_seeds=10,
    graph_kinds=KINDS,
)


def run(setting: Setting) -> Result:
    """Train everything twice, and stitch the image classifiers."""
    torch.set_num_threads(1)
    size = setting.pick(quick=QUICK, full=FULL)
    cost: Scores = {}
    stitched: Scores = {}
    for dataset in NETWORKS:
        images = load_images(dataset, size.images.images, 2_000)
        models = train_all(images, size, setting.models)
        cost |= own_scores(images, models)
        for kind, reach, score in stitch_all(images, models, size.images.anchors):
            stitched.setdefault((dataset, reach, kind), []).append(score)
    for name, layers in size.graphs:
        cost |= graph_scores(name, layers, size, setting.models)
    return Result(
        [cost_table(cost), stitched_table(stitched)],
        findings(cost, stitched),
        seeds=size.seeds,
        data=[
            f"digits, MNIST, Fashion-MNIST, CIFAR-10: {size.images.images or 'all'} images to train",
            ", ".join(GRAPHS[name] for name in dict.fromkeys(name for name, _ in size.graphs)),
        ],
        stand_ins={
            "the paper's networks and epochs": f"small networks, {size.images.steps:,} steps; on graphs "
            f"layers of width {WIDTH}: "
            + ", ".join(
                f"{layers} and {epochs} epochs on {GRAPHS[name]}" for (name, layers), epochs in size.graphs.items()
            ),
        },
        smaller=f"small networks, on graphs of width {WIDTH} of 300 and on PubMed of 4 layers",
    )


def train_all(images: Images, size: Size, folder: Path) -> Models:
    """Return the absolute and the relative classifiers; all relative ones share their anchor images."""
    x, labels = torch.from_numpy(images.train), torch.from_numpy(images.train_labels)
    models: Models = {kind: {} for kind in KINDS}
    for kind, architecture in product(KINDS, NETWORKS[images.name]):
        build = builder(images, architecture, size.images.anchors if kind == "relative" else None)
        for seed in range(size.seeds):
            fit = partial(train, build, x, labels, classification_loss, size.images, seed=seed)
            path = folder / f"{images.name}-{architecture}-{kind}-{seed}.safetensors"
            models[kind][architecture, seed] = trained(path, size.images, build, fit)
    return models


def builder(images: Images, architecture: str, k: int | None) -> Callable[[], nn.Module]:
    """Return what builds a classifier of these images; with k anchors, a relative one."""
    anchors = None if k is None else torch.from_numpy(images.anchors(k))
    return partial(classifier, architecture, images.side, images.classes, anchors, colors=images.colors)


@torch.no_grad()
def own_scores(images: Images, models: Models) -> Scores:
    """Score every network as it was trained."""
    test, found = torch.from_numpy(images.test), {}
    for kind, by_name in models.items():
        for (architecture, _), model in by_name.items():
            predicted = model(test).argmax(dim=1).numpy()
            found.setdefault((images.name, architecture, kind), []).append(weighted_f1(images.test_labels, predicted))
    return found


@torch.no_grad()
def stitch_all(images: Images, models: Models, k: int) -> Iterator[tuple[str, str, float]]:
    """Yield the kind, the reach and the score of every encoder with every head of its kind."""
    test, anchors = torch.from_numpy(images.test), torch.from_numpy(images.anchors(k))
    latent = {kind: {name: m.encoder(test) for name, m in found.items()} for kind, found in models.items()}
    known = {name: m.encoder(anchors) for name, m in models["absolute"].items()}

    def score(head: nn.Module, z: torch.Tensor) -> float:
        return weighted_f1(images.test_labels, head(z).argmax(dim=1).numpy())

    for kind, found in models.items():
        for name, model in found.items():
            yield f"own {kind}", "its own", score(model.decoder, latent[kind][name])
        for i, j in permutations(found, 2):
            yield kind, reach(i, j), score(found[j].decoder, latent[kind][i])
    for i, j in permutations(known, 2):
        translator = rl.Translator("stitching").fit(known[i], known[j])
        head = rl.stitch(None, translator, models["absolute"][j].decoder)
        yield "translated (ours)", reach(i, j), score(head, latent["absolute"][i])
        shuffled = ShuffledPairs(rl.Translator("stitching")).fit(known[i].numpy(), known[j].numpy())
        moved = torch.from_numpy(shuffled.transform(latent["absolute"][i].numpy()))
        yield SHUFFLED, reach(i, j), score(models["absolute"][j].decoder, moved)
    for i in models["relative"]:
        empty = untrained(builder(images, i[0], k), len(models["relative"]) + i[1]).encoder(test)
        for j in (j for j in models["relative"] if j != i):
            yield UNTRAINED, reach(i, j), score(models["relative"][j].decoder, empty)


def reach(i: Name, j: Name) -> str:
    """Return how far apart the two parts were trained."""
    return "another seed" if i[0] == j[0] else "another architecture"


def graph_scores(name: str, layers: int, size: Size, folder: Path) -> Scores:
    """Return the score at the best epoch on validation of node classifiers of every kind and seed.

    Each score is kept in a file of its own, so that an interrupted run resumes.
    """
    papers, epochs, found = load_citations(name), size.graphs[name, layers], {}
    for seed in range(size.graph_seeds):
        task, one = nodes.make_task(papers, seed=seed, test=0.1), nodes.Run(seed=seed, layers=layers, width=WIDTH)
        for kind in size.graph_kinds:
            options = GRAPH_KINDS[kind]
            relative = {} if options is None else {"anchor_rows": task.anchors, **options}
            settings = (name, layers, WIDTH, epochs, kind.split(" (")[0].replace(", ", "-"), seed)
            path = folder / f"graph-{'-'.join(map(str, settings))}.json"
            if not path.is_file():
                part = path.with_suffix(".part")
                part.parent.mkdir(parents=True, exist_ok=True)
                part.write_text(json.dumps(best_epoch(task, one, epochs, relative)))
                part.replace(path)
            found.setdefault((GRAPHS[name], f"GCN2, {layers} layers", kind), []).append(json.loads(path.read_text()))
    return found


def best_epoch(task: nodes.Task, one: nodes.Run, epochs: int, relative: dict[str, Any]) -> float:
    """Return the test score at the epoch of the best validation accuracy."""
    best, score = -1.0, 0.0
    for epoch in nodes.train(*one.build(task, **relative), task, epochs):
        if (validated := nodes.accuracy(epoch, task, task.validation)) > best:
            best, score = validated, weighted_f1(task.labels[task.test].numpy(), epoch.predicted[task.test].numpy())
    return score


def weighted_f1(labels: np.ndarray, predicted: np.ndarray) -> float:
    """Return F1 of each class, averaged by the size of the class."""
    return float(f1_score(labels, predicted, average="weighted", zero_division=0))


def cost_table(scores: Scores) -> Table:
    """Return the same network with and without the relative layer."""
    rows: list[list[Any]] = []
    kinds = [kind for kind in GRAPH_KINDS if any(key[2] == kind for key in scores)]
    for dataset, network in dict.fromkeys(key[:2] for key in scores):
        found = {kind: scores.get((dataset, network, kind)) for kind in kinds}
        change = np.mean(found["relative"]) - np.mean(found["absolute"])
        cells = [None if values is None else spread(values) for values in found.values()]
        rows.append([dataset, network, *cells, float(change), published("rr-table2", dataset)])
    columns = ("data", "network", *kinds, "relative − absolute", "published")
    return Table("Weighted F1 on test data, trained with and without the relative layer", columns, rows)


def stitched_table(scores: Scores) -> Table:
    """Return encoders with the heads of others."""
    reaches = [key for key in dict.fromkeys(key[:2] for key in scores) if key[1] != "its own"]
    rows = []
    for dataset, far in reaches:
        keys = [(dataset, "its own" if kind.startswith("own") else far, kind) for kind in STITCHED]
        rows.append([dataset, far, *(spread(scores[key]) for key in keys)])
    return Table("Weighted F1, encoder and head trained apart", ("data", "head from", *STITCHED), rows)


def findings(cost: Scores, stitched: Scores) -> list[Finding]:
    """Judge both tables."""
    mean = {key: float(np.mean(values)) for key, values in cost.items()}
    lost = {
        kind: {key[:2]: mean[*key[:2], "absolute"] - mean[key] for key in mean if key[2] == kind}
        for kind in (KINDS[1], CENTERED)
    }
    apart = {kind: pooled(stitched, kind) for kind in STITCHED}
    found = [
        Finding(
            f"training is not detrimental: {kind}",
            max(by_network.values()) < 0.02,
            f"mean loss {100 * np.mean(list(by_network.values())):.1f} points, on graphs with a gradient through the "
            "anchors, as in the authors' code; "
            + ", ".join(f"{' '.join(name)} {100 * loss:.1f}" for name, loss in by_network.items()),
            headline=kind == KINDS[1],
        )
        for kind, by_network in lost.items()
        if by_network
    ]
    return [
        *found,
        Finding(
            "stitched classifiers: absolute fails, relative comes close to its own head",
            apart["absolute"] < 0.3 and apart["relative"] > 0.9 * apart["own relative"],
            f"F1 {apart['absolute']:.2f} absolute, {apart['relative']:.2f} relative (own {apart['own relative']:.2f}), "
            f"{apart['translated (ours)']:.2f} translated",
        ),
        Finding(
            "controls of stitched classifiers keep less than half of the score (our question)",
            apart[UNTRAINED] < 0.5 * apart["relative"] and apart[SHUFFLED] < 0.5 * apart["translated (ours)"],
            f"F1 {apart[UNTRAINED]:.2f} with an untrained relative encoder, {apart[SHUFFLED]:.2f} translated by "
            "shuffled pairs",
        ),
    ]


def pooled(scores: Scores, kind: str) -> float:
    """Return the mean over data sets of one kind."""
    found: Sequence[float] = [float(np.mean(values)) for key, values in scores.items() if key[2] == kind]
    return float(np.mean(found))
