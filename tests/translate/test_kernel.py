from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import rbf_kernel

import relatent as rl
from relatent.steps import Features, gaussian_kernel
from relatent.translate import kernel as kernels
from relatent.translate.goals import vectors
from relatent.translate.kernel import Kernel, Rows, leave_one_out, left_out_predictions, regress
from relatent.translate.pairs import Pairs
from relatent.translate.ridge import LeaveOneOut, RidgePath

LINEAR, MIXED, NARROW = Kernel(1.0, 0.0), Kernel(6.0, 4.0), Kernel(0.5, 30.0)


@pytest.fixture
def curved(rng):
    """Two spaces of 6 and 5 coordinates with a relation that no matrix describes."""
    x = rng.normal(size=(500, 6))
    return x, np.sin(x @ rng.normal(size=(6, 5)) / 2) + 0.05 * rng.normal(size=(500, 5))


@pytest.fixture
def rows(rng):
    x = rng.normal(size=(30, 4)) + 2.0
    return Rows(x, np.tanh(x @ rng.normal(size=(4, 3))) + 5.0)


def predicted(found, x):
    """Predict as a folded map does."""
    features = x if found.features is None else found.features.step(x)
    return found.mean_y + (features - found.mean_x) @ found.matrix


def centered_gram(kernel, x, z):
    """Return the kernel about the mean of the rows x, from scikit-learn."""

    def gram(a, b):
        return a @ b.T + kernel.weight * rbf_kernel(a, b, 1 / kernel.width)

    return gram(z, x) - gram(x, x).mean(axis=0) - gram(z, x).mean(axis=1, keepdims=True) + gram(x, x).mean()


# Solving


@pytest.mark.parametrize("kernel", [LINEAR, MIXED, NARROW])
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 50.0])
def test_it_is_scikit_learns_kernel_ridge_about_the_means(rows, rng, kernel, penalty):
    new, mean = rng.normal(size=(20, 4)), rows.y.mean(axis=0)
    peer = KernelRidge(alpha=penalty, kernel="precomputed").fit(centered_gram(kernel, rows.x, rows.x), rows.y - mean)
    expected = mean + peer.predict(centered_gram(kernel, rows.x, new))
    np.testing.assert_allclose(predicted(regress(kernel, penalty, rows), new), expected, rtol=1e-5)


def test_whole_weights_are_repetitions(rows, rng):
    weights = rng.integers(1, 4, size=len(rows)).astype(np.float64)
    repeated = np.repeat(np.arange(len(rows)), weights.astype(int))
    new = rng.normal(size=(9, 4))
    once, often = (regress(MIXED, 0.5, r) for r in (Rows(rows.x, rows.y, weights), rows.part(repeated)))
    np.testing.assert_allclose(predicted(once, new), predicted(often, new), rtol=1e-8)


def test_landmarks_approximate_all_anchors_and_hold_none(curved, monkeypatch):
    x, y = curved
    rows, new = Rows(x[:400], y[:400]), x[400:]
    exact = predicted(regress(MIXED, 0.5, rows), new)
    monkeypatch.setattr(kernels, "ALL_ANCHORS", 100)
    found = regress(MIXED, 0.5, rows)
    assert len(found.features.centers) == 200
    distances = np.linalg.norm(found.features.centers[:, None] - x, axis=2)
    assert distances.min() > 1e-3
    assert np.linalg.norm(predicted(found, new) - exact) < 0.1 * np.linalg.norm(exact - y.mean(0))
    weights = np.full(400, 2.0)
    doubled = predicted(regress(MIXED, 1.0, Rows(rows.x, rows.y, weights)), new)
    np.testing.assert_allclose(doubled, predicted(found, new), rtol=1e-6)


def test_landmarks_that_miss_most_of_a_narrow_kernel_do_no_harm(rng, monkeypatch):
    """They explain some rows, and would be overfitted to with the penalty of a kernel that tells all rows apart."""
    x = rng.normal(size=(600, 30))
    y = x @ rng.normal(size=(30, 5)) + 2 * rng.normal(size=(600, 5))
    rows, narrow = Rows(x[:400], y[:400]), Kernel(60.0, 100.0)
    monkeypatch.setattr(kernels, "ALL_ANCHORS", 100)
    monkeypatch.setattr(kernels, "LANDMARKS", 150)

    def error(penalty):
        return np.mean((predicted(regress(narrow, penalty, rows), x[400:]) - y[400:]) ** 2)

    assert error(1e-3) < 1.1 * min(error(penalty) for penalty in (1e-3, 1.0, 10.0, 100.0, 1e3))


