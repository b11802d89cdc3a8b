"""Classify the nodes of a citation graph: the task and its trainings, shared by the experiments on it.

Settings that the paper's text leaves open are those of its published code: 10 % of the nodes, drawn at random,
validate; the features of a node sum to 1; the adjacency is normalized without self-loops; a step is on all training
nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from experiments.data.graphs import Citations
from experiments.models.graph import Graph, NodeClassifier, sparse
from experiments.models.logs import open_log
from torch import Tensor, nn

import relatent as rl


@dataclass(frozen=True)
class Run:
    """One training: a point of the grid of Cora, without its number of epochs. The default is the reference."""

    seed: int = 1
    layers: int = 32
    dropout: float = 0.5
    hidden_activation: str = "relu"
    conv_activation: str = "relu"
    optimizer: str = "Adam"
    lr: float = 0.02
    conv: str = "GCN2Conv"
    width: int = 300

    def build(self, task: Task, **relative: Any) -> tuple[NodeClassifier, torch.optim.Optimizer]:
        """Draw the weights from the seed; ``relative`` may name anchors that the network's head is relative to."""
        torch.manual_seed(self.seed)
        settings = {k: v for k, v in asdict(self).items() if k not in ("seed", "optimizer", "lr")}
        n_features, n_classes = task.graph.features.shape[1], int(task.labels.max()) + 1
        model = NodeClassifier(n_features, n_classes, **settings, **relative)
        return model, getattr(torch.optim, self.optimizer)(model.parameters(), lr=self.lr)


@dataclass(frozen=True)
class Task:
    """A graph with labels, and which nodes train, validate, test and anchor."""

    graph: Graph
    labels: Tensor
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    anchors: np.ndarray


def make_task(papers: Citations, *, seed: int = 0, test: float = 0.0, n_anchors: int = 300) -> Task:
    """Draw from the seed 10 % of the nodes to validate, a share to test, and anchors among the rest."""
    words = papers.words.tocoo()
    counts = np.maximum(np.bincount(words.row, weights=words.data, minlength=words.shape[0]), 1)
    values = torch.from_numpy((words.data / counts[words.row]).astype(np.float32))
    indices = torch.from_numpy(np.stack([words.row, words.col]).astype(np.int64))
    graph = Graph.build(sparse(indices, values, words.shape), papers.edges)
    order = np.random.default_rng(seed).permutation(words.shape[0])
    cuts = np.cumsum([round(0.1 * len(order)), round(test * len(order))])
    validation, tested, train = np.split(order, cuts)
    anchors = train[rl.anchors.uniform(train[:, None], n_anchors, seed=seed)]
    return Task(graph, torch.from_numpy(papers.labels.astype(np.int64)), train, validation, tested, anchors)


@dataclass(frozen=True)
class Epoch:
    """What a model returns in eval mode after one step on all training nodes."""

    loss: float
    embedding: Tensor
    predicted: Tensor


def train(model: NodeClassifier, optimizer: torch.optim.Optimizer, task: Task, epochs: int) -> Iterator[Epoch]:
    """Train full batch, with one look at the model after every epoch."""
    with open_log("nodes", {"epochs": epochs, "layers": len(model.convs)}) as log:
        for number in range(epochs):
            epoch = step(model, optimizer, task)
            if log is not None:
                log({"loss": epoch.loss, "accuracy": accuracy(epoch, task, task.validation)}, number)
            yield epoch


def step(model: NodeClassifier, optimizer: torch.optim.Optimizer, task: Task) -> Epoch:
    """Take one step on all training nodes, and look at the model."""
    model.train()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(task.graph)[task.train], task.labels[task.train])
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        embedding = model.encode(task.graph)
        return Epoch(loss.item(), embedding, model.decode(embedding).argmax(dim=1))


def accuracy(epoch: Epoch, task: Task, rows: np.ndarray) -> float:
    """Return the share of the nodes in these rows that are classified correctly."""
    return float((epoch.predicted[rows] == task.labels[rows]).double().mean())
