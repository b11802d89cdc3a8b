import tracemalloc
from functools import partial

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import cosine_similarity, pairwise_distances

import relatent as rl
from relatent import _linalg
from relatent._array import to_numpy
from relatent.project import similarity as sim

N, K, D = 40, 12, 6


@pytest.fixture
def x(rng):
    return rng.normal(size=(N, D))


@pytest.fixture
def anchors(rng):
    return rng.normal(size=(K, D))


def rotation(d, rng):
    q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    q[:, 0] *= np.linalg.det(q)
    return q


def reflection(d, rng):
    v = rng.normal(size=d)
    return np.eye(d) - 2 * np.outer(v, v) / (v @ v)


# Each moves x and anchors alike: rows become rows @ matrix + offset.
MOVES = {
    "rotation": lambda rng: (rotation(D, rng), 0),
    "reflection": lambda rng: (reflection(D, rng), 0),
    "sign flips": lambda rng: (np.diag([1.0, -1, -1, 1, -1, 1]), 0),
    "permutation": lambda rng: (np.eye(D)[rng.permutation(D)], 0),
    "isotropic rescaling": lambda rng: (3 * np.eye(D), 0),
    "anisotropic rescaling": lambda rng: (np.diag(np.linspace(0.2, 4, D)), 0),
    "offset": lambda rng: (np.eye(D), 2 * rng.normal(size=D)),
    "linear map": lambda rng: (rng.normal(size=(D, D)), 0),
    "affine map": lambda rng: (rng.normal(size=(D, D)), rng.normal(size=D)),
}
RIGID = {"rotation", "reflection", "sign flips", "permutation"}
LINEAR = RIGID | {"isotropic rescaling", "anisotropic rescaling", "linear map"}
SURVIVES = {
    "cosine": RIGID | {"isotropic rescaling"},
    "angular": RIGID | {"isotropic rescaling"},
    "quantized": RIGID | {"isotropic rescaling"},
    "inner": RIGID,
    "euclidean": RIGID | {"offset"},
    "geodesic": RIGID | {"offset"},
    "l1": {"sign flips", "permutation", "offset"},
    "linf": {"sign flips", "permutation", "offset"},
    "lp": {"sign flips", "permutation", "offset"},
    "basis": LINEAR,
    "mahalanobis": set(MOVES),
}


def test_every_similarity_stands_in_the_table():
    assert set(SURVIVES) == set(sim.SIMILARITIES)


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("name", SURVIVES)
def test_the_table_of_invariances_both_ways(xp, rng, x, anchors, name, move):
    matrix, offset = MOVES[move](rng)
    before = rl.relative_projection(xp(x), xp(anchors), name)
    after = rl.relative_projection(xp(x @ matrix + offset), xp(anchors @ matrix + offset), name)
    assert np.allclose(to_numpy(before), to_numpy(after)) is (move in SURVIVES[name])


# Of the cosine, by how samples and anchors are normalized on the anchors: "standard" is batch normalization, whose
# claim (García-Castellanos et al., 2024) is invariance to what activation functions leave undecided.
NORMALIZED = {
    "none": SURVIVES["cosine"],
    "center": SURVIVES["cosine"] | {"offset"},
    "iso": SURVIVES["cosine"] | {"offset"},
    "standard": {"sign flips", "permutation", "isotropic rescaling", "anisotropic rescaling", "offset"},
    "whiten": set(MOVES),
}


@pytest.mark.filterwarnings("ignore:The anchors have a mean cosine")  # which is what an offset does
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("normalize", NORMALIZED)
def test_what_normalizing_the_anchors_makes_the_cosine_unchanged_by(rng, x, anchors, normalize, move):
    matrix, offset = MOVES[move](rng)
    before = rl.RelativeProjection(normalize=normalize).fit(anchors).transform(x)
    after = rl.RelativeProjection(normalize=normalize).fit(anchors @ matrix + offset).transform(x @ matrix + offset)
    assert np.allclose(before, after) is (move in NORMALIZED[normalize])


