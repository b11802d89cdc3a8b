"""Sentences across languages: the language table of Maiorca et al. (2024).

Spanish sentences, and descriptions of emoji in Spanish, French, Japanese and Italian, through one encoder are decoded
into the space in which another encoder holds their English translations, by inverse relative projection (δ chosen on
validation rows) and by relatent's dual codes. Beside them: vectors as they are (absolute), where the two spaces are of
one width; a multilingual encoder that reads both languages, as XLM-R does in the paper; the mean of the anchors, which
knows nothing of the text; and the inverse with anchors that are paired at random. A cosine is high wherever vectors
share a large mean, so the rank of the very translation among all test texts (MRR) is given as well.

    python -m experiments irp-languages
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data import packages, reviews, texts
from experiments.data.encoders import load_encoder
from experiments.data.groups import Group, cached, encoded, load_group
from experiments.data.source import BySource, on_hub
from experiments.data.tasks import split
from experiments.data.translations import described_emoji
from experiments.figures import COLORS, panels
from experiments.inverse_relative_projection.decoding import ANCHORS, choose_delta
from experiments.published import MISSING, published
from experiments.relative_representations.stitched import ShuffledPairs
from experiments.results import Cell, Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The spaces of sentences to be decoded by language, and those of their English translations to decode into.
FOREIGN = BySource(packages={"es": "use, Spanish"}, hub={"es": "es", "fr": "fr", "ja": "ja"})
ENGLISH = BySource(packages=("minilm-layer-3", "wordllama", "use-lite"), hub=("en",))
DELTAS, OMEGA, NEAR = (0.7, 0.8, 0.85, 0.9), 16, 10
ABSOLUTE, MEAN, SHUFFLED = "absolute", "mean of the anchors", "shuffled pairs"
INVERSE, OURS = "inverse relative projection", "dual codes (ours)"
DESCRIBED = ("es", "fr", "ja", "it")
MULTILINGUAL, SAME = "multilingual encoder", "the same vectors"
WAYS = (ABSOLUTE, MEAN, SHUFFLED, INVERSE, OURS)
SHOWN = (*WAYS, MULTILINGUAL)
PUBLISHED = ("absolute", "multilingual", "irp")
# How near to 0 absolute vectors are, and how near to the multilingual encoder decoded ones.
NEAR_ZERO, CLOSE = 0.1, 0.05
# By source and target: seeds × WAYS × (cosine, MRR).
Scores = dict[tuple[str, str], np.ndarray]
Translate = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def run(setting: Setting) -> Result:
    """Decode Spanish and English into English, over seeds."""
    group, seeds, max_rows = sentences(), *setting.pick(quick=(5, 600), full=(5, None))
    pairs = [(source, target) for target in ENGLISH for source in (target, *FOREIGN.values())]
    fit, choice, _ = split(len(group.spaces[ENGLISH[0]]), None, 0, max_rows)
    across = [(group.spaces[source], group.spaces[target]) for source, target in pairs if source != target]
    delta = choose_delta(across, fit[:ANCHORS], choice, DELTAS, OMEGA)
    scores = {
        pair: np.asarray([scored(group, pair, ways(delta, seed), seed, max_rows) for seed in range(seeds)])
        for pair in pairs
    }
    read = {language: multilingual(group, language, max_rows) for language in FOREIGN}
    described, read_described, about = ({}, {}, "") if on_hub() else descriptions(seeds, max_rows)
    return Result(
        [
            table(title, found, beside)
            for title, found, beside in (("Sentences", scores, read), ("Descriptions", described, read_described))
            if found
        ],
        [*findings("sentences", scores, read), *findings("descriptions", described, read_described)],
        seeds=seeds,
        data=[
            f"Tatoeba sentences in Spanish and English, {ANCHORS} anchors, ω = {OMEGA}, δ = {delta} by validation "
            f"rows{about}"
        ],
        stand_ins={
            "WikiMatrix: English, Spanish, French, Japanese": "Tatoeba: English and Spanish; descriptions of emoji, "
            "written by speakers of each language, in English, Spanish, French, Japanese and Italian",
            "one RoBERTa per language": "USE, multilingual, for the others; MiniLM's third layer, wordllama "
            "and USE lite for English",
            "XLM-R": "USE, multilingual",
        },
        series={
            label(pair): {way: m for way, m in zip(WAYS, found[:, :, 1].mean(0), strict=True) if way in (INVERSE, OURS)}
            for pair, found in (scores | described).items()
        },
    )


def sentences() -> Group:
    """Return sentences in several languages, row by row translations of each other."""
    if on_hub():
        return reviews.parallel_sentences()
    lite = cached("English sentences", lambda: Group(dict(encoded(texts.translated_sentences().texts, "use-lite"))))
    return Group(load_group("languages").spaces | lite.spaces)


def ways(delta: float, seed: int) -> dict[str, Translate]:
    """Return what decodes: (source anchors, target anchors, samples) → vectors of the target."""
    inverse = rl.RelativeTranslator("cosine", delta=delta, omega=OMEGA, seed=seed)
    return {
        ABSOLUTE: lambda _, b, x: x if x.shape[1] == b.shape[1] else np.full((len(x), b.shape[1]), np.nan),
        MEAN: lambda _, b, x: np.broadcast_to(b.mean(axis=0), (len(x), b.shape[1])),
        SHUFFLED: lambda a, b, x: ShuffledPairs(inverse, seed).fit(a, b).transform(x),
        INVERSE: lambda a, b, x: inverse.fit(a, b).transform(x),
        OURS: lambda a, b, x: rl.RelativeTranslator().fit(a, b).transform(x),
    }


def scored(
    group: Group, pair: tuple[str, str], ways: dict[str, Translate], seed: int, max_rows: int | None
) -> list[list[float]]:
    """Return cosine and MRR of every way, on test rows."""
    fit, _, test = split(len(group.spaces[pair[0]]), None, seed, max_rows)
    (x, y), anchors = (group.spaces[name] for name in pair), fit[:ANCHORS]
    return [measured(decode(x[anchors], y[anchors], x[test]), y[test]) for decode in ways.values()]


def measured(found: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the cosine to the true vectors, and the MRR among them; not a number where there is no vector."""
    if np.isnan(found).any():
        return [np.nan, np.nan]
    return [float(rl.evaluate.mean_cosine(found, y)), rl.evaluate.mrr(found, y, k=NEAR)]


