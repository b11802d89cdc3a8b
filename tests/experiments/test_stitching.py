from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from experiments.data.images import Images, load_images
from experiments.latent_space_translation import generation
from experiments.models.autoencoder import Autoencoding, autoencoder
from experiments.models.training import Training
from experiments.relative_representations import autoencoders, training
from experiments.results import Setting

SIZE = replace(training.QUICK, seeds=2, images=Training(steps=60, rate=5e-3, anchors=100))
SMALL = Autoencoding(steps=6, anchors=20, channels=(4, 8), latent=10)


@pytest.fixture(scope="module")
def digits() -> Images:
    return load_images("digits")


@pytest.fixture(scope="module")
def models(digits: Images, tmp_path_factory: pytest.TempPathFactory) -> training.Models:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "NETWORKS", {"digits": ("mlp",)})
        return training.train_all(digits, SIZE, tmp_path_factory.mktemp("models"))


def test_seeds_share_the_relative_space_and_not_the_absolute(digits: Images, models: training.Models) -> None:
    x = torch.from_numpy(digits.test)
    agreement = {}
    for kind, by_name in models.items():
        a, b = (m.encoder(x).detach() for m in by_name.values())
        # Centered, because cosines share a positive mean that any two relative spaces would agree on.
        a, b = a - a.mean(0), b - b.mean(0)
        agreement[kind] = float(torch.cosine_similarity(a, b).mean())
    assert abs(agreement["absolute"]) < 0.2
    assert agreement["relative"] > 0.7


def test_stitched_classifiers_work_when_relative_or_translated(digits: Images, models: training.Models) -> None:
    scores: training.Scores = {}
    for kind, reach, score in training.stitch_all(digits, models, SIZE.images.anchors):
        scores.setdefault(("digits", reach, kind), []).append(score)
    mean = {kind: training.pooled(scores, kind) for kind in training.STITCHED}
    assert {reach for _, reach, _ in scores} == {"its own", "another seed"}
    assert min(mean["own absolute"], mean["own relative"]) > 0.9
    assert min(mean["relative"], mean["translated (ours)"]) > 0.8
    assert mean["absolute"] < 0.4
    assert mean[training.SHUFFLED] < 0.5
    assert mean[training.UNTRAINED] < mean["relative"]
    own = training.own_scores(digits, models)["digits", "mlp", "absolute"]
    assert own == pytest.approx(scores["digits", "its own", "own absolute"])


def test_the_score_is_f1_weighted_by_class() -> None:
    # Class 0: precision 1, recall 1/2; class 1: precision 1/2, recall 1.
    assert training.weighted_f1(np.asarray([0, 0, 1]), np.asarray([0, 1, 1])) == pytest.approx(2 / 3)


def test_autoencoders_are_stitched_in_every_way_and_found_again(digits: Images, tmp_path: Path) -> None:
    setting = Setting(models=tmp_path)
    found = autoencoders.train_all(digits, SMALL, 2, setting)
    scores = list(autoencoders.stitch_all(digits, found, SMALL))
    assert [kind for kind, _ in scores].count("relative") == 2
    assert {kind for kind, _ in scores} == set(autoencoders.COLUMNS)
    assert len(list(tmp_path.glob("*.safetensors"))) == 4
    again = autoencoders.train_all(digits, SMALL, 2, setting)
    x = torch.from_numpy(digits.test)
    assert torch.equal(found["relative"][0](x), again["relative"][0](x))
    grid = autoencoders.pictured(digits, found, SMALL)
    assert grid["rows"][0] == "original"


def test_generation_translates_a_rotated_space_and_absolute_does_not(
    digits: Images, orthogonal: Callable[[int], np.ndarray]
) -> None:
    torch.manual_seed(0)
    model = autoencoder(8, channels=SMALL.channels, latent=SMALL.latent).eval()
    turn = torch.from_numpy(orthogonal(SMALL.latent)).float()
    rotated = SimpleNamespace(encoder=lambda x: model.encoder(x) @ turn, decoder=lambda z: model.decoder(z @ turn.T))
    for name in ("absolute", "LLS", "default (ours)"):
        found = np.asarray(list(generation.stitched(digits, [model, rotated], generation.METHODS[name], 1_000)))
        exact = np.allclose(found[:, 0], 1, atol=1e-3) and np.allclose(found[:, 1], 0, atol=1e-3)
        assert exact is (name != "absolute")
        if exact:
            assert np.allclose(found[:, 3], generation.pixel_error(model, digits), rtol=1e-3)
