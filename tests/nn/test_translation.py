from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

import relatent as rl
from relatent.translate import MAPS

NORMALIZATIONS = ("none", "center", "standard", "whiten", "l2", "center+l2")
TRANSLATORS = {
    "vectors": rl.Translator(),
    "retrieval": rl.Translator("retrieval"),
    "frozen target": rl.Translator("retrieval", frozen_target=True),
    "stitching": rl.Translator("stitching"),
    "index": rl.Translator("index"),
    **{
        name: rl.Translator(map=name, rank=2 if name == "low_rank" else None)
        for name, rule in MAPS.items()
        if not rule.keeps_coordinates
    },
    **{f"affine, {name}": rl.Translator(map="affine", normalize=name) for name in NORMALIZATIONS},
    "dual": rl.RelativeTranslator(),
    "cosine": rl.RelativeTranslator("cosine"),
    "parseval": rl.RelativeTranslator("parseval"),
    "cosine, not rescaled": rl.RelativeTranslator("cosine", rescale=False),
}


def _fitted(name: str, dtype: type = np.float32, far: float = 0.0):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 6)) + far
    y = np.tanh((x - far) @ rng.normal(size=(6, 5))) + 0.1
    x, y = x.astype(dtype), y.astype(dtype)
    return copy.deepcopy(TRANSLATORS[name]).fit(x, y), x, y


@pytest.mark.parametrize("far", [0.0, 50.0])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_the_layer_translates_as_the_translator_and_gives_it_back(name, far):
    translator, x, y = _fitted(name, far=far)
    layer = rl.nn.Translation(translator)
    expected = translator.transform(x)
    assert np.allclose(layer(torch.from_numpy(x)), expected, atol=1e-4 * np.abs(expected).max())
    assert np.allclose(layer.to_translator().transform(x), expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    if hasattr(translator, "transform_target"):
        indexed = translator.transform_target(y)
        assert np.allclose(layer.transform_target(torch.from_numpy(y)), indexed, atol=1e-4 * np.abs(indexed).max())


@pytest.mark.parametrize("codes", ["dual", "cosine"])
def test_the_halves_are_layers_too(codes):
    _, x, y = _fitted("dual")
    encoder, decoder = rl.RelativeEncoder(codes).fit(x), rl.RelativeDecoder(codes).fit(y)
    both = nn.Sequential(rl.nn.Translation(encoder), rl.nn.Translation(decoder))
    expected = decoder.transform(encoder.transform(x))
    assert np.allclose(both(torch.from_numpy(x)), expected, atol=1e-4)
    assert np.array_equal(both[1].to_translator().transform(encoder.transform(x)), expected)


@pytest.mark.parametrize("name", ["vectors", "retrieval", "affine, center+l2", "cosine"])
def test_gradcheck(name):
    translator, x, _ = _fitted(name, np.float64)
    layer = rl.nn.Translation(translator, trainable=True)
    names, parameters = zip(*layer.source.named_parameters(), strict=True)
    rows = torch.from_numpy(x[:3]).requires_grad_()

    def mapped(rows, *given):
        return torch.func.functional_call(layer.source, dict(zip(names, given, strict=True)), (rows,))

    assert torch.autograd.gradcheck(mapped, (rows, *parameters), fast_mode=True)


def test_it_is_frozen_unless_asked():
    translator, x, _ = _fitted("vectors")
    assert not list(rl.nn.Translation(translator).parameters())
    trainable = rl.nn.Translation(translator, trainable=True)
    assert {name for name, _ in trainable.named_parameters()} == {"source.matrix", "source.offset"}
    trainable(torch.from_numpy(x)).sum().backward()
    assert all(p.grad is not None for p in trainable.parameters())


def test_a_tuned_layer_comes_back_as_a_better_translator(tmp_path):
    _, x, y = _fitted("orthogonal")
    space, target, stranger = (
        rl.Space(v, np.arange(len(v)), name, rl.Fingerprint(dim=v.shape[1], model=name))
        for v, name in ((x, "a"), (y, "b"), (x, "c"))
    )
    translator = rl.Translator(map="orthogonal").fit(space, target)
    layer = rl.nn.Translation(translator, trainable=True)
    before = translator.transform(x)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=20)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = nn.functional.mse_loss(layer(torch.from_numpy(x)), torch.from_numpy(y))
        value.backward()
        return value

    optimizer.step(loss)
    tuned = layer.to_translator()
    assert np.allclose(tuned.transform(x), layer(torch.from_numpy(x)).detach(), atol=1e-5)
    assert np.mean((tuned.transform(x) - y) ** 2) < 0.9 * np.mean((before - y) ** 2)
    assert np.array_equal(translator.transform(x), before)  # the one it was made from is left alone
    tuned.save(tmp_path / "tuned.safetensors")
    loaded = rl.load(tmp_path / "tuned.safetensors")
    assert np.array_equal(loaded.transform(space).vectors, tuned.transform(x))
    with pytest.raises(ValueError, match="is not the source 'a'"):
        loaded.transform(stranger)


