from __future__ import annotations

import numpy as np
import pytest
import torch
from experiments.models.graph import GCN2Conv, GINConv, Graph, NodeClassifier, carried, dropped

N, D, WIDTH, CLASSES = 30, 12, 8, 3


def edges_of(rng: np.random.Generator, n: int = N) -> np.ndarray:
    return np.argwhere(np.triu(rng.random((n, n)) < 0.15, 1))


def adjacency(edges: np.ndarray, n: int = N) -> torch.Tensor:
    a = torch.zeros(n, n)
    a[edges[:, 0], edges[:, 1]] = 1
    return a + a.T


@pytest.fixture
def edges(rng: np.random.Generator) -> np.ndarray:
    return edges_of(rng)


@pytest.fixture
def features(rng: np.random.Generator) -> torch.Tensor:
    return torch.from_numpy((rng.random((N, D)) < 0.3) * rng.random((N, D))).float()


@pytest.fixture
def graph(features: torch.Tensor, edges: np.ndarray) -> Graph:
    return Graph.build(features.to_sparse(), edges)


def model_of(**settings) -> NodeClassifier:
    torch.manual_seed(0)
    return NodeClassifier(D, CLASSES, **{"layers": 3, "width": WIDTH} | settings).eval()


def test_matrices_are_the_adjacency_with_loops_and_the_symmetrically_normalized_one(graph, edges):
    a = adjacency(edges)
    scale = torch.diag(a.sum(1).clamp(min=1).rsqrt())
    assert torch.equal(graph.neighbors.to_dense(), a + torch.eye(N))
    assert torch.allclose(graph.normalized.to_dense(), scale @ a @ scale)
    assert torch.linalg.eigvalsh(graph.normalized.to_dense()).abs().max() <= 1 + 1e-5


def test_a_node_without_neighbors_receives_nothing_and_breaks_nothing():
    graph = Graph.build(torch.eye(3).to_sparse(), np.asarray([[0, 1]]))
    assert torch.equal(graph.normalized.to_dense()[2], torch.zeros(3))
    assert torch.equal(graph.neighbors.to_dense()[2], torch.tensor([0.0, 0.0, 1.0]))


@pytest.mark.parametrize("layer", [1, 5])
def test_convolutions_are_those_of_pytorch_geometric_with_their_gradients(graph, edges, layer):
    peer = pytest.importorskip("torch_geometric.nn")
    normalize = pytest.importorskip("torch_geometric.nn.conv.gcn_conv").gcn_norm
    both_ways = torch.as_tensor(np.concatenate([edges, edges[:, ::-1]]).T.copy())
    _, weights = normalize(both_ways, num_nodes=N, add_self_loops=False)
    x, x_0 = torch.randn(2, N, WIDTH).requires_grad_()
    ours, theirs = GCN2Conv(WIDTH, layer), peer.GCN2Conv(WIDTH, 0.1, 0.5, layer, shared_weights=True, normalize=False)
    theirs.weight1 = ours.weight
    assert_same(ours(x, x_0, graph), theirs(x, x_0, both_ways, weights), [x, x_0, ours.weight])
    ours, theirs = GINConv(WIDTH, layer), peer.GINConv(torch.nn.Linear(WIDTH, WIDTH))
    theirs.nn.weight, theirs.nn.bias = ours.weight, ours.bias
    assert_same(ours(x, x_0, graph), theirs(x, both_ways), [x, *ours.parameters()])


def assert_same(ours: torch.Tensor, theirs: torch.Tensor, inputs: list[torch.Tensor]) -> None:
    assert torch.allclose(ours, theirs, atol=1e-5)
    weights = torch.randn(ours.shape)
    for a, b in zip(*(torch.autograd.grad(y, inputs, weights) for y in (ours, theirs)), strict=True):
        assert torch.allclose(a, b, atol=1e-4)