def multilingual(group: Group, language: str, max_rows: int | None) -> list[float]:
    """Return cosine and MRR of an encoder that reads both languages, on the test rows of the first seed."""
    test = split(len(group.spaces[ENGLISH[0]]), None, 0, max_rows)[2]
    if on_hub():
        return measured(*(group.spaces[f"{one}, multilingual"][test] for one in (language, "en")))
    packages.UNIVERSAL.importable()
    english = texts.translated_sentences().texts
    found = np.asarray(load_encoder("use", threads=1)([english[row] for row in test]))
    return measured(group.spaces[FOREIGN[language]][test], found)


def label(pair: tuple[str, str]) -> str:
    """Return a pair as the paper writes it, with the target's encoder."""
    return f"{language_of(pair[0])} → en, {pair[1]}"


def language_of(space: str) -> str:
    """Return the language of a space's sentences."""
    found = next((language for language, name in FOREIGN.items() if name == space), "en")
    return space if space in DESCRIBED else found


def table(title: str, scores: Scores, read: dict[str, list[float]]) -> Table:
    """Lay out cosines and MRRs beside the published cosines."""
    rows = []
    for pair, found in scores.items():
        key = f"{language_of(pair[0])} → en"
        theirs = [str(published("irp-languages", key, one)) for one in PUBLISHED]
        multi: list[Cell] = list(read.get(language_of(pair[0]), [SAME, SAME]))
        cells = [[*(cell(values) for values in found[:, :, j].T), multi[j]] for j in (0, 1)]
        rows.append([label(pair), *cells[0], cells[1][0], *cells[1][2:], " / ".join(theirs)])
    head = (*(f"cosine: {way}" for way in SHOWN), *(f"MRR: {way}" for way in SHOWN if way != MEAN))
    columns = ("languages", *head, "published cosine: absolute / XLM-R / IRP")
    return Table(f"{title} decoded into English", columns, rows)


def cell(values: np.ndarray) -> Cell:
    """Return the mean over seeds, where there are vectors."""
    return spread(values) if np.isfinite(values).all() else MISSING


