import numpy as np
import pytest
import torch
from scipy.stats import jarque_bera, skew

from relatent._array import to_numpy
from relatent.evaluate import norms, rescale, rescaled, scale_curve


@pytest.fixture
def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(4, 8),
        torch.nn.ReLU(),
        torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Tanh()),
        torch.nn.Linear(6, 3),
    ).double()


def hooks(model):
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_norms_by_scipy(xp, rng):
    x = rng.normal(size=(500, 3)) * rng.uniform(0.5, 2, size=(500, 1))
    d = norms(xp(x))
    length = np.linalg.norm(x, axis=1)
    assert d.n == 500
    assert d.mean == pytest.approx(length.mean())
    assert d.std == pytest.approx(length.std())
    assert d.skew == pytest.approx(skew(length))
    assert d.normality == pytest.approx(jarque_bera(length).statistic)
    assert d.normality_p == pytest.approx(jarque_bera(length).pvalue, abs=1e-12)
    assert d.counts.sum() == 500
    assert "500 vectors of norm" in str(d)


def test_normal_lengths_pass_and_skewed_ones_do_not(rng):
    direction = rng.normal(size=(4_000, 5))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    assert norms(direction * rng.normal(10, 1, size=(4_000, 1))).normality_p > 0.01
    assert norms(direction * rng.exponential(size=(4_000, 1))).normality_p < 1e-6


def test_unit_vectors_have_no_outliers_and_a_long_one_is_one(rng):
    x = rng.normal(size=(200, 6)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert norms(x).outlier_share == 0
    assert norms(x).skew == 0
    x[3] *= 10
    assert norms(x).outlier_share == pytest.approx(1 / 200)


def test_rescale_keeps_direction_and_sets_length(xp, rng):
    x = rng.normal(size=(10, 4))
    x[0] = 0
    out = to_numpy(rescale(xp(x), 7.0))
    assert np.allclose(np.linalg.norm(out[1:], axis=1), 7)
    assert np.all(out[0] == 0)
    assert np.allclose(out[1:] / 7, x[1:] / np.linalg.norm(x[1:], axis=1, keepdims=True))


def test_a_named_layer_is_rescaled(model, rng):
    x = torch.tensor(rng.normal(size=(5, 4)))
    by_hand = model[3](5 * torch.nn.functional.normalize(model[2](model[1](model[0](x))), dim=1))
    with rescaled(model, "2", 5.0):
        assert torch.allclose(model(x), by_hand)
    assert not torch.allclose(model(x), by_hand)


def test_the_input_is_rescaled(model, rng):
    x = torch.tensor(rng.normal(size=(5, 4)))
    with rescaled(model, None, 2.0):
        assert torch.allclose(model(x), model[1:](model[0](2 * torch.nn.functional.normalize(x))))


def test_a_nested_layer_with_several_outputs_and_positions(rng):
    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = torch.nn.GRU(3, 4, batch_first=True).double()

        def forward(self, x):
            return self.rnn(x)[0]

    encoder, x = Encoder(), torch.tensor(rng.normal(size=(2, 5, 3)))
    with rescaled(encoder, "rnn", 3.0, axis=-1):
        assert torch.allclose(torch.linalg.norm(encoder(x), dim=-1), torch.full((2, 5), 3.0).double())
    with rescaled(encoder, "rnn", 3.0):
        assert torch.allclose(torch.linalg.norm(encoder(x).reshape(2, -1), dim=-1), torch.full((2,), 3.0).double())


@pytest.mark.parametrize("layer", [None, "0", "2.0"])
def test_hooks_are_removed_even_when_the_model_raises(model, layer):
    with rescaled(model, layer, 2.0):
        assert hooks(model) == 1
    assert hooks(model) == 0
    with pytest.raises(RuntimeError), rescaled(model, layer, 2.0):
        model(torch.zeros(2, 99).double())
    assert hooks(model) == 0


def test_hooks_are_removed_when_the_curve_raises(model, rng):
    def fail(*_):
        raise RuntimeError("broken")

    handle = model[3].register_forward_hook(fail)
    with pytest.raises(RuntimeError, match="broken"):
        scale_curve(model, torch.tensor(rng.normal(size=(5, 4))), [0] * 5, [1.0], layer="0")
    handle.remove()
    assert hooks(model) == 0


def test_the_curve(model, rng):
    x = torch.tensor(rng.normal(size=(60, 4)))
    labels = model(x).argmax(dim=1)
    for layer in (None, "0", "2"):
        curve = scale_curve(model, x, labels, [0.01, 1.0, 100.0], layer=layer)
        assert curve.unchanged == 1
        assert curve.accuracies[0] < 1  # near the origin only the bias speaks
        assert len(curve.alphas) == 3
        assert "unchanged" in str(curve)
    with rescaled(model, "2", 100.0):
        expected = float((model(x).argmax(dim=1) == labels).double().mean())
    assert curve.accuracies[2] == pytest.approx(expected)


def test_a_model_without_bias_does_not_care(rng):
    x, weight = rng.normal(size=(50, 4)), rng.normal(size=(4, 3))
    labels = np.argmax(x @ weight, axis=1)
    curve = scale_curve(lambda v: v @ weight, x, labels, [0.1, 1, 10])
    assert curve.accuracies == (1.0, 1.0, 1.0)


def test_bad_input(model, rng):
    x = torch.tensor(rng.normal(size=(5, 4)))
    with pytest.raises(ValueError, match=r"has no layer '2\.7'"), rescaled(model, "2.7", 1.0):
        pass
    with pytest.raises(ValueError, match="labels has 4 entries and x 5 rows"):
        scale_curve(model, x, [0] * 4, [1.0])
    with pytest.raises(ValueError, match="has no layer"):
        scale_curve(lambda v: v, x, [0] * 5, [1.0], layer="0")