@pytest.mark.parametrize("beyond", [False, True])
def test_every_anchor_is_a_center_up_to_a_number_of_them(rng, beyond, monkeypatch):
    assert kernels.ALL_ANCHORS == 3_000  # what the documentation says
    monkeypatch.setattr(kernels, "ALL_ANCHORS", 60)
    monkeypatch.setattr(kernels, "LANDMARKS", 20)
    n = 60 + beyond
    x = rng.normal(size=(n, 2))
    found = regress(MIXED, 1.0, Rows(x, x[:, :1] ** 2))
    assert len(found.features.centers) == (20 if beyond else 60)
    assert found.features.mixed is beyond


def test_similarities_are_scikit_learns_also_far_from_the_origin(rng):
    x, centers = rng.normal(size=(30, 5)), rng.normal(size=(7, 5))
    expected = rbf_kernel(x, centers, 1 / 3.0)
    np.testing.assert_allclose(gaussian_kernel(x, centers, 3.0), expected, rtol=1e-10)
    np.testing.assert_allclose(gaussian_kernel(x + 1e4, centers + 1e4, 3.0), expected, rtol=1e-6)
    single = gaussian_kernel(x.astype(np.float32), centers.astype(np.float32), 3.0)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, rtol=1e-4, atol=1e-7)


# Leaving one out


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", [LINEAR, MIXED, NARROW])
def test_leaving_one_out_is_exact(rows, rng, kernel, weighted):
    rows = Rows(rows.x, rows.y, rng.uniform(0.5, 3, size=len(rows)) if weighted else None)
    found, penalty = leave_one_out(kernel, rows), 0.3
    told = found.predictions(penalty / found.unit) + rows.share @ rows.y
    for i in (0, 7, 29):
        others = regress(kernel, penalty, rows.part(np.delete(np.arange(30), i)))
        np.testing.assert_allclose(told[i], predicted(others, rows.x[[i]])[0], rtol=1e-7)
    squares = np.sum((told - rows.y) ** 2, axis=1)
    assert found.error(penalty / found.unit) == pytest.approx(np.average(squares, weights=rows.weights))


def test_without_the_mean_it_would_not_be_exact(rows):
    found = leave_one_out(MIXED, rows)
    told = found.predictions(0.3 / found.unit) + rows.y.mean(axis=0)
    others = regress(MIXED, 0.3, rows.part(np.arange(1, 30)))
    careless = rows.y.mean(0) + replace(found, share=np.zeros(30)).predictions(0.3 / found.unit)
    truth = predicted(others, rows.x[[0]])[0]
    assert np.linalg.norm(told[0] - truth) < 1e-6 < np.linalg.norm(careless[0] - truth)


@pytest.mark.parametrize("few", [True, False])
def test_a_linear_kernel_leaves_out_as_the_linear_ridge_does(rng, few):
    x = rng.normal(size=(12 if few else 60, 20))
    y = x @ rng.normal(size=(20, 4)) + rng.normal(size=(len(x), 4))
    p = Pairs.of(x, y).normalized("iso")
    linear, dual = LeaveOneOut.of(RidgePath.of(p.summary), p), leave_one_out(LINEAR, vectors._rows(p))
    for penalty in (1e-3, 0.1, 3.0):
        expected = linear.predictions(penalty)
        np.testing.assert_allclose(dual.predictions(penalty * linear.unit / dual.unit), expected, rtol=1e-6, atol=1e-9)


# Choosing


def test_a_curved_relation_gets_a_kernel_and_a_straight_one_none(curved, rng):
    x, y = curved
    bent = rl.Translator().fit(x[:400], y[:400])
    assert "kernel ridge" in bent.selection_.chosen
    assert bent.score(x[400:], y[400:]) > rl.Translator(map="ridge").fit(x[:400], y[:400]).score(x[400:], y[400:]) + 0.2
    y = x @ rng.normal(size=(6, 5)) + 0.3 * rng.normal(size=(500, 5))
    assert rl.Translator().fit(x, y).selection_.chosen == "ridge"


