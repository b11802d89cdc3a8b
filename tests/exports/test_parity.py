"""Every export, by the library that it is for, on two real pairs of spaces per goal.

The networks of the demo are tried by `make test`, sentence encoders by `make test-exports`, which fetches them.
"""

from __future__ import annotations

import json
import warnings
from functools import cache
from importlib import import_module

import numpy as np
import pytest
from tests.exports.translators import near

import relatent as rl
from relatent.demo import digits_upgrade
from relatent.exports import export, steps_of

GOALS = {
    "vectors": {},
    "vectors, affine": {"max_cost": "affine"},
    "retrieval": {"goal": "retrieval"},
    "frozen target": {"goal": "retrieval", "frozen_target": True},
    "stitching": {"goal": "stitching"},
    "index": {"goal": "index"},
}
DIGITS = ["old network → new network", "new network → old network"]
SENTENCES = ["minilm → use", "use → potion"]
ANCHORS, TOLD = 300, 200
PARITY = 1e-5


@cache
def spaces(pair: str) -> tuple[np.ndarray, np.ndarray]:
    """Items through two encoders that were trained apart: images of the demo, or sentences through packaged models."""
    names = pair.split(" → ")
    if pair in DIGITS:
        upgrade = digits_upgrade()
        images, networks = np.concatenate([upgrade.anchors, upgrade.images]), {"old": upgrade.old, "new": upgrade.new}
        encoded = {f"{name} network": network.encode(images) for name, network in networks.items()}
    else:
        from experiments.data import groups, texts

        sentences = texts.trec()[0].texts[: ANCHORS + TOLD]
        build = groups.encoded(sentences, "minilm", "use", "potion")
        encoded = groups.cached("parity", lambda: groups.Group(dict(build))).spaces
    x, y = (np.asarray(encoded[name], dtype=np.float32) for name in names)
    return x, y


@cache
def fitted(goal: str, pair: str) -> rl.Translator:
    x, y = spaces(pair)
    return rl.Translator(**GOALS[goal]).fit(x[:ANCHORS], y[:ANCHORS])


# How each library translates rows.


def by_onnx(t, x, folder, side):
    export(t, folder / "t.onnx", "onnx", side=side)
    session = import_module("onnxruntime").InferenceSession(folder / "t.onnx", providers=["CPUExecutionProvider"])
    return session.run(None, {"vectors": x})[0]


def by_sentence_transformers(t, x, folder, side):
    import torch
    from sentence_transformers import SentenceTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that a nonlinear map needs trust
        export(t, folder / "st", "sentence-transformers", side=side)
    model = SentenceTransformer(str(folder / "st"), device="cpu", local_files_only=True, trust_remote_code=True)
    with torch.no_grad():
        return model({"sentence_embedding": torch.from_numpy(x)})["sentence_embedding"].numpy()


def by_faiss(t, x, folder, side):
    if not {step.kind for step in steps_of(t, side)} <= {"linear", "unit"}:
        pytest.skip("FAISS has no transform for a nonlinear map")
    faiss = import_module("faiss")
    export(t, folder / "t.faiss", "faiss", side=side)
    index = faiss.read_index(str(folder / "t.faiss"))
    index.add(x)
    return faiss.downcast_index(index.index).reconstruct_n(0, len(x))


def by_numpy(t, x, folder, side):
    export(t, folder / "alone", "numpy", side=side)
    return import_module("relatent.exports.translate_with_numpy").load(folder / "alone" / "map.npz")(x)


def by_huggingface(t, x, folder, side):
    export(t, folder / "hub", "huggingface", scores={})
    read = rl.load(folder / "hub" / json.loads((folder / "hub" / "config.json").read_text())["file"])
    return read.transform(x) if side == "source" else read.transform_target(x)


def by_langchain(t, x, folder, side):
    base = import_module("langchain_core.embeddings").Embeddings

    class Model(base):
        def embed_documents(self, texts):
            return [x[int(text)].tolist() for text in texts]

        def embed_query(self, text):
            return self.embed_documents([text])[0]

    wrapped = import_module("relatent.exports.langchain").TranslatedEmbeddings(Model(), t, **roles(t, Model()))
    return wrapped.embed_documents(texts(x)) if side == "target" else [wrapped.embed_query(text) for text in texts(x)]