def test_the_network_is_its_formula_on_dense_matrices(graph, features, edges):
    model = model_of(hidden_activation="tanh", layers=2)
    p = graph.normalized.to_dense()
    x = x_0 = torch.tanh(model.inside(features))
    for number, conv in enumerate(model.convs, 1):
        beta = np.log(0.5 / number + 1)
        h = 0.9 * p @ x + 0.1 * x_0
        x = torch.relu((1 - beta) * h + beta * h @ conv.weight)
    x = model.outside(x)
    logits = model.head(x / torch.linalg.norm(x, dim=1, keepdim=True))
    assert torch.allclose(model.encode(graph), x, atol=1e-5)
    assert torch.allclose(model(graph), logits, atol=1e-5)


def test_carrying_differentiates_only_along_symmetric_matrices():
    symmetric = torch.tensor([[0.0, 2.0], [2.0, 1.0]], dtype=torch.float64).to_sparse()
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: carried(x, symmetric), x)
    lopsided = torch.tensor([[0.0, 2.0], [0.0, 1.0]], dtype=torch.float64).to_sparse()
    assert not torch.autograd.gradcheck(lambda x: carried(x, lopsided), x, raise_exception=False)


@pytest.mark.parametrize("conv", ["GCN2Conv", "GINConv"])
@pytest.mark.parametrize("anchor_rows", [None, np.arange(5)])
def test_renumbering_nodes_renumbers_logits(rng, features, edges, conv, anchor_rows):
    order = rng.permutation(N)
    place = np.argsort(order)
    model = model_of(conv=conv, anchor_rows=anchor_rows)
    graph = Graph.build(features.to_sparse(), edges)
    before, space = model(graph), model.encode(graph)
    model.anchor_rows = None if anchor_rows is None else place[anchor_rows]
    after = model(Graph.build(features[order].to_sparse(), place[edges]))
    other = model.encode(Graph.build(features[order].to_sparse(), edges))
    assert torch.allclose(after, before[order], atol=1e-4)
    assert not torch.allclose(other, space[order], atol=1e-3)


@pytest.mark.parametrize(
    ("relative", "turned", "moved"),
    [
        ({}, False, False),
        ({"anchor_rows": np.arange(WIDTH)}, True, False),
        ({"anchor_rows": np.arange(WIDTH), "center": True}, True, True),
    ],
)
def test_only_relative_heads_survive_a_rotation_and_only_centered_ones_an_offset(
    rng, orthogonal, relative, turned, moved
):
    model = model_of(**relative)
    x, turn = torch.from_numpy(rng.normal(size=(N, WIDTH))).float(), torch.from_numpy(orthogonal(WIDTH)).float()
    before = model.decode(x)
    assert torch.allclose(model.decode(3 * x @ turn), before, atol=1e-5) is turned
    assert torch.allclose(model.decode(x + 5), before, atol=1e-4) is moved


def test_relative_and_absolute_have_the_same_parameters():
    sizes = [[p.shape for p in model_of(anchor_rows=rows).parameters()] for rows in (None, np.arange(WIDTH))]
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("anchor_grad", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_gradient_flows_through_the_anchors_only_when_asked(rng, anchor_grad, center):
    model = model_of(anchor_rows=np.arange(5), anchor_grad=anchor_grad, center=center)
    x = torch.from_numpy(rng.normal(size=(N, WIDTH))).float().requires_grad_()
    (gradient,) = torch.autograd.grad(model.decode(x)[5:].square().sum(), x)
    assert bool(gradient[:5].any()) is anchor_grad
    assert gradient[5:].any(dim=1).all()


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_dropout_keeps_the_mean_and_scales_what_it_keeps(p):
    torch.manual_seed(0)
    x = torch.ones(999, 201)
    y, z = dropped(x, p), dropped(x, p)
    assert y.unique().tolist() == pytest.approx([0, 1 / (1 - p)])
    # Six standard errors of a share.
    assert abs((y == 0).double().mean() - p) < 6 * np.sqrt(p * (1 - p) / x.numel())
    assert abs(((y == 0) & (z == 0)).double().mean() - p**2) < 6 * np.sqrt(p**2 * (1 - p**2) / x.numel())


def test_dropout_is_of_training_only(graph):
    model = model_of(dropout=0.5)
    assert torch.equal(model(graph), model(graph))
    model.train()
    assert not torch.allclose(model(graph), model(graph))
    x = torch.randn(3, 3)
    assert dropped(x, 0.5, training=False) is x
    assert dropped(x, 0.0) is x
