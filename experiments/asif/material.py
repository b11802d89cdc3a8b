"""Coupled data for ASIF: the same things seen by two encoders that never met, and prompts for their classes.

Test rows are fixed here once. Everything else about a run (which pairs are coupled, how ASIF is set) may only look at
the pool, and the prompts never see a label of a test row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from experiments.data.encoders import INSTALL, load_encoder, missing
from experiments.data.files import locate

import relatent as rl

EMOJI, TREC, CAPTIONS = (
    "emoji_1906_image_text_embeddings.npz",
    "trec_5952_embeddings.npz",
    "multi30k_en_de_fr_cs_10k.parquet",
)
TEST, SPLIT_SEED = 406, 99
CAPTION_POOL, CAPTION_TEST = 2_000, 1_000


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
    if not missing("use"):
        prompts = {"category names": encoded([c.lower() for c in categories], "use", cache)} | prompts
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
    x, y = encoded(table["de"].to_pylist(), "use", cache), encoded(table["en"].to_pylist(), "minilm", cache)
    rows = np.arange(len(x))
    return Coupled("captions: German USE × English MiniLM", x, y, rows[:CAPTION_POOL], rows[CAPTION_POOL:])


SETS: dict[str, Callable[[str | None, Path], Coupled]] = {
    "emoji-google": lambda folder, cache: emoji("google", folder, cache),
    "emoji-twitter": lambda folder, cache: emoji("twitter", folder, cache),
    "trec": trec,
    "captions": captions,
}
NEEDS = {"captions": ("use", "minilm")}


def load(name: str, folder: str | None, cache: Path) -> Coupled | str:
    """Load one set, or say what is missing for it."""
    lacking = missing(*NEEDS.get(name, ()))
    if lacking:
        return f"{name} is left out: {', '.join(lacking)} not installed. To have it: {INSTALL}."
    return SETS[name](folder, cache)


def class_means(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Average the vectors of each class."""
    return np.stack([y[labels == c].mean(axis=0) for c in np.unique(labels)])


def encoded(texts: list[str], name: str, cache: Path) -> np.ndarray:
    """Encode texts by one of the encoders that packages carry."""
    return rl.encode.encode(texts, load_encoder(name, threads=1), cache=cache).vectors