@pytest.mark.parametrize("name", ["vectors", "retrieval", "cosine"])
def test_copies_and_checkpoints(name):
    translator, x, y = _fitted(name)
    layer = rl.nn.Translation(translator, trainable=True)
    with torch.no_grad():
        layer.source.matrix.mul_(1.5)
    other = rl.nn.Translation(copy.deepcopy(TRANSLATORS[name]).fit(2 * x, y))
    rows = torch.from_numpy(x)
    assert not torch.allclose(other(rows), layer(rows))
    other.load_state_dict(layer.state_dict())
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), other):
        assert torch.allclose(twin(rows), layer(rows), atol=1e-6)


def test_it_keeps_no_pairs():
    translator, _, _ = _fitted("vectors")
    assert {"parts_", "pairs_"} <= set(vars(translator))
    layer = rl.nn.Translation(translator)
    assert {"parts_", "pairs_"}.isdisjoint(vars(layer.to_translator()))
    held = sum(tensor.nbytes for tensor in layer.state_dict().values())
    fingerprints = len(pickle.dumps(translator.endpoints_))
    assert len(pickle.dumps(layer)) < held + fingerprints + 5_000  # each number once


def test_precisions():
    translator, x, _ = _fitted("affine, center+l2")
    layer, rows = rl.nn.Translation(translator), torch.from_numpy(x)
    expected = layer(rows)
    assert layer(rows.double()).dtype == torch.float64
    assert layer(rows.bfloat16()).dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer(rows), expected)
    moved = copy.deepcopy(layer).double()
    assert moved.source.matrix.dtype == torch.float64
    assert torch.allclose(moved(rows.double()).float(), expected, atol=1e-5)
    assert copy.deepcopy(layer).to("meta")(rows.to("meta")).shape == expected.shape


def test_what_does_not_fit_is_named():
    translator, x, y = _fitted("affine")
    layer = rl.nn.Translation(translator)
    with pytest.raises(ValueError, match=r"x has shape \(120, 5\): expected 6 columns"):
        layer(torch.from_numpy(y))
    with pytest.raises(ValueError, match="x is on meta and matrix is on cpu"):
        layer(torch.from_numpy(x).to("meta"))
    with pytest.raises(ValueError, match="expected floating 2-D"):
        layer(torch.from_numpy(x)[0])
    for given in (rl.Translator(), nn.Linear(2, 2)):
        with pytest.raises(TypeError, match="expected a fitted Translator"):
            rl.nn.Translation(given)


def test_two_thin_factors_are_one_layer_and_come_back(rng):
    x, y = rng.normal(size=(5, 40)), rng.normal(size=(5, 30))
    translator = rl.RelativeTranslator().fit(x, y)
    assert translator.map_.basis is not None
    layer = rl.nn.Translation(translator, trainable=True)
    np.testing.assert_allclose(layer(torch.from_numpy(x)).detach().numpy(), translator.transform(x), atol=1e-12)
    assert {tuple(p.shape) for p in layer.parameters()} == {(40, 5), (5, 30)}
    assert "40 → 30" in repr(layer)
    np.testing.assert_array_equal(layer.to_translator().transform(x), translator.transform(x))