ORACLES = {
    "cosine": cosine_similarity,
    "inner": lambda x, a: np.einsum("id,jd->ij", x, a) / np.sqrt(x.shape[1]),
    "euclidean": lambda x, a: -cdist(x, a),
    "l1": lambda x, a: -pairwise_distances(x, a, metric="manhattan"),
    "linf": lambda x, a: -cdist(x, a, "chebyshev"),
    "lp": lambda x, a: -cdist(x, a, "minkowski", p=3),
    "angular": lambda x, a: 1 - np.arccos(np.clip(1 - cdist(x, a, "cosine"), -1, 1)) / np.pi,
    "basis": lambda x, a: np.linalg.lstsq(a.T, x.T, rcond=None)[0].T,
    "mahalanobis": lambda x, a: (x - a.mean(axis=0)) @ np.linalg.inv(np.cov(a.T)) @ (a - a.mean(axis=0)).T,
    "geodesic": lambda x, a: -brute_force_paths(np.concatenate([x, a]), 10)[: len(x), len(x) :],
    "quantized": lambda x, a: brute_force_clusters(x, a, 0.5),
}


def brute_force_paths(points, k):
    """Shortest paths by Floyd and Warshall in the graph that joins two points when either is near the other."""
    distance = cdist(points, points)
    near = np.argsort(distance + np.diag(np.full(len(points), np.inf)), axis=1)[:, :k]
    path = np.full(distance.shape, np.inf)
    np.put_along_axis(path, near, np.take_along_axis(distance, near, axis=1), axis=1)
    path = np.minimum(path, path.T)
    np.fill_diagonal(path, 0)
    for middle in range(len(points)):
        path = np.minimum(path, path[:, middle, None] + path[None, middle, :])
    return path


def brute_force_clusters(x, a, threshold):
    points = np.concatenate([x, a]) / np.linalg.norm(np.concatenate([x, a]), axis=1, keepdims=True)
    labels = fcluster(linkage(points, "ward"), threshold, "distance")
    means = np.stack([points[labels == label].mean(axis=0) for label in labels])
    return means[: len(x)] @ means[len(x) :].T


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_independent_oracles(xp, x, anchors, name, dtype):
    given_x, given_anchors = x.astype(dtype), anchors.astype(dtype)
    out = rl.relative_projection(xp(given_x), xp(given_anchors), name)
    expected = ORACLES[name](given_x.astype(np.float64), given_anchors.astype(np.float64))
    assert np.allclose(to_numpy(out), expected, atol=2e-4 if dtype == np.float32 else 1e-7)
    assert out.dtype == xp(given_x).dtype


@pytest.mark.parametrize("name", sim.SIMILARITIES)
def test_chunks_do_not_show(monkeypatch, xp, x, anchors, name):
    whole = to_numpy(rl.relative_projection(xp(x), xp(anchors), name))
    for entries in (1, 5 * K, 7 * K * D):
        monkeypatch.setattr(_linalg, "CHUNK_ENTRIES", entries)
        assert np.allclose(to_numpy(rl.relative_projection(xp(x), xp(anchors), name)), whole)


