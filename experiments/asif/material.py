"""Coupled data for ASIF: the same things seen by two encoders that never met, and prompts for their classes.

Test rows are fixed here once. Everything else about a run (which pairs are coupled, how ASIF is set) may only look at
the pool, and the prompts never see a label of a test row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from experiments.data.encoders import load_encoder
from experiments.data.groups import load_group
from experiments.data.pictures import emoji_categories

TEST, SPLIT_SEED = 406, 99
SENTENCE_POOL = 2_000


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


def emoji(vendor: str) -> Coupled:
    """Emoji: pictures through EfficientNet-Lite0, names through USE.

    Prompts are the nine category names as USE encodes them (no label at all is used), and the mean vector of the pool's
    names in each category (labels of texts, none of pictures).
    """
    group = load_group("emoji")
    x, y, labels = group.spaces[vendor], group.spaces["usem3"], group.labels
    assert labels is not None
    order = np.random.default_rng(SPLIT_SEED).permutation(len(x))
    pool, test = order[TEST:], order[:TEST]
    named = load_encoder("use", threads=1)([category.lower() for category in emoji_categories()])
    prompts = {"category names": np.asarray(named), "class means": class_means(y[pool], labels[pool])}
    return Coupled(f"emoji: {vendor} pictures × USE names", x, y, pool, test, labels, prompts)


def trec() -> Coupled:
    """TREC questions: USE × MiniLM, six kinds of question; test are the last thousand, the official 500 among them."""
    group = load_group("trec")
    x, y, labels = group.spaces["usem3"], group.spaces["minilm6"], group.labels
    assert labels is not None
    rows = np.arange(len(x))
    pool, test = rows[:-1000], rows[-1000:]
    return Coupled("TREC: USE × MiniLM", x, y, pool, test, labels, {"class means": class_means(y[pool], labels[pool])})


def sentences() -> Coupled:
    """Sentences and their translations: Spanish through USE × English through MiniLM, without classes."""
    spaces = load_group("languages").spaces
    rows = np.arange(SENTENCE_POOL + 1_000)
    x, y = (spaces[name][rows] for name in ("use, Spanish", "minilm-layer-3"))
    return Coupled("sentences: Spanish USE × English MiniLM", x, y, rows[:SENTENCE_POOL], rows[SENTENCE_POOL:])


SETS: dict[str, Callable[[], Coupled]] = {
    "emoji-google": lambda: emoji("google"),
    "emoji-twitter": lambda: emoji("twitter"),
    "trec": trec,
    "sentences": sentences,
}


def class_means(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Average the vectors of each class."""
    return np.stack([y[labels == c].mean(axis=0) for c in np.unique(labels)])
