"""Sentences of several domains through the same two encoders, to anchor on."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from experiments.data import hub, texts
from experiments.data.groups import Group, cached, encoded
from experiments.data.source import BySource, on_hub

ROWS = 768
ENCODERS = BySource(packages=("use-lite", "wordllama"), hub=("BERT-c", "RoBERTa"))
OF_PACKAGES: dict[str, Callable[[int], texts.Corpus]] = {
    "tweets": texts.tweets,
    "film reviews": texts.reviews,
    "Wikipedia": texts.encyclopedia,
    "Tatoeba": texts.translated_sentences,
}


def wikipedia(rows: int) -> texts.Corpus:
    """Return English sentences of WikiMatrix, the papers' anchors of another domain."""
    found = hub.wiki_matrix()["en"]
    return texts.Corpus(random.Random(0).sample(found, min(rows, len(found))))


def news(rows: int) -> texts.Corpus:
    """Return news of AG News."""
    return texts.Corpus(hub.DATA["AG News"].read()[0][:rows])


DOMAINS = BySource(packages=OF_PACKAGES, hub={"Wikipedia": wikipedia, "news": news})


def anchor_sentences() -> Group:
    """Return as many sentences of each domain, one domain after the other; the keys say which."""
    return hub.cached_group("anchor sentences", _build) if on_hub() else cached("anchor sentences", _build)


def anchor_inputs() -> np.ndarray:
    """Return the word counts of these sentences, for an encoder with random weights."""
    return texts.word_counts([text for read in DOMAINS.values() for text in read(ROWS).texts])


def _build() -> Group:
    found = {domain: read(ROWS).texts for domain, read in DOMAINS.items()}
    every = [text for one in found.values() for text in one]
    keys = np.repeat(list(found), [len(one) for one in found.values()])
    if on_hub():
        return hub.encoded_group(dict.fromkeys(ENCODERS, every), {name: name for name in ENCODERS}, keys=keys)
    return Group(dict(encoded(every, *ENCODERS)), keys=keys)
