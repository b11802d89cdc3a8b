"""Tiny models with random weights, saved as folders that the real loaders open."""

import os

import numpy as np
import pytest

# No loader may look for a hub while testing; set before transformers is imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

WORDS = [
    "the",
    "a",
    "of",
    "cat",
    "dog",
    "red",
    "car",
    "runs",
    "small",
    "large",
    "fox",
    "over",
    "lazy",
    "brown",
    "jumps",
]
VOCABULARY = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
TEXTS = ["the cat", "a red dog runs over the lazy fox", "unknown", "small car"]


@pytest.fixture(scope="session")
def splitter():
    """A tokenizer of whole words."""
    tokenizers = pytest.importorskip("tokenizers")
    splitter = tokenizers.Tokenizer(tokenizers.models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    splitter.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    splitter.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return splitter


def save_tokenizer(splitter, folder):
    transformers = pytest.importorskip("transformers")
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=splitter, model_max_length=32, **special)
    fast.save_pretrained(folder)


@pytest.fixture(scope="session")
def bert(splitter, tmp_path_factory):
    """A folder with a two-block BERT."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    save_tokenizer(splitter, folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=32, **SIZES)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def vit(tmp_path_factory):
    """A folder with a two-block ViT for 32 px."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    pytest.importorskip("PIL")
    folder = tmp_path_factory.mktemp("models") / "tiny-vit"
    torch.manual_seed(0)
    config = transformers.ViTConfig(image_size=32, patch_size=8, **SIZES)
    transformers.ViTModel(config).save_pretrained(folder)
    transformers.ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def clip_model(splitter, tmp_path_factory):
    """A folder with a tiny CLIP."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    pytest.importorskip("PIL")
    folder = tmp_path_factory.mktemp("models") / "tiny-clip"
    save_tokenizer(splitter, folder)
    ids = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    text = {"vocab_size": len(VOCABULARY), "max_position_embeddings": 32, **ids, **SIZES}
    vision = {"image_size": 32, "patch_size": 8, **SIZES}
    torch.manual_seed(0)
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=12)
    transformers.CLIPModel(config).save_pretrained(folder)
    size = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    transformers.CLIPImageProcessor(**size).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def onnx_model(splitter, tmp_path_factory):
    """A folder with an ONNX model that looks words up, and its tokenizer; outputs per token and per text."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("models") / "tiny-onnx"
    folder.mkdir()
    splitter.save(str(folder / "tokenizer.json"))
    helper, kinds = onnx.helper, onnx.TensorProto
    table = np.random.default_rng(0).normal(size=(len(VOCABULARY), 8)).astype(np.float32)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["tokens"]),
        helper.make_node("ReduceMax", ["tokens"], ["sentence"], axes=[1], keepdims=0),
        helper.make_node("Identity", ["attention_mask"], ["mask"]),
    ]
    inputs = [helper.make_tensor_value_info(n, kinds.INT64, ["n", "t"]) for n in ("input_ids", "attention_mask")]
    outputs = [
        helper.make_tensor_value_info("tokens", kinds.FLOAT, ["n", "t", 8]),
        helper.make_tensor_value_info("sentence", kinds.FLOAT, ["n", 8]),
        helper.make_tensor_value_info("mask", kinds.INT64, ["n", "t"]),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(table, "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))
    np.save(folder / "table.npy", table)
    return folder


@pytest.fixture
def texts():
    return list(TEXTS)


@pytest.fixture
def images():
    """Three random pictures of one size."""
    return list(np.random.default_rng(0).integers(0, 255, size=(3, 20, 40, 3)).astype(np.uint8))