def test_it_does_as_well_as_a_searched_kernel_ridge(curved):
    from sklearn.model_selection import GridSearchCV

    x, y = curved
    grid = {"gamma": np.logspace(-2, 1, 7), "alpha": np.logspace(-4, 1, 6)}
    for k in (50, 400):
        mean, scale = x[:k].mean(0), np.sqrt(np.mean(np.sum((x[:k] - x[:k].mean(0)) ** 2, axis=1)))
        peer = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=5).fit((x[:k] - mean) / scale, y[:k])
        theirs = np.sum((peer.predict((x[400:] - mean) / scale) - y[400:]) ** 2)
        ours = np.sum((rl.Translator().fit(x[:k], y[:k]).transform(x[400:]) - y[400:]) ** 2)
        assert ours <= 1.05 * theirs


@pytest.mark.parametrize(
    "case",
    ["ten", "two", "fewer than coordinates", "duplicates", "all but one the same", "rank-deficient", "constant target"],
)
def test_awkward_anchors_give_finite_maps(rng, case):
    x, y = rng.normal(size=(40, 8)), rng.normal(size=(40, 6))
    x, y = {
        "ten": (x[:10], y[:10]),
        "two": (x[:2], y[:2]),
        "fewer than coordinates": (rng.normal(size=(12, 30)), y[:12]),
        "duplicates": (np.r_[x, x], np.r_[y, y]),
        "all but one the same": (np.r_[np.tile(x[:1], (39, 1)), x[1:2]], y),
        "rank-deficient": (x[:, :1] @ x[:1], y),
        "constant target": (x, np.ones_like(y)),
    }[case]
    for goal in ("vectors", "index", "stitching"):
        moved = rl.Translator(goal).fit(x, y, force=True).transform(rng.normal(size=(5, x.shape[1])))
        assert np.all(np.isfinite(moved))
        assert np.linalg.norm(moved) < 100 * (np.linalg.norm(y) + 1)


def test_repeated_anchors_do_not_fool_the_choice(rng):
    x, y = rng.normal(size=(30, 6)), rng.normal(size=(30, 4))  # no relation
    x, y = np.r_[x, x], np.r_[y, y]
    t = rl.Translator().fit(x, y, force=True)
    fresh = t.transform(rng.normal(size=(200, 6)))
    assert np.mean((fresh - y.mean(0)) ** 2) < 0.5 * np.var(y)  # it says little, rather than remember


def test_rows_off_the_span_of_few_anchors_are_far_from_them(rng):
    x = np.zeros((12, 30))
    x[:, :5] = rng.normal(size=(12, 5))
    y = np.sin(2 * x[:, :5])
    choice = vectors.RidgeChoice("iso", 12, None, 0.1, Kernel(0.5, 8.0), 0)
    solved = vectors.solve(Pairs.of(x, y), choice).source
    away = x.copy()
    away[:, 20] = 100.0
    np.testing.assert_allclose(solved.features.step(solved.before.applied(x))[:, 30:].max(axis=1), 1.0)
    assert np.all(solved.features.step(solved.before.applied(away))[:, 30:] < 1e-6)


# What is asked for


@pytest.mark.parametrize("goal", ["vectors", "index", "stitching"])
def test_an_affine_cost_forbids_the_kernel(curved, tmp_path, goal):
    x, y = curved
    free, cheap = (rl.Translator(goal, max_cost=cost).fit(x, y) for cost in (None, "affine"))
    assert free.map_.features is not None
    assert cheap.map_.features is None
    np.testing.assert_allclose(cheap.transform(x), x @ cheap.matrix_ + cheap.offset_, rtol=1e-9, atol=1e-12)
    cheap.save(tmp_path / "t.safetensors")
    assert rl.load(tmp_path / "t.safetensors").max_cost == "affine"


def test_an_unknown_cost_is_refused(rng):
    with pytest.raises(ValueError, match="max_cost is 'cheap': expected None or 'affine'"):
        rl.Translator(max_cost="cheap").fit(rng.normal(size=(9, 3)), rng.normal(size=(9, 3)))


