"""Texts of many kinds, each through several encoders: what an encoder does to one corpus and to another."""

from __future__ import annotations

import csv
import inspect
import io
import json
import random
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import numpy as np
from experiments.data import packages, texts, words
from experiments.data.groups import Group, cached, encoded

ROWS = 1_200
# Rows of the corpora that are only held against others.
GIVEN_ROWS = 300
LONG = 100


def _emoji() -> list[str]:
    known = json.loads(packages.EMOJI_GOOGLE.read("package/emoji.json"))
    return [f"{one['name'] or ''}, {one['short_name']}".lower().replace("_", " ") for one in known][:ROWS]


def _long_posts() -> list[str]:
    posts = (" ".join(text.split()[:LONG]) for _, text in texts._newsgroup_posts("test"))
    return [post for post in posts if len(post.split()) == LONG][:ROWS]


def _tab(name: str, column: int) -> list[str]:
    """Return pieces of 30 words of a column of a table."""
    csv.field_size_limit(10**9)
    table = packages.NEWSGROUPS.read(f"orangecontrib/text/datasets/{name}.tab").decode("utf8")
    found = (
        row[column].split() for row in list(csv.reader(io.StringIO(table), delimiter="\t"))[3:] if len(row) > column
    )
    return _drawn(" ".join(words[i : i + 30]) for words in found for i in range(0, max(len(words) - 5, 1), 30))


def _code() -> list[str]:
    import numpy.ma.core
    import scipy.stats._stats_py

    return _drawn(
        line.strip()
        for module in (numpy.ma.core, scipy.stats._stats_py)
        for line in inspect.getsource(module).splitlines()
        if len(line.split()) >= 3
    )


def _drawn(found: Iterable[str], rows: int = ROWS) -> list[str]:
    every = sorted(set(filter(None, found)))
    return random.Random(0).sample(every, min(rows, len(every)))


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
    "code": _code,
    "books": lambda: _tab("book-excerpts", 1)[:GIVEN_ROWS],
    "dialogues": lambda: _tab("friends-transcripts", 5)[:GIVEN_ROWS],
    "campaign": lambda: _tab("election-tweets-2016", 9)[:GIVEN_ROWS],
}


def add_texts(folder: Path) -> None:
    """Add the .txt files of a folder, one text per line."""
    for path in sorted(folder.glob("*.txt")):
        CORPORA[path.stem] = lambda path=path: _drawn(path.read_text("utf8").splitlines(), GIVEN_ROWS)  # type: ignore[misc]


@cache
def vectors(encoder: str, corpus: str) -> np.ndarray:
    """Return the vectors of a corpus in an encoder, made on first use."""
    name = f"fingerprints, {encoder}, {corpus}"
    return cached(name, lambda: Group(dict(encoded(CORPORA[corpus](), encoder)))).spaces[encoder]
