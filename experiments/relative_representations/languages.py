"""A head across languages: tables 4 and 15 to 17 of Moschella et al., ICLR 2023.

Descriptions of emoji in English, Spanish, French, Japanese and, as on the authors' slides, Italian. Their classes
are the eight groups of emoji, which are many and clear, and, as stars are, how good or bad the tweets are in which an
emoji stands: in two classes and in five that have an order, scored by the mean absolute error, too. English is read by
an encoder that knows no other language, the others by a multilingual one that was trained apart, of the same width.
Anchors are parallel texts: descriptions of other emoji (in domain, as the paper's translated reviews), or, out of
domain as the paper's Wikipedia, names of languages, countries and currencies, or sentences (English and Spanish only).
A head never sees its test language. One more table pairs some of the anchors wrongly.

    python -m experiments rr-table4
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np
from experiments.data import hub
from experiments.data.source import BySource, on_hub
from experiments.figures import COLORS, panels
from experiments.published import published
from experiments.relative_representations.language_tasks import (
    ABROAD,
    INSIDE,
    LANGUAGES,
    MAIN,
    MEASURES,
    ORDERED,
    PAPER,
    WRONG,
    WRONG_LANGUAGES,
    WRONG_SEEDS,
    Ordered,
    Read,
    Reads,
    Runs,
    Task,
    labelled,
    labelled_spaces,
    read_abroad,
    stitch_languages,
    stitch_ordered,
    wrongly_paired,
)
from experiments.relative_representations.stitched import (
    ABSOLUTE,
    CENTERED,
    CONTROLS,
    METHODS,
    OWN,
    TRANSLATED,
    control_findings,
    guessing,
    mean_error,
    means,
    number,
    pair_rows,
    paper_abroad,
)
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.metrics import f1_score

from relatent.stitching import StitchingMatrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What the paper calls the anchors that ours stand for.
DOMAINS = BySource(
    packages={"emoji": "translated", "names": "Wikipedia", "sentences": "Wikipedia"},
    hub={"translated": "translated", "Wikipedia": "Wikipedia"},
)
TASKS = {"groups": "eight groups of emoji", "coarse": "good or bad", "fine": "from bad to good in five"}
SPOKEN = {"en": "English", "es": "Spanish", "fr": "French", "ja": "Japanese", "it": "Italian"}
TITLES = {
    "translated": "translated reviews (in domain)",
    "Wikipedia": "Wikipedia (out of domain)",
    "emoji": "other emoji (in domain)",
    "names": "names (out of domain)",
    "sentences": "sentences (out of domain)",
}
STAND_INS = {
    "Amazon reviews, two or five classes": "descriptions of emoji, written by speakers of each language for Unicode, "
    "in the groups of emoji, and by the tweets that they stand in: good or bad, and from bad to good in five steps",
    "a RoBERTa for each language": "Universal Sentence Encoder lite for English, the multilingual one for Spanish, "
    "French, Japanese and Italian",
    "English reviews put through a translator": "the descriptions of other emoji in each language",
    "Wikipedia (WikiMatrix)": "names of languages, countries and currencies (CLDR); sentences of Tatoeba, in English "
    "and Spanish",
}


def run(setting: Setting) -> Result:
    """Stitch every language to the head of every other, over anchors of both kinds and seeds."""
    spaces, tasks = labelled_spaces(), labelled()
    seeds = range(setting.pick(quick=5, full=5))
    runs, read = stitch_languages(spaces, tasks[str(MAIN)], seeds)
    ordered = stitch_ordered(spaces[str(INSIDE)], tasks, seeds)
    noisy = wrongly_paired(spaces[str(INSIDE)], tasks[str(MAIN)], seeds[:WRONG_SEEDS])
    chance = {name: guessing(*task) for name, task in tasks.items()}
    return Result(
        [
            english_head(read),
            ordered_head(ordered),
            noisy_table(noisy),
            *(every_pair(found, what) for what, found in runs.items()),
            *(ordered_pairs(ordered, task) for task in ORDERED),
            *([shared_sentences()] if on_hub() else []),
        ],
        [*findings(runs, read, chance[str(MAIN)]), *ordered_findings(ordered, tasks), noisy_finding(noisy)],
        seeds=len(seeds),
        data=[
            f"{TASKS[name]}: {len(task.train):,} texts to train on, {len(task.test)} to test, "
            f"{len(np.unique(task.labels[task.train]))} classes, guessing scores {chance[name]:.2f}"
            for name, task in tasks.items()
        ],
        stand_ins=STAND_INS,
        notes=[] if on_hub() else [within_one_encoder(runs)],
        series={
            domain: {
                method: {language: float(np.mean(scores)) for language, scores in of.items()}
                for method, of in methods.items()
            }
            for domain, methods in read.items()
        },
    )


def abroad(read: Read, method: str, languages: Iterable[str] = ()) -> float:
    """Return the mean of a method over the languages that the English head never saw, or over some of them.

    A random encoder reads English texts alone.
    """
    cells = read[method]
    chosen = languages or [one for one in cells if one != "en"] or ["en"]
    return float(np.mean([cells[one] for one in chosen]))


def english_head(read: Reads) -> Table:
    """Lay table 4 out: the head that was trained on English, read in each language."""
    rows = []
    for domain in read:
        called = DOMAINS[domain]
        for method, scores in read[domain].items():
            name = f"relative, {called} anchors" if method == "relative" else method
            known = method == "relative" or (method == ABSOLUTE and domain == str(INSIDE))
            shown = [published("rr-table4", name, language) for language in PAPER] if known else []
            rows.append([domain, method, *cells_of(scores), " / ".join(map(str, shown))])
    columns = ("anchors", "head reads", *LANGUAGES, "published, percent (en / es / fr / ja)")
    return Table(f"A head trained on English: {TASKS[str(MAIN)]}, weighted F1 in each language", columns, rows)


def ordered_head(found: Ordered) -> Table:
    """Lay the same out for classes that have an order, by both measures."""
    rows = [
        [TASKS[task], measure, method, *cells_of(scores)]
        for (task, measure), runs in found.items()
        for method, scores in read_abroad(runs).items()
    ]
    title = "A head trained on English: classes that have an order, in each language"
    return Table(title, ("classes", "measure", "head reads", *LANGUAGES), rows)


def cells_of(scores: Mapping[str, list[float]]) -> list[dict[str, float] | None]:
    """Return a cell per language, empty where it was not read."""
    return [spread(scores[language]) if language in scores else None for language in LANGUAGES]


def noisy_table(found: Mapping[float, Read]) -> Table:
    """Lay shares of wrong anchors out."""
    methods = [method for method in METHODS if method != ABSOLUTE]
    rows = [
        [f"{wrong:.0%}", *(spread(np.ravel([v for k, v in read[m].items() if k != "en"])) for m in methods)]
        for wrong, read in found.items()
    ]
    languages = ", ".join(LANGUAGES[1:WRONG_LANGUAGES])
    return Table(f"Anchors paired wrongly: the English head in {languages}", ("wrong pairs", *methods), rows)


def every_pair(runs: list[StitchingMatrix], what: str) -> Table:
    """Lay every pair of languages out."""
    methods = runs[0].methods
    title = "one multilingual encoder" if what == "multilingual" else f"anchors: {what}"
    return Table(
        f"All pairs of languages: {title}, weighted F1",
        ("encoder", "head of", OWN, *methods),
        pair_rows(runs, methods),
    )


def ordered_pairs(found: Ordered, task: str) -> Table:
    """Lay tables 15 and 16 out: every pair of languages, by both measures."""
    runs, errors = (found[task, measure] for measure in MEASURES)
    methods = runs[0].methods
    rows = zip(pair_rows(runs, methods), pair_rows(errors, methods), strict=True)
    columns = [f"{name}: {one}" for name in MEASURES for one in (OWN, *methods)]
    return Table(
        f"All pairs of languages: {TASKS[task]}",
        ("encoder", "head of", *columns),
        [[*scores, *wrong[2:]] for scores, wrong in rows],
    )


def findings(runs: Runs, read: Reads, chance: float) -> Iterator[Finding]:
    """Judge what the paper says of its tables."""
    inside = str(INSIDE)
    here, own = read[inside], float(np.mean(read[inside]["relative"]["en"]))
    inner, outer = "relative, translated anchors", "relative, Wikipedia anchors"
    yield Finding(
        "a head trained on English cannot read other languages' absolute vectors",
        abroad(here, ABSOLUTE) < chance + 0.1,
        f"weighted F1 {abroad(here, ABSOLUTE):.2f} over {len(ABROAD)} languages, guessing {chance:.2f} "
        f"(paper {paper_abroad(ABSOLUTE):.2f} of {published('rr-table4', 'classes')} classes)",
    )
    yield Finding(
        "relative vectors let it read languages that it never saw",
        abroad(here, "relative") > 0.6 * own,
        f"{abroad(here, 'relative'):.2f} with raw cosines, {abroad(here, CENTERED):.2f} centered, "
        f"{abroad(here, TRANSLATED):.2f} translated, English itself {own:.2f} (paper "
        f"{paper_abroad(inner):.2f} and {published('rr-table4', inner, 'en') / 100:.2f})",
    )
    yield from control_findings({"groups": {row: abroad(here, row) for row in here}}, {"groups": chance})
    outside = {"sentences": ("es",), "names": tuple(ABROAD)}
    for domain, languages in outside.items() if not on_hub() else ():
        found, within = (abroad(read[one], "relative", languages) for one in (domain, inside))
        yield Finding(
            f"anchors of another domain serve nearly as well: {domain}",
            found > 0.85 * within,
            f"{found:.2f}, with emoji {within:.2f} in {', '.join(languages)} (paper "
            f"{paper_abroad(outer):.2f} and {paper_abroad(inner):.2f} in {len(PAPER) - 1} languages); "
            + ", ".join(f"{one} {abroad(read[domain], one, languages):.2f}" for one in (CENTERED, TRANSLATED)),
        )
    one = means(runs["multilingual"])
    yield Finding(
        "within one multilingual encoder absolute vectors can be read in another language",
        one[ABSOLUTE] > 0.8 * one[OWN],
        f"absolute {one[ABSOLUTE]:.2f}, relative {one['relative']:.2f}, own {one[OWN]:.2f}",
    )


def one_answer(task: Task) -> tuple[float, float]:
    """Return F1 and the mean absolute error of one answer for all: the most frequent class, and the middle one."""
    known, truth = task.labels[task.train], task.labels[task.test]
    frequent, middle = np.bincount(known).argmax(), np.median(known)
    f1 = f1_score(truth, np.full_like(truth, frequent), average="weighted", zero_division=0)
    return float(f1), mean_error(truth, np.full(len(truth), middle))


def ordered_findings(found: Ordered, tasks: Mapping[str, Task]) -> Iterator[Finding]:
    """Judge classes that have an order: by F1, and by the mean absolute error."""
    for task in ORDERED:
        scores, errors = (read_abroad(found[task, measure]) for measure in MEASURES)
        said = (f"{method} {abroad(scores, method):.2f} and {abroad(errors, method):.2f}" for method in scores)
        own = [float(np.mean(read[ABSOLUTE]["en"])) for read in (scores, errors)]
        one = one_answer(tasks[task])
        yield Finding(
            "a relative head reads classes that have an order better than an absolute one, and than one answer for "
            f"all: {TASKS[task]}",
            abroad(scores, "relative") > max(abroad(scores, ABSOLUTE), one[0])
            and abroad(errors, "relative") < min(abroad(errors, ABSOLUTE), one[1]),
            f"weighted F1 and mean absolute error in {len(ABROAD)} languages: {', '.join(said)}; English itself "
            f"{own[0]:.2f} and {own[1]:.2f}, one answer for all {one[0]:.2f} and {one[1]:.2f}",
        )


def noisy_finding(found: Mapping[float, Read]) -> Finding:
    """Judge whether wrong pairs among the anchors are stood."""
    clean, noisy = (found[WRONG[i]] for i in (0, -1))
    return Finding(
        f"relative vectors stand {WRONG[-1]:.0%} of wrong pairs among the anchors: nine tenths of the score stay "
        "(our question)",
        abroad(noisy, "relative") > 0.9 * abroad(clean, "relative"),
        "; ".join(
            f"{method} " + ", ".join(f"{abroad(read, method):.2f} with {wrong:.0%}" for wrong, read in found.items())
            for method in METHODS
            if method != ABSOLUTE
        ),
    )


def shared_sentences() -> Table:
    """Return how many sentences of WikiMatrix English shares with some of the languages: table 13."""
    rows = [[languages, f"{count:,}"] for languages, count in hub.wiki_matrix_counts().items()]
    return Table("Sentences of WikiMatrix in all of some languages (table 13)", ("languages", "sentences"), rows)


def within_one_encoder(runs: Runs) -> str:
    """Say what is read between the languages of one encoder, with anchors in and out of domain."""
    pairs = list(permutations(ABROAD, 2))

    def mean(domain: str, method: str) -> float:
        return float(np.mean([number(run[*pair, method].value) for run in runs[domain] for pair in pairs]))

    absolute, inside, outside = mean("emoji", ABSOLUTE), mean("emoji", "relative"), mean("names", "relative")
    return (
        f"Between {', '.join(ABROAD)} one encoder serves, as in the paper's table 17. There heads read absolute "
        f"vectors ({absolute:.2f}), and relative ones with other emoji ({inside:.2f}) or names ({outside:.2f}) as "
        "anchors."
    )


def draw(result: Result) -> Figure:
    """Draw the English head in every language, anchors in and out of domain."""
    shown = (*METHODS, f"relative, {CONTROLS[0]}")
    widths = [len(methods[ABSOLUTE]) for methods in result.series.values()]
    figure, axes = panels(1, len(result.series), size=(3.6, 2.9), sharey=True, width_ratios=[2 + one for one in widths])
    for panel, (domain, methods) in zip(axes[0], result.series.items(), strict=True):
        languages = list(methods[ABSOLUTE])
        for i, method in enumerate(shown):
            values = [methods[method].get(language, np.nan) for language in languages]
            panel.bar(np.arange(len(languages)) + 0.16 * i, values, 0.15, color=COLORS[i], label=method)
        panel.set_xticks(np.arange(len(languages)) + 0.32, [SPOKEN.get(one, one) for one in languages])
        panel.set_title(TITLES[domain])
    axes[0][0].set_ylabel("weighted F1")
    figure.suptitle("A head trained on English in each language, by what the anchors are", fontsize=10)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(shown))
    return figure