def by_llama_index(t, x, folder, side):
    base = import_module("llama_index.core.base.embeddings.base").BaseEmbedding

    class Model(base):
        def _get_query_embedding(self, query):
            return x[int(query)].tolist()

        async def _aget_query_embedding(self, query):
            return self._get_query_embedding(query)

        def _get_text_embedding(self, text):
            return self._get_query_embedding(text)

    wrapped = import_module("relatent.exports.llama_index").TranslatedEmbedding(Model(), t, **roles(t, Model()))
    if side == "target":
        return wrapped.get_text_embedding_batch(texts(x))
    return [wrapped.get_query_embedding(text) for text in texts(x)]


def by_haystack(t, x, folder, side):
    translator = import_module("relatent.exports.haystack").QueryTranslator(t, side=side)
    return [translator.run(embedding=row.tolist())["embedding"] for row in x]


def by_mteb(t, x, folder, side):
    class Model:
        def encode(self, inputs, **task):
            return np.stack([x[int(text)] for batch in inputs for text in batch["text"]])

    wrapped = import_module("relatent.exports.mteb").TranslatedEncoder(Model(), t, **roles(t, Model()))
    role = "document" if side == "target" or t.target_map_ is None else "query"
    return wrapped.encode([{"text": texts(x)}], prompt_type=import_module("mteb.types").PromptType(role))


def texts(x):
    """Return one text per row: its number."""
    return [str(i) for i in range(len(x))]


def roles(t, model):
    """Return what a wrapper is told where both sides have a map: queries are translated, documents prepared."""
    return {} if t.target_map_ is None else {"target": model, "translate": ("query",)}


EXPORTS = {
    "onnx": ("onnxruntime", by_onnx),
    "sentence-transformers": ("sentence_transformers", by_sentence_transformers),
    "faiss": ("faiss", by_faiss),
    "numpy": ("numpy", by_numpy),
    "huggingface": ("huggingface_hub", by_huggingface),
    "langchain": ("langchain_core", by_langchain),
    "llama-index": ("llama_index.core", by_llama_index),
    "haystack": ("haystack", by_haystack),
    "mteb": ("mteb", by_mteb),
}


def rounding(transform, x):
    """Return how far transform itself is off in single precision: large coefficients of a kernel map cancel."""
    exact = transform(x.astype(np.float64))
    return np.max(np.linalg.norm(transform(x) - exact, axis=1) / np.linalg.norm(exact, axis=1))


# Warnings are those of the packages that hold the encoders, when they are used for the first time.
FETCHED = [pytest.param(pair, marks=[pytest.mark.slow, pytest.mark.filterwarnings("ignore")]) for pair in SENTENCES]
# Its modules are tried on other maps in test_sentence_transformers.py, and take long to import.
NAMES = [pytest.param(n, marks=pytest.mark.slow) if n == "sentence-transformers" else n for n in EXPORTS]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pair", [*DIGITS, *FETCHED])
@pytest.mark.parametrize("goal", GOALS)
def test_an_export_gives_what_transform_gives(goal, pair, name, tmp_path):
    package, translated = EXPORTS[name]
    pytest.importorskip(package, reason="make test-exports")
    t = fitted(goal, pair)
    x, y = (rows[ANCHORS : ANCHORS + TOLD] for rows in spaces(pair))
    sides = {"source": (t.transform, x)} | ({} if t.target_map_ is None else {"target": (t.transform_target, y)})
    for side, (transform, rows) in sides.items():
        (tmp_path / side).mkdir()
        near(translated(t, rows, tmp_path / side, side), transform(rows), max(PARITY, 2 * rounding(transform, rows)))


@pytest.mark.parametrize("pair", FETCHED)
@pytest.mark.parametrize("goal", GOALS)
def test_on_sentence_encoders_single_precision_has_the_digits(goal, pair):
    t = fitted(goal, pair)
    assert 2 * rounding(t.transform, spaces(pair)[0][ANCHORS : ANCHORS + TOLD]) <= PARITY
