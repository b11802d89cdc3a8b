"""Amazon reviews in four languages and the sentences of Wikipedia that they are anchored on, from a hub (RR 5.2)."""

from __future__ import annotations

import random

import numpy as np
from experiments.data import hub
from experiments.data.groups import Group

LANGUAGES = ("en", "es", "fr", "ja")
OWN = {"en": "RoBERTa", "es": "RoBERTa, es", "fr": "RoBERTa, fr", "ja": "RoBERTa, ja"}
MULTILINGUAL, MIDDLE, SENTENCES = "XLM-R", 2, 6_000
# Reviews put through a translator are in the folder of --hub only: a table with a column per language.
TRANSLATED = "amazon_reviews_translated"


def parallel_sentences() -> Group:
    """Return sentences of WikiMatrix through each language's own model and through a multilingual one."""
    return hub.cached_group("WikiMatrix", lambda: _encoded(_sampled(hub.wiki_matrix()), ["WikiMatrix"]))


def translated_reviews() -> Group:
    """Return English reviews and their translations through the same models."""
    rows = hub.load_dataset(TRANSLATED, None, "train")
    return hub.cached_group(TRANSLATED, lambda: _encoded({one: list(rows[one]) for one in LANGUAGES}, [TRANSLATED]))


def reviews() -> Group:
    """Return the reviews of all languages through the same models, a row having as many stars in each language."""

    def build() -> Group:
        parts = [{one: _by_stars(one, part) for one in LANGUAGES} for part in (0, 1)]
        texts: dict[str, list[str]] = {one: [] for one in LANGUAGES}
        stars: list[int] = []
        ends = []
        for part in parts:
            for number in sorted(set.intersection(*(set(found) for found in part.values()))):
                count = min(len(found[number]) for found in part.values())
                stars += [number] * count
                for one in LANGUAGES:
                    texts[one] += part[one][number][:count]
            ends.append(len(stars))
        labels = np.unique(stars, return_inverse=True)[1]
        return _encoded(texts, ["amazon_reviews_multi"], labels=labels, train=ends[0])

    return hub.cached_group("Amazon reviews", build)


def review_spaces() -> dict[str, dict[str, np.ndarray]]:
    """Return, by what the anchors are, the reviews with the anchors below them; translated ones where there are any."""
    above = reviews().spaces
    below = {"Wikipedia": parallel_sentences().spaces}
    if hub.local("datasets", TRANSLATED) != TRANSLATED:
        below = {"translated": translated_reviews().spaces, **below}
    return {
        domain: {name: np.concatenate([x, spaces[name]]) for name, x in above.items()}
        for domain, spaces in below.items()
    }


def review_tasks() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return labels, rows to train on and rows to test, of two classes (without three stars) and of five."""
    group = reviews()
    stars, known = np.asarray(group.labels), np.arange(len(np.asarray(group.labels))) < (group.train or 0)
    clear = stars != MIDDLE
    rows = {"coarse": ((stars > MIDDLE).astype(int), clear), "fine": (stars, np.ones_like(clear))}
    return {
        name: (labels, np.flatnonzero(known & kept), np.flatnonzero(~known & kept))
        for name, (labels, kept) in rows.items()
    }


def _by_stars(language: str, part: int) -> dict[int, list[str]]:
    data = hub.DATA[f"Amazon reviews, {language}"]
    found: dict[int, list[str]] = {}
    for row in data.part(part):
        found.setdefault(row[data.label], []).append(data.read_item(row))
    return found


def _sampled(sentences: dict[str, list[str]]) -> dict[str, list[str]]:
    n = len(sentences["en"])
    rows = random.Random(0).sample(range(n), min(n, SENTENCES))
    return {language: [of[row] for row in rows] for language, of in sentences.items()}


def _encoded(texts: dict[str, list[str]], data: list[str], **beside: object) -> Group:
    twice = texts | {f"{one}, multilingual": of for one, of in texts.items()}
    models = OWN | {f"{one}, multilingual": MULTILINGUAL for one in LANGUAGES}
    return hub.encoded_group(twice, models, data=[hub.origin_of(name) for name in data], **beside)
