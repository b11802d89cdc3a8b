import numpy as np
import pytest
import torch

from relatent.evaluate import (
    arr,
    fidelity_report,
    gain_recovered,
    mean_cosine,
    mse,
    ndcg,
    norm_ratio,
    r2,
    recall,
    reconstruction_mse,
    task_kept,
)

MEASURES = {"cosine": mean_cosine, "mse": mse, "r2": r2, "norm_ratio": norm_ratio}


@pytest.fixture
def pair(rng):
    y = rng.normal(size=(80, 5)) + 1
    return 0.8 * y + 0.3 * rng.normal(size=y.shape), y


def by_definition(x, y):
    cos = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(x, y, strict=True)]
    return {
        "cosine": np.mean(cos),
        "mse": np.mean((x - y) ** 2),
        "r2": 1 - np.sum((x - y) ** 2) / np.sum((y - y.mean(axis=0)) ** 2),
        "norm_ratio": np.linalg.norm(x, axis=1).mean() / np.linalg.norm(y, axis=1).mean(),
    }


@pytest.mark.parametrize("name", MEASURES)
def test_by_definition(xp, pair, name):
    value = MEASURES[name](xp(pair[0]), xp(pair[1]))
    assert float(value) == pytest.approx(by_definition(*pair)[name])


@pytest.mark.parametrize("name", ["cosine", "mse"])
def test_gradients(pair, name):
    x, y = (torch.tensor(a[:6], requires_grad=True) for a in pair)
    assert torch.autograd.gradcheck(MEASURES[name], (x, y))


@pytest.mark.parametrize(
    ("name", "rotated", "shifted", "shrunk"),
    [
        ("cosine", True, False, True),
        ("mse", True, True, False),
        ("r2", True, True, True),
        ("norm_ratio", True, False, True),
    ],
)
def test_invariance(pair, orthogonal, name, rotated, shifted, shrunk):
    x, y = pair
    q, measure = orthogonal(5), MEASURES[name]
    assert np.isclose(measure(x @ q, y @ q), measure(x, y)) is np.bool_(rotated)
    assert np.isclose(measure(x + 3, y + 3), measure(x, y)) is np.bool_(shifted)
    assert np.isclose(measure(x / 2, y / 2), measure(x, y)) is np.bool_(shrunk)


def test_r2_far_from_the_origin_in_float32(rng):
    y = (rng.normal(size=(20_000, 3)) + 1e4).astype(np.float32)
    mean = np.broadcast_to(y.mean(axis=0, dtype=np.float64).astype(np.float32), y.shape)
    assert float(r2(mean, y)) == pytest.approx(0, abs=1e-3)


def test_the_report_agrees_with_each_measure(pair):
    report = fidelity_report(*pair, slices=["a", "b"] * 40)
    for name, value in by_definition(*pair).items():
        assert report[name].value == pytest.approx(value)
        assert report[name].low < value < report[name].high
    half = by_definition(pair[0][::2], pair[1][::2])
    assert report["a", "cosine"].value == pytest.approx(half["cosine"])
    assert {line.rows for line in report} == {80, 40}


def test_reconstruction_of_images(rng):
    images = rng.normal(size=(30, 3, 4, 4))
    decoded = images + 0.1
    report = reconstruction_mse(torch.from_numpy(decoded), torch.from_numpy(images), slices=["day", "night"] * 15)
    assert report["mse"].value == pytest.approx(0.01)
    assert report["night", "mse"].value == pytest.approx(0.01)
    with pytest.raises(ValueError, match=r"decoded has shape .* expected the same"):
        reconstruction_mse(decoded[:, :2], images)


def test_task_kept(rng):
    own = rng.random(1_000) < 0.9
    stitched = own & (rng.random(1_000) < 0.95)
    untranslated = rng.random(1_000) < 0.1
    kept = task_kept(stitched, own, untranslated)
    assert kept.kept.value == pytest.approx(stitched.mean() / own.mean())
    gain = (stitched.mean() - untranslated.mean()) / (own.mean() - untranslated.mean())
    assert kept.recovered.value == pytest.approx(gain)
    assert kept.kept.low < kept.kept.value < kept.kept.high <= 1


def test_gain_recovered_at_its_ends(rng):
    old, new = rng.random(500) < 0.3, rng.random(500) < 0.8
    assert gain_recovered(old, old, new).value == 0
    assert gain_recovered(new, old, new).value == 1
    assert np.isnan(gain_recovered(new, old, old).value)  # there was no gain to recover
    with pytest.raises(ValueError, match="translated 3, old 4, new 4"):
        gain_recovered([1, 1, 1], [0, 0, 0, 1], [1, 1, 1, 1])


def test_arr_is_recall_relative_to_reembedding(rng):
    new_gallery = rng.normal(size=(300, 8))
    new_queries = new_gallery[:60] + 0.1 * rng.normal(size=(60, 8))
    q = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    translated = new_queries @ q + 0.3 * rng.normal(size=(60, 8))
    old_gallery = new_gallery @ q
    given = arr(translated, old_gallery, new_queries, new_gallery, k=5, relevant=np.arange(60))
    now, ideal = (
        recall(a, b, k=5, relevant=np.arange(60)) for a, b in ((translated, old_gallery), (new_queries, new_gallery))
    )
    assert given.value == pytest.approx(now / ideal)
    perfect = arr(new_queries @ q, old_gallery, new_queries, new_gallery, k=5)
    assert perfect.value == 1
    assert arr(translated, old_gallery, new_queries, new_gallery, k=5).value < 1


@pytest.mark.parametrize(("measure", "alone"), [("recall", recall), ("ndcg", ndcg)])
def test_arr_is_the_ratio_of_a_measure_alone(rng, measure, alone):
    new, items = rng.normal(size=(40, 6)), rng.normal(size=(90, 6))
    translated, wanted = new + 0.5 * rng.normal(size=new.shape), np.arange(40)
    found = arr(translated, items, new, items, 5, relevant=wanted, measure=measure)
    now, ideal = (alone(queries, items, 5, relevant=wanted) for queries in (translated, new))
    assert found.value == pytest.approx(now / ideal)
    with pytest.raises(ValueError, match="There is no measure 'recal' of judged rows"):
        arr(new, items, new, items, 5, measure="recal")


def test_bad_input(pair):
    x, y = pair
    with pytest.raises(ValueError, match="Join the two spaces on keys"):
        mean_cosine(x[:-1], y)
    with pytest.raises(ValueError, match="same last axis"):
        mse(x[:, :2], y)
    with pytest.raises(ValueError, match="y has 80 equal rows"):
        r2(x, np.ones_like(y))
    with pytest.raises(ValueError, match="only zero vectors"):
        norm_ratio(x, np.zeros_like(y))
    with pytest.raises(ValueError, match="slices has 3 entries and there are 80 rows"):
        fidelity_report(x, y, slices=["a", "b", "c"])