@pytest.mark.parametrize("name", ["cosine", "angular", "euclidean", "l1", "linf", "lp"])
def test_memory_beyond_the_result_is_bounded(monkeypatch, rng, name):
    monkeypatch.setattr(_linalg, "CHUNK_ENTRIES", 2**12)
    x, anchors = rng.normal(size=(20_000, 8)), rng.normal(size=(50, 8))
    rl.relative_projection(x[:10], anchors, name)
    tracemalloc.start()
    result = rl.relative_projection(x, anchors, name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - result.nbytes < 0.2 * result.nbytes


SMOOTH = ["cosine", "inner", "euclidean", "l1", "linf", "lp", "angular", "basis", "mahalanobis"]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_pass_to_samples_and_anchors(rng, name):
    x = torch.tensor(rng.normal(size=(3, 4)), requires_grad=True)
    anchors = torch.tensor(rng.normal(size=(6, 4)), requires_grad=True)
    assert torch.autograd.gradcheck(partial(rl.relative_projection, similarity=name), (x, anchors))
    assert torch.autograd.gradcheck(lambda a: rl.relative_projection(x.detach(), a, name), (anchors,))


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_do_not_depend_on_chunks(monkeypatch, rng, name):
    x = torch.tensor(rng.normal(size=(9, 4)), requires_grad=True)
    anchors = torch.tensor(rng.normal(size=(6, 4)), requires_grad=True)
    whole = torch.autograd.grad(rl.relative_projection(x, anchors, name).pow(2).sum(), (x, anchors))
    monkeypatch.setattr(_linalg, "CHUNK_ENTRIES", 12)
    parts = torch.autograd.grad(rl.relative_projection(x, anchors, name).pow(2).sum(), (x, anchors))
    only = torch.autograd.grad(rl.relative_projection(x.detach(), anchors, name).pow(2).sum(), (anchors,))
    assert torch.allclose(whole[0], parts[0])
    assert torch.allclose(whole[1], parts[1])
    assert torch.allclose(whole[1], only[0])


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_finite_where_a_sample_is_an_anchor(name):
    x = torch.eye(3, dtype=torch.float64, requires_grad=True)
    rl.relative_projection(x, torch.eye(3, dtype=torch.float64), name).sum().backward()
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("name", [n for n in sim.SIMILARITIES if n not in ("geodesic", "quantized")])
@pytest.mark.parametrize("k", [3, K])
def test_what_torch_follows_has_the_same_values(x, anchors, name, k):
    plain, followed = torch.from_numpy(x), torch.from_numpy(x).requires_grad_()
    a = torch.from_numpy(anchors[:k])
    expected = sim.resolve(name)(plain, a)
    assert torch.allclose(sim.resolve(name)(followed, a), expected)
    assert torch.allclose(sim.resolve(name)(plain, a.clone().requires_grad_()), expected)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_device_is_kept(x, anchors, name):
    device = array_api_strict.Device("device1")
    on_device = [array_api_strict.asarray(a, device=device) for a in (x, anchors)]
    assert rl.relative_projection(*on_device, name).device == device


@pytest.mark.parametrize("name", sim.SIMILARITIES)
def test_nothing_is_modified_and_views_will_do(x, anchors, name):
    wide_x, wide_anchors = np.repeat(x, 2, axis=1), np.asfortranarray(anchors)
    view = wide_x[::-1, ::2]
    out = rl.relative_projection(view, wide_anchors, name)
    assert np.allclose(out, rl.relative_projection(x[::-1].copy(), anchors, name))
    assert np.array_equal(wide_x, np.repeat(x, 2, axis=1))
    assert np.array_equal(wide_anchors, anchors)


@pytest.mark.parametrize("name", sim.SIMILARITIES)
def test_zero_repeated_and_dependent_anchors_give_no_nan(xp, x, anchors, name):
    x[0] = 0
    anchors[0], anchors[1], anchors[2] = 0, anchors[3], anchors[4] + anchors[5]
    assert np.all(np.isfinite(to_numpy(rl.relative_projection(xp(x), xp(anchors), name))))


@pytest.mark.parametrize("name", ["cosine", "inner", "basis"])
def test_a_zero_vector_stays_zero(xp, x, anchors, name):
    x[3] = 0
    assert not np.any(to_numpy(rl.relative_projection(xp(x), xp(anchors), name))[3])


@pytest.mark.parametrize("name", sim.SIMILARITIES)
def test_one_sample_and_one_anchor(name):
    assert rl.relative_projection([[1.0, 2.0]], [[2.0, 1.0]], name).shape == (1, 1)


@given(
    n=st.integers(1, 9),
    k=st.integers(1, 9),
    d=st.integers(1, 9),
    scale=st.floats(1e-150, 1e150),
    seed=st.integers(0, 99),
)
def test_cosines_are_cosines_at_every_shape_and_scale(n, k, d, scale, seed):
    rng = np.random.default_rng(seed)
    x, anchors = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    r = rl.relative_projection(x * scale, anchors)
    assert r.shape == (n, k)
    assert np.all(np.abs(r) <= 1 + 1e-12)
    assert np.allclose(r, rl.relative_projection(anchors, x).T)
    assert np.allclose(r, np.cos(np.pi * (1 - rl.relative_projection(x, anchors, "angular"))))


@given(offset=st.floats(-1e6, 1e6), seed=st.integers(0, 20))
def test_distances_far_from_the_origin_are_still_distances(offset, seed):
    rng = np.random.default_rng(seed)
    x, anchors = rng.normal(size=(5, 3)) + offset, rng.normal(size=(4, 3)) + offset
    assert np.allclose(rl.relative_projection(x, anchors, "euclidean"), -cdist(x, anchors), rtol=1e-6)
    assert np.allclose(np.diag(rl.relative_projection(x, x, "euclidean")), 0, atol=1e-6)


def test_lp_of_other_orders(x, anchors):
    assert np.allclose(sim.lp(x, anchors, p=2), sim.euclidean(x, anchors))
    assert np.allclose(sim.lp(x, anchors, p=np.inf), -cdist(x, anchors, "chebyshev"))
    with pytest.raises(ValueError, match=r"p is 0.5: expected at least 1"):
        sim.lp(x, anchors, p=0.5)


def test_basis_rebuilds_what_the_anchors_span(x, anchors):
    assert np.allclose(sim.basis(x, anchors) @ anchors, x)
    few = anchors[:3]
    assert np.allclose(sim.basis(x, few) @ few, x @ np.linalg.pinv(few) @ few)
    assert not np.allclose(sim.basis(x, few) @ few, x)


def test_a_ridge_on_mahalanobis_is_that_of_the_covariance(x, anchors):
    centered = anchors - anchors.mean(axis=0)
    covariance = np.cov(anchors.T)
    shrunk = covariance + 0.3 * np.trace(covariance) / D * np.eye(D)
    expected = (x - anchors.mean(axis=0)) @ np.linalg.solve(shrunk, centered.T)
    assert np.allclose(sim.mahalanobis(x, anchors, ridge=0.3), expected)


def test_geodesics_do_not_see_how_a_line_is_rolled_up():
    t = np.linspace(0, 3 * np.pi / 2, 2000)
    line, arc = np.stack([t, 0 * t], axis=1), np.stack([np.cos(t), np.sin(t)], axis=1)
    rows = [0, 700, 1999]
    flat, rolled = (rl.relative_projection(s, s[rows], "geodesic") for s in (line, arc))
    assert np.allclose(flat, rolled, rtol=1e-3, atol=1e-3)
    assert not np.allclose(sim.euclidean(line, line[rows]), sim.euclidean(arc, arc[rows]), rtol=1e-1)


def test_a_graph_in_parts_is_refused():
    x = np.concatenate([np.zeros((5, 2)), np.ones((5, 2))]) + 1e-3 * np.arange(20).reshape(10, 2)
    with pytest.raises(ValueError, match=r"The graph of 2 nearest neighbors falls into .* parts.*n_neighbors"):
        rl.relative_projection(x, x[:1], partial(sim.geodesic, n_neighbors=2))


def test_quantized_does_not_see_moves_within_a_cluster(rng):
    centers = np.repeat(np.eye(4), 8, axis=0)
    x = centers + 0.02 * rng.normal(size=centers.shape)
    within = np.concatenate([8 * i + rng.permutation(8) for i in range(4)])
    for name, survives in [("quantized", True), ("cosine", False)]:
        before, after = (rl.relative_projection(s, np.eye(4), name) for s in (x, x[within]))
        assert np.allclose(before, after) is survives


def test_combinations_lie_side_by_side_or_are_averaged(xp, x, anchors):
    parts = [rl.relative_projection(x, anchors, name) for name in ("cosine", "euclidean")]
    beside = rl.relative_projection(xp(x), xp(anchors), sim.combine("cosine", sim.euclidean))
    averaged = rl.relative_projection(xp(x), xp(anchors), sim.combine("cosine", "euclidean", how="mean"))
    assert np.allclose(to_numpy(beside), np.concatenate(parts, axis=1))
    assert np.allclose(to_numpy(averaged), (parts[0] + parts[1]) / 2)


def test_a_product_of_invariances(rng, x, anchors):
    both = sim.combine("cosine", "euclidean")
    for move, survives in [("rotation", True), ("offset", False), ("isotropic rescaling", False)]:
        matrix, offset = MOVES[move](rng)
        moved = rl.relative_projection(x @ matrix + offset, anchors @ matrix + offset, both)
        assert np.allclose(rl.relative_projection(x, anchors, both), moved) is survives


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sim.resolve("cosin"), "no similarity 'cosin'. Did you mean 'cosine'"),
        (lambda: sim.resolve("euclidian"), "Did you mean 'euclidean'"),
        (lambda: sim.resolve(3), "no similarity 3. There are: cosine"),
        (lambda: sim.resolve(["cosine"]), r"no similarity \['cosine'\]"),
        (lambda: sim.combine(), "No similarity was given"),
        (lambda: sim.combine("cosine", how="meen"), "how is 'meen'. Did you mean 'mean'"),
        (lambda: sim.combine("cosin"), "Did you mean 'cosine'"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(call, message):
    with pytest.raises(ValueError, match=message):
        call()
