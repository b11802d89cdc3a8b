from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.models import logs
from experiments.models.autoencoder import Gaussian, autoencoder, reconstruction_loss
from experiments.models.classifier import ARCHITECTURES, classification_loss, classifier
from experiments.models.heads import norm_head, tanh_head
from experiments.models.training import Training, batches, train, trained
from torch import nn


@pytest.mark.parametrize("side", [8, 13, 28])
@pytest.mark.parametrize("variational", [False, True])
@pytest.mark.parametrize("anchors", [None, 7])
def test_an_autoencoder_gives_back_pixels_of_the_shape_it_was_given(
    side: int, variational: bool, anchors: int | None
) -> None:
    samples = torch.rand(anchors, 1, side, side) if anchors else None
    model = autoencoder(side, samples, variational=variational, channels=(3, 4, 5), latent=6).eval()
    x = torch.rand(2, 1, side, side)
    z = model.encoder(x)
    assert z.shape == (2, anchors or 6)
    assert model.decoder(z).shape == x.shape
    assert bool(((model(x) > 0) & (model(x) < 1)).all())
    assert torch.equal(model(x), model.decoder(z))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("side", [8, 28])
def test_classifiers_of_every_architecture_fit_each_others_heads(architecture: str, side: int) -> None:
    x = torch.rand(2, 1, side, side)
    model, other = classifier(architecture, side, 3).eval(), classifier("plain", side, 3).eval()
    assert other.decoder(model.encoder(x)).shape == (2, 3)
    relative = classifier(architecture, side, 3, anchors=torch.rand(5, 1, side, side)).eval()
    assert relative.encoder(x).shape == (2, 5)
    assert relative(x).shape == (2, 3)


def test_a_head_reads_each_vector_by_itself() -> None:
    z = torch.randn(6, 10)
    for head in (norm_head(10, 4), tanh_head(10, 4)):
        assert torch.allclose(head(z)[:1], head(z[:1]), atol=1e-6)


def test_the_divergence_is_that_of_two_normals() -> None:
    layer, x = Gaussian(5, 3).train(), torch.randn(4, 5)
    torch.manual_seed(0)
    drawn = layer(x)
    drawn_from = torch.distributions.Normal(layer.mean(x), torch.exp(layer.log_variance(x) / 2))
    kl = torch.distributions.kl_divergence(drawn_from, torch.distributions.Normal(0.0, 1.0)).sum(1).mean()
    assert torch.allclose(layer.divergence, kl)
    assert not torch.equal(drawn, layer(x))
    assert torch.equal(layer.eval()(x), layer.mean(x))


@pytest.mark.parametrize("variational", [False, True])
def test_the_loss_is_the_gaussian_likelihood_at_its_best_deviation_and_the_divergence(variational: bool) -> None:
    x = torch.rand(4, 1, 8, 8)
    model = autoencoder(8, variational=variational, channels=(3,), latent=2).train()
    torch.manual_seed(0)
    loss = reconstruction_loss(model, x, x)
    torch.manual_seed(0)
    drawn = torch.distributions.Normal(y := model(x), (y - x).square().mean().sqrt())
    expected = -drawn.log_prob(x).sum() - x.numel() * np.log(2 * np.pi) / 2
    if variational:
        expected = expected + 4 * model.encoder[1].divergence
    assert torch.allclose(loss, expected, rtol=1e-4)


def test_codes_of_an_absolute_autoencoder_pass_a_gelu() -> None:
    codes = autoencoder(8, channels=(3,), latent=20).eval().encoder(torch.rand(30, 1, 8, 8)).detach()
    assert float(codes.min()) > -0.17  # the minimum of GELU


def test_every_row_comes_once_before_any_comes_again() -> None:
    rows = list(batches(10, 4, 4))
    assert [len(r) for r in rows] == [4] * 4
    for first, second in (rows[:2], rows[2:]):
        assert not set(first.tolist()) & set(second.tolist())
    assert [len(r) for r in batches(3, 8, 2)] == [3, 3]


def fit(seed: int, steps: int = 2) -> nn.Module:
    x = torch.linspace(0, 1, 6 * 64).reshape(6, 1, 8, 8)
    labels = torch.arange(6) % 2
    return train(lambda: classifier("mlp", 8, 2, x[:3]), x, labels, classification_loss, Training(steps), seed=seed)


def weights(model: nn.Module) -> torch.Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def test_a_seed_decides_the_training_and_nothing_outside_notices() -> None:
    before = torch.get_rng_state()
    assert torch.equal(weights(fit(0)), weights(fit(0)))
    assert not torch.equal(weights(fit(0)), weights(fit(1)))
    assert torch.equal(before, torch.get_rng_state())
    assert not fit(0).training


def test_a_trained_model_is_found_again_unless_its_settings_changed(tmp_path: Path) -> None:
    made: list[int] = []

    def train_it() -> nn.Module:
        made.append(len(made))
        return fit(made[-1])

    x = torch.rand(2, 1, 8, 8)
    build: Callable[[], nn.Module] = lambda: classifier("mlp", 8, 2, torch.zeros(3, 1, 8, 8))  # noqa: E731
    path = tmp_path / "models" / "a.safetensors"
    first = trained(path, Training(2), build, train_it)
    again = trained(path, Training(2), build, train_it)
    assert torch.equal(first(x), again(x))
    assert made == [0]
    trained(path, Training(3), build, train_it)
    assert made == [0, 1]
    assert sorted(p.name for p in path.parent.iterdir() if p.suffix != ".lock") == ["a.json", "a.safetensors"]


@pytest.mark.parametrize("relative", [False, True])
def test_a_rotated_and_rescaled_encoder_fits_the_old_decoder_only_when_relative(
    relative: bool, orthogonal: Callable[[int], np.ndarray]
) -> None:
    x, anchors = torch.rand(4, 1, 8, 8), torch.rand(5, 1, 8, 8)
    model = classifier("plain", 8, 3, anchors if relative else None, latent=6).eval()
    before = model(x)
    last = [m for m in model.encoder.modules() if isinstance(m, nn.Linear)][-1]
    turn = 3 * torch.from_numpy(orthogonal(6)).float()
    with torch.no_grad():
        last.weight.copy_(turn @ last.weight)
        last.bias.copy_(turn @ last.bias)
    if relative:
        model.encoder[1].refresh()
    assert torch.allclose(before, model(x), atol=1e-4) is relative


def test_a_training_logs_its_loss_to_a_logger_of_lightning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    x, labels = torch.eye(8), torch.arange(8) % 2
    monkeypatch.setattr(logs, "FOLDER", tmp_path)
    token = logs.LOGGER.set("CSVLogger")
    try:
        train(lambda: nn.Linear(8, 2), x, labels, classification_loss, Training(5, batch=8), seed=3, title="small")
    finally:
        logs.LOGGER.reset(token)
    run = tmp_path / "small" / "version_0"
    losses = np.genfromtxt(run / "metrics.csv", delimiter=",", names=True)
    assert list(losses["step"]) == [0, 1, 2, 3, 4]
    assert losses["loss"][-1] < losses["loss"][0]
    assert "seed: 3" in (run / "hparams.yaml").read_text()


def test_a_logger_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(SystemExit, match=r"no logger Csv: choose from .*CSVLogger"):
        logs.find_logger("Csv")
