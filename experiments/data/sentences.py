"""Sentences of several domains through the same two encoders, to anchor on."""

from __future__ import annotations

import numpy as np
from experiments.data import texts
from experiments.data.groups import Group, cached, encoded

ROWS, ENCODERS = 768, ("use-lite", "wordllama")
DOMAINS = {
    "tweets": texts.tweets,
    "film reviews": texts.reviews,
    "Wikipedia": texts.encyclopedia,
    "Tatoeba": texts.translated_sentences,
}


def anchor_sentences() -> Group:
    """Return as many sentences of each domain, one domain after the other; the keys say which."""
    return cached("anchor sentences", _build)


def _build() -> Group:
    found = [text for read in DOMAINS.values() for text in read(ROWS).texts]
    return Group(dict(encoded(found, *ENCODERS)), keys=np.repeat(list(DOMAINS), ROWS))
