"""Node classifiers on one graph: GCN2 and GIN layers over plain torch sparse matrices.

The network of Moschella et al., ICLR 2023 (section 4.2 and table 10): dropout → Linear → activation → [dropout, conv,
activation] × layers → Linear → L2 → Linear. The latent space is the output of the last Linear but one. Given
``anchor_rows``, the head reads the cosines to those nodes instead: with as many as the width, it has the same size. No
gradient flows through the anchors, and they are not centered, unless asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

import relatent as rl

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


@dataclass(frozen=True)
class Graph:
    r"""Nodes with sparse features, and the two matrices that carry them along the edges.

    ``neighbors`` is :math:`A + I`; ``normalized`` is :math:`D^{-1/2} A D^{-1/2}`, without self-loops, where a node
    without neighbors receives nothing.
    """

    features: Tensor
    neighbors: Tensor
    normalized: Tensor

    @classmethod
    def build(cls, features: Tensor, edges: np.ndarray) -> Self:
        """Take (n, d) sparse features and (m, 2) undirected edges, each given once, without self-loops."""
        n = features.shape[0]
        one_way = torch.as_tensor(np.asarray(edges, dtype=np.int64).T)
        both_ways = torch.cat([one_way, one_way.flip(0)], dim=1)
        degree = torch.bincount(both_ways[0], minlength=n).to(features.dtype)
        weights = degree[both_ways].prod(dim=0).rsqrt()
        loops = torch.arange(n).expand(2, n)
        ones = torch.ones(both_ways.shape[1] + n, dtype=features.dtype)
        with_loops = torch.cat([both_ways, loops], dim=1)
        return cls(features.coalesce(), sparse(with_loops, ones, (n, n)), sparse(both_ways, weights, (n, n)))


class GCN2Conv(nn.Module):
    r"""Graph convolution with initial residual and identity mapping, one weight for both (shared).

    .. math:: x' = ((1 - \alpha) P x + \alpha x_0) ((1 - \beta) I + \beta W)

    with :math:`P` the normalized adjacency, :math:`\beta = \log(\theta / l + 1)` and :math:`l` the number of the layer.

    References: Chen et al., Simple and deep graph convolutional networks, ICML 2020.
    """

    def __init__(self, width: int, layer: int, alpha: float = 0.1, theta: float = 0.5) -> None:
        super().__init__()
        self.alpha, self.beta = alpha, log(theta / layer + 1)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width, width)))

    def forward(self, x: Tensor, x_0: Tensor, graph: Graph) -> Tensor:
        """Carry x along the edges of the graph, staying near x_0."""
        h = torch.lerp(carried(x, graph.normalized), x_0, self.alpha)
        return h @ torch.lerp(torch.eye(*self.weight.shape), self.weight, self.beta)


class GINConv(nn.Linear):
    r"""Graph isomorphism layer with ε = 0 and a linear map: :math:`x' = (A + I) x W + b`.

    Sums over neighbors, so that values may grow with the depth beyond what float32 holds.

    References: Xu et al., How powerful are graph neural networks?, ICLR 2019.
    """

    def __init__(self, width: int, layer: int) -> None:
        super().__init__(width, width)

    def forward(self, x: Tensor, x_0: Tensor, graph: Graph) -> Tensor:
        """Sum x over each node and its neighbors, then map; x_0 and the layer's number play no part."""
        return super().forward(carried(x, graph.neighbors))


CONVOLUTIONS = {"GCN2Conv": GCN2Conv, "GINConv": GINConv}


class NodeClassifier(nn.Module):
    """The network of the module's docstring; ``encode`` returns the latent space, ``decode`` the logits."""

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        conv: str = "GCN2Conv",
        layers: int = 32,
        width: int = 300,
        dropout: float = 0.5,
        hidden_activation: str = "relu",
        conv_activation: str = "relu",
        anchor_rows: np.ndarray | None = None,
        anchor_grad: bool = False,
        center: bool = False,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.hidden_activation = ACTIVATIONS[hidden_activation]
        self.conv_activation = ACTIVATIONS[conv_activation]
        self.inside = nn.Linear(n_features, width)
        self.convs = nn.ModuleList(CONVOLUTIONS[conv](width, layer) for layer in range(1, layers + 1))
        self.outside = nn.Linear(width, width)
        self.head = nn.Linear(width if anchor_rows is None else len(anchor_rows), n_classes)
        self.anchor_rows, self.anchor_grad, self.center = anchor_rows, anchor_grad, center

    def forward(self, graph: Graph) -> Tensor:
        """Return the logits of every node."""
        return self.decode(self.encode(graph))

    def encode(self, graph: Graph) -> Tensor:
        """Embed every node."""
        x = _dropped_features(graph.features, self.dropout, self.training) @ self.inside.weight.T + self.inside.bias
        x = x_0 = self.hidden_activation(x)
        for conv in self.convs:
            x = self.conv_activation(conv(dropped(x, self.dropout, self.training), x_0, graph))
        return self.outside(x)

    def decode(self, x: Tensor) -> Tensor:
        """Classify embedded nodes, as they are or relative to the anchors among them."""
        if self.anchor_rows is not None:
            anchors = x[self.anchor_rows] if self.anchor_grad else x[self.anchor_rows].detach()
            middle = anchors.mean(dim=0) if self.center else 0
            x = rl.relative_projection(x - middle, anchors - middle)
        return self.head(nn.functional.normalize(x, dim=1))


class _Carried(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, matrix: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix @ x

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix @ gradient, None


def carried(x: Tensor, matrix: Tensor) -> Tensor:
    """Multiply by a symmetric sparse matrix: it is its own gradient, where torch would transpose it at every step."""
    return _Carried.apply(x, matrix)


def dropped(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Dropout from 16 random bits per value, so that p is met to 2⁻¹⁶.

    On a CPU torch's own draws a word for each value, and would take half of the time of a training.
    """
    if not training or p == 0:
        return x
    words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(torch.iinfo(torch.int64).min, None)
    bits, least = words.view(torch.int16)[: x.numel()], round(p * 2**16) - 2**15
    kept = torch.ge(bits, least, out=torch.empty(x.numel(), dtype=x.dtype))
    return x * kept.div_(1 - p).view(x.shape)


def _dropped_features(features: Tensor, p: float, training: bool) -> Tensor:
    """Drop among the stored values: zeros stay zero either way."""
    return sparse(features.indices(), dropped(features.values(), p, training), features.shape, is_coalesced=True)


def sparse(indices: Tensor, values: Tensor, shape: tuple[int, ...], *, is_coalesced: bool = False) -> Tensor:
    """Build a sparse matrix, in order and without duplicates."""
    made = torch.sparse_coo_tensor(indices, values, shape, is_coalesced=is_coalesced, check_invariants=not is_coalesced)
    return made.coalesce()
