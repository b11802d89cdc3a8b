"""Texts of ten kinds, each through several encoders: what an encoder does to one corpus and to another."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
from experiments.data import packages, texts, words
from experiments.data.groups import Group, cached, encoded

ROWS = 1_200
LONG = 100


def _emoji() -> list[str]:
    known = json.loads(packages.EMOJI_GOOGLE.read("package/emoji.json"))
    return [f"{one['name'] or ''}, {one['short_name']}".lower().replace("_", " ") for one in known][:ROWS]


def _long_posts() -> list[str]:
    posts = (" ".join(text.split()[:LONG]) for _, text in texts._newsgroup_posts("test"))
    return [post for post in posts if len(post.split()) == LONG][:ROWS]


CORPORA: dict[str, Callable[[], list[str]]] = {
    "questions": lambda: texts.trec()[0].texts[:ROWS],
    "tweets": lambda: texts.tweets(ROWS).texts,
    "long posts": _long_posts,
    "words": lambda: words.frequent_words(4 * ROWS)[::4],
    "Spanish": lambda: texts.translated_sentences(ROWS).translations or [],
    "posts": lambda: texts.newsgroups(ROWS).texts,
    "reviews": lambda: texts.reviews(ROWS).texts,
    "Wikipedia": lambda: texts.encyclopedia(ROWS).texts,
    "Tatoeba": lambda: texts.translated_sentences(2 * ROWS).texts[ROWS:],
    "emoji": _emoji,
}


def vectors(encoder: str, corpus: str) -> np.ndarray:
    """Return the vectors of a corpus in an encoder, made on first use."""
    name = f"fingerprints, {encoder}, {corpus}"
    return cached(name, lambda: Group(dict(encoded(CORPORA[corpus](), encoder)))).spaces[encoder]
