"""Texts in several languages, and heads of each language that read all others: what ``rr-table4`` lays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from experiments.data import reviews
from experiments.data.groups import Group
from experiments.data.source import BySource, on_hub
from experiments.data.texts import word_counts
from experiments.data.translations import LANGUAGES as WRITTEN
from experiments.data.translations import described_emoji, descriptions, named_things, paired_sentences
from experiments.relative_representations.stitched import (
    ANCHORS,
    CONTROLLED,
    CONTROLS,
    EPOCHS,
    METHODS,
    TRANSLATED,
    mean_error,
    number,
    split,
    stitch_all,
)

from relatent.stitching import StitchingMatrix

# Italian is on the slides, without figures.
LANGUAGES = BySource(packages=WRITTEN, hub=reviews.LANGUAGES)
ABROAD = BySource(packages=WRITTEN[1:], hub=reviews.LANGUAGES[1:])
PAPER = reviews.LANGUAGES
APART = BySource(packages=WRITTEN, hub=reviews.LANGUAGES)
TOGETHER = BySource(
    packages=("en, multilingual", *WRITTEN[1:]), hub=tuple(f"{one}, multilingual" for one in reviews.LANGUAGES)
)
# Anchors of the task's own domain; for them ordered classes and one multilingual encoder are tried as well.
INSIDE = BySource(packages="emoji", hub="Wikipedia")
# The task of table 4, and those whose classes have an order.
MAIN, ORDERED = BySource(packages="groups", hub="coarse"), ("coarse", "fine")
MEASURES: dict[str, Any] = {"weighted F1": "weighted F1", "MAE": mean_error}
# Every pair of languages is tried without a translator, which would have to be fitted for each; English with one, too.
TRANSLATION = {TRANSLATED: METHODS[TRANSLATED]}
UNTRANSLATED = {name: method for name, method in METHODS.items() if name != TRANSLATED}
SIZES = (1_300, 400)
PASSES = BySource(packages=60, hub=EPOCHS)  # the few emoji with an order need more
# Shares of the anchors that are paired wrongly, and in how many languages and from how many seeds that is tried.
WRONG, WRONG_LANGUAGES, WRONG_SEEDS = (0.0, 0.1, 0.3, 0.5), 3, 3
Runs = Mapping[str, list[StitchingMatrix]]  # by domain of the anchors, and of the multilingual encoder
Read = dict[str, dict[str, list[float]]]  # by method and language: the scores of the English head over seeds
Reads = Mapping[str, Read]  # by domain of the anchors
Ordered = Mapping[tuple[str, str], list[StitchingMatrix]]  # by task and measure


class Task(NamedTuple):
    """Classes of the descriptions, and which of them train and test."""

    labels: np.ndarray
    train: np.ndarray
    test: np.ndarray


class Anchored(NamedTuple):
    """Spaces of the texts with those of the anchors below them, and what a random encoder reads of both."""

    spaces: Mapping[str, np.ndarray]
    samples: np.ndarray | None = None


def labelled() -> dict[str, Task]:
    """Return the tasks: groups of emoji, and those that have an order."""
    if on_hub():
        return {name: Task(*rows) for name, rows in reviews.review_tasks().items()}
    texts = descriptions()
    known = np.random.default_rng(0).permutation(np.flatnonzero(texts.sentiment >= 0))
    test, train = np.split(known, [len(known) // 3])
    clear = texts.sentiment != 2  # two classes leave out the middle one of the five, as in the paper
    return {
        "groups": Task(texts.groups, *split(len(texts.groups), None, SIZES)),
        "coarse": Task((texts.sentiment > 2).astype(int), train[clear[train]], test[clear[test]]),
        "fine": Task(np.maximum(texts.sentiment, 0), train, test),
    }


def labelled_spaces() -> dict[str, Anchored]:
    """Return the spaces by domain of the anchors; descriptions of emoji anchor each other."""
    if on_hub():
        return {domain: Anchored(spaces) for domain, spaces in reviews.review_spaces().items()}
    names = joined(named_things())
    return {"emoji": names, "names": names, "sentences": joined(paired_sentences())}


def joined(beside: Group) -> Anchored:
    """Return the spaces of the descriptions with those of other texts below them, so that both can anchor."""
    above, below = described_emoji(), beside.spaces
    spaces = {name: np.concatenate([x, below[name]]) for name, x in above.spaces.items() if name in below}
    return Anchored(spaces, word_counts(np.concatenate([above.keys, beside.keys]).tolist()))


def stitch_languages(spaces: Mapping[str, Anchored], task: Task, seeds: Sequence[int]) -> tuple[Runs, Reads]:
    """Return every pair of languages, and the English head in all of them, by what the anchors are."""
    runs, read = {}, {}
    for domain, anchored in spaces.items():
        names = APART if domain != "sentences" else ("en", "es")
        runs[domain], read[domain] = both(anchored, task, domain, seeds, names=names)
    inside = str(INSIDE)
    runs["multilingual"] = [stitched(spaces[inside], task, inside, seed, names=TOGETHER) for seed in seeds]
    return runs, read


def stitch_ordered(anchored: Anchored, tasks: Mapping[str, Task], seeds: Sequence[int]) -> Ordered:
    """Return every pair of languages for the tasks whose classes have an order, by both measures."""
    options: dict[str, Any] = {"epochs": PASSES.value, "controls": False}
    return {
        (name, measure): [
            stitched(anchored, tasks[name], str(INSIDE), seed, metric=metric, **options) for seed in seeds
        ]
        for name in ORDERED
        for measure, metric in MEASURES.items()
    }


def both(
    anchored: Anchored, task: Task, domain: str, seeds: Sequence[int], **options: Any
) -> tuple[list[StitchingMatrix], Read]:
    """Return every pair of languages untranslated, and the English head in all of them, translated as well."""
    found = [stitched(anchored, task, domain, seed, **options) for seed in seeds]
    options |= {"methods": TRANSLATION, "heads": ["en"]}
    translated = [stitched(anchored, task, domain, seed, **options) for seed in seeds]
    return found, read_abroad(found) | read_abroad(translated)


def stitched(
    anchored: Anchored,
    task: Task,
    domain: str,
    seed: int,
    names: Sequence[str] = APART,
    wrong: float = 0.0,
    **options: Any,
) -> StitchingMatrix:
    """Stitch some spaces, with anchors of one domain, of which a share are paired wrongly with the English ones."""
    labels, n = task.labels, len(next(iter(anchored.spaces.values())))
    within = domain == "emoji" and not on_hub()
    rows = np.setdiff1d(np.arange(len(labels)), task.test) if within else np.arange(len(labels), n)
    anchors = np.random.default_rng(seed).choice(rows, min(ANCHORS, len(rows)), replace=False)
    spaces = {name: anchored.spaces[name].copy() for name in names}
    exchanged = anchors[: round(wrong * len(anchors))]
    for name in names[1:]:
        spaces[name][exchanged] = anchored.spaces[name][np.roll(exchanged, 1)]
    padded = np.concatenate([labels, np.zeros(n - len(labels), dtype=labels.dtype)])  # names have no class
    options = {"methods": UNTRANSLATED, "samples": anchored.samples} | options
    return stitch_all(spaces, padded, seed, train=task.train, test=task.test, anchors=anchors, **options)


def wrongly_paired(anchored: Anchored, task: Task, seeds: Sequence[int]) -> dict[float, Read]:
    """Return what the English head reads abroad where a share of the anchors are paired wrongly."""
    names = LANGUAGES[:WRONG_LANGUAGES]
    return {
        wrong: both(anchored, task, str(INSIDE), seeds, names=names, wrong=wrong, controls=False)[1] for wrong in WRONG
    }


def read_abroad(runs: list[StitchingMatrix]) -> Read:
    """Return the English head's scores over seeds by method and language, and the controls of some methods.

    In English it reads its own encoder, or in a control the random one.
    """
    found: Read = {}
    for method in runs[0].methods:
        found[method] = {
            language: [
                number(run.own("en", method) if language == "en" else run[language, "en", method].value) for run in runs
            ]
            for language in LANGUAGES
            if language in runs[0].encoders
        }
        for one in (one for run in runs for one in run.controls if one.decoder == "en" and one.method == method):
            if method in CONTROLLED and one.control in CONTROLS:
                cells = found.setdefault(f"{method}, {one.control}", {})
                cells.setdefault(one.encoder or "en", []).append(number(one.value))
    return found