def descriptions(seeds: int, max_rows: int | None) -> tuple[Scores, dict[str, list[float]], str]:
    """Decode descriptions of emoji; return the scores, those of the multilingual encoder, and the data in words."""
    emoji = described_emoji()
    others = [(emoji.spaces[language], emoji.spaces["en"]) for language in DESCRIBED]
    fit, choice, test = split(len(emoji.spaces["en"]), None, 0, max_rows)
    delta = choose_delta(others, fit[:ANCHORS], choice, DELTAS, OMEGA)
    described = {
        (language, "descriptions"): np.asarray(
            [scored(emoji, (language, "en"), ways(delta, seed), seed, max_rows) for seed in range(seeds)]
        )
        for language in ("en", *DESCRIBED)
    }
    read = {one: measured(emoji.spaces[one][test], emoji.spaces["en, multilingual"][test]) for one in DESCRIBED}
    return described, read, f"; descriptions of {len(emoji.spaces['en']):,} emoji in five languages, δ = {delta}"


def findings(what: str, scores: Scores, read: dict[str, list[float]]) -> list[Finding]:
    """Judge decoding across languages: as published, against what knows no translation, and dual codes."""
    across = {pair: dict(zip(WAYS, f.mean(axis=0), strict=True)) for pair, f in scores.items() if is_foreign(pair)}
    if not across:
        return []
    multi = {pair: read[language_of(pair[0])] for pair in across}
    absolute = {pair: m[ABSOLUTE][0] for pair, m in across.items() if np.isfinite(m[ABSOLUTE][0])}
    theirs = [published("irp-languages", f"{language} → en") for language in ("es", "fr", "ja")]
    floor = {pair: max(m[MEAN][0], m[SHUFFLED][0]) for pair, m in across.items()}
    return [
        Finding(
            f"absolute vectors of two languages have a cosine near 0 ({what})",
            all(abs(cosine) < NEAR_ZERO for cosine in absolute.values()),
            ", ".join(f"{label(pair)} {cosine:.2f}" for pair, cosine in absolute.items())
            + f" (paper {', '.join(str(one['absolute']) for one in theirs)}).",
        ),
        Finding(
            f"decoded {what} come close to a multilingual encoder",
            all(m[INVERSE][0] > multi[pair][0] - CLOSE for pair, m in across.items()),
            compared(INVERSE, across, multi)
            + f"; paper, cosine: {', '.join('{irp} ({multilingual})'.format(**one) for one in theirs)}.",
        ),
        Finding(
            f"dual codes bring {what} close to a multilingual encoder, in cosine and MRR (ours)",
            all(bool(np.all(m[OURS] > np.asarray(multi[pair]) - CLOSE)) for pair, m in across.items()),
            compared(OURS, across, multi) + ".",
        ),
        Finding(
            f"decoded {what} have a higher cosine than the {MEAN} and {SHUFFLED}, by {NEAR_ZERO:g} (our question)",
            all(m[INVERSE][0] >= floor[pair] + NEAR_ZERO for pair, m in across.items()),
            "; ".join(
                f"{label(pair)} {m[INVERSE][0]:.2f}, {MEAN} {m[MEAN][0]:.2f}, {SHUFFLED} {m[SHUFFLED][0]:.2f}"
                for pair, m in across.items()
            )
            + ".",
        ),
    ]


def is_foreign(pair: tuple[str, str]) -> bool:
    """Return whether a pair crosses languages."""
    return language_of(pair[0]) != "en"


def compared(way: str, across: dict[Any, dict[str, np.ndarray]], multi: dict[Any, list[float]]) -> str:
    """Return cosine and MRR of a way with those of the multilingual encoder, in words."""
    return "; ".join(
        f"{label(pair)}: cosine {m[way][0]:.2f} (multilingual {multi[pair][0]:.2f}), "
        f"MRR {m[way][1]:.2f} ({multi[pair][1]:.2f})"
        for pair, m in across.items()
    )


def draw(result: Result) -> Figure:
    """Draw the MRR of every way, one group of bars per pair."""
    figure, axes = panels(size=(5.6, 4.2))
    for i, (way, color) in enumerate(zip((INVERSE, OURS), (COLORS[1], COLORS[0]), strict=True)):
        values = [found[way] for found in result.series.values()]
        axes[0, 0].barh(np.arange(len(values)) + 0.36 * i, values, height=0.34, color=color, label=way)
    axes[0, 0].set_yticks(np.arange(len(result.series)) + 0.18, result.series)
    axes[0, 0].invert_yaxis()
    axes[0, 0].set_xlim(0, 1)
    axes[0, 0].set_xlabel("MRR of the very text among the test texts")
    axes[0, 0].set_title("Texts decoded into English")
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure
