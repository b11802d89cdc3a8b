from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.data.images import Images, load_images
from experiments.models.training import Training
from experiments.relative_representations import autoencoders, classifiers

HOW = Training(steps=60, rate=5e-3, anchors=100)


@pytest.fixture(scope="module")
def digits() -> Images:
    return load_images("digits")


@pytest.fixture(scope="module")
def models(digits: Images, tmp_path_factory: pytest.TempPathFactory) -> classifiers.Models:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifiers, "ARCHITECTURES", ["mlp"])
        return classifiers.train_all(digits, 2, HOW, tmp_path_factory.mktemp("models"))


def test_seeds_share_the_relative_space_and_not_the_absolute(digits: Images, models: classifiers.Models) -> None:
    x = torch.from_numpy(digits.test)
    agreement = {}
    for kind, by_name in models.items():
        a, b = (m.encoder(x).detach() for m in by_name.values())
        # Centred, because cosines share a positive mean that any two relative spaces would agree on.
        a, b = a - a.mean(0), b - b.mean(0)
        agreement[kind] = float(torch.cosine_similarity(a, b).mean())
    assert abs(agreement["absolute"]) < 0.2
    assert agreement["relative"] > 0.7


def test_stitched_classifiers_work_when_relative_or_translated(digits: Images, models: classifiers.Models) -> None:
    scores = list(classifiers.stitch_all(digits, models, HOW))
    mean = {kind: np.mean([s.accuracy for s in scores if s.kind == kind]) for kind in classifiers.COLUMNS}
    assert {s.reach for s in scores} == {"other seed"}
    assert min(mean["own absolute"], mean["own relative"]) > 0.9
    assert min(mean["relative"], mean["translated"]) > 0.8
    assert mean["absolute"] < 0.4


def test_autoencoders_run_from_training_to_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(autoencoders, "autoencoder", partial(autoencoders.autoencoder, latent=10))
    monkeypatch.setattr(autoencoders, "QUICK", autoencoders.Settings(channels=(4, 8), anchors=20))
    options = ["--quick", "--steps", "8", "--test", "50", "--out", str(tmp_path / "out" / "scores.json")]
    monkeypatch.setattr(sys, "argv", ["autoencoders", *options, "--models", str(tmp_path / "models")])
    autoencoders.main()
    shown = capsys.readouterr().out
    assert "trained in" in shown
    assert "digits AE: relative ≥ 10 × below absolute" in shown
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"scores.json", "autoencoders-digits.png"}
    assert len(list((tmp_path / "models").iterdir())) == 8
    autoencoders.main()
    assert "trained in" not in capsys.readouterr().out