def test_a_saved_kernel_map_is_the_same_and_the_summary_says_what_it_holds(curved, tmp_path):
    x, y = (a.astype(np.float32) for a in curved)
    t = rl.Translator().fit(x[:300], y[:300])
    t.save(tmp_path / "t.safetensors")
    again = rl.load(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(again.transform(x), t.transform(x))
    for fitted in (t, again):
        assert fitted.transform(x).dtype == np.float32
        assert "the source vectors of 300 anchors" in str(fitted.summary())
        assert "× the work of an affine map" in str(fitted.summary())
    cheap = rl.Translator(max_cost="affine").fit(x[:300], y[:300])
    assert "source vectors" not in str(cheap.summary())


def test_the_cost_counts_multiplications(curved):
    x, y = curved
    t = rl.Translator().fit(x[:100], y[:100])
    assert t.map_.cost == (6 * 5 + 100 * 6 + 100 * 5) / (6 * 5)
    assert rl.Translator(max_cost="affine").fit(x[:100], y[:100]).map_.cost == 1


def test_anchors_can_be_read_out_of_a_kernel_map(curved):
    # The claim that the documentation makes: source vectors, and with the penalty the target vectors.
    x, y = curved
    t = rl.Translator().fit(x[:60], y[:60])
    source = t.map_.before.undone(t.map_.features.centers)
    np.testing.assert_allclose(source, x[:60], atol=1e-9)
    coefficients = t.map_.matrix[6:] / t.choice_.kernel.weight
    np.testing.assert_allclose(t.transform(source) + t.choice_.penalty * coefficients, y[:60], atol=1e-8)


def test_chunks_do_not_change_a_translation(curved, monkeypatch):
    x, y = curved
    t = rl.Translator().fit(x[:100], y[:100])
    whole = t.transform(x)
    monkeypatch.setattr("relatent._linalg.CHUNK_ENTRIES", 7 * 100)
    # Another number of rows is another order of additions in BLAS: equal up to rounding.
    np.testing.assert_allclose(t.transform(x), whole, rtol=1e-12, atol=1e-13)


def test_torch_gives_the_same_and_its_gradient(curved):
    x, y = curved
    t = rl.Translator().fit(x[:100], y[:100])
    assert t.map_.features is not None
    leaf = torch.tensor(x[100:103], requires_grad=True)
    moved = t.transform(leaf)
    np.testing.assert_allclose(moved.detach().numpy(), t.transform(x[100:103]), rtol=1e-10)
    moved[:, 0].sum().backward()
    step = 1e-6
    ahead, back = x[100:103].copy(), x[100:103].copy()
    ahead[:, 2] += step
    back[:, 2] -= step
    slope = (t.transform(ahead)[:, 0] - t.transform(back)[:, 0]) / (2 * step)
    np.testing.assert_allclose(leaf.grad[:, 2].numpy(), slope, rtol=1e-5, atol=1e-7)


def test_folds_see_nothing_of_what_is_held_out(curved):
    x, y = curved
    t = rl.Translator().fit(x[:60], y[:60])
    rest = np.arange(5, 60)
    changed_x, changed_y = x[:60].copy(), y[:60].copy()
    changed_x[:5], changed_y[:5] = 50.0, -50.0
    maps = [
        t.goal_.solve(Pairs.of(a, b).without(np.arange(5)), t.choice_).source
        for a, b in ((x[:60], y[:60]), (changed_x, changed_y))
    ]
    np.testing.assert_allclose(maps[0](x[rest]), maps[1](x[rest]), rtol=1e-6, atol=1e-8)


def test_features_are_the_vectors_and_their_similarities(rng):
    x, centers = rng.normal(size=(4, 3)), rng.normal(size=(2, 3))
    found = Features(centers, 2.0).step(x)
    np.testing.assert_array_equal(found[:, :3], x)
    np.testing.assert_allclose(found[:, 3:], rbf_kernel(x, centers, 0.5), rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_penalty_leaves_out_as_the_whole_path_does(rng, weighted):
    weights = rng.uniform(0.5, 2, size=30) if weighted else None
    rows = Rows(rng.normal(size=(30, 4)), rng.normal(size=(30, 3)), weights)
    kernel = rows.kernel(0.5, 8.0)
    path = leave_one_out(kernel, rows)
    predicted, about = left_out_predictions(kernel, 0.7, rows)
    np.testing.assert_allclose(predicted, path.predictions(0.7 / path.unit), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(about, path.y)
