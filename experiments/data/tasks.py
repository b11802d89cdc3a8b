"""Labeled groups of spaces, split into rows to fit on, rows to choose settings by, and rows to test with."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from experiments.data.groups import Group, inputs, load_group
from experiments.data.source import BySource, on_hub

TEST_SHARE, CHOICE_SHARE = 0.25, 0.2


@dataclass(frozen=True)
class Source:
    """Where a task comes from: its title, its group, and which spaces of it (all, unless some are named)."""

    title: str
    group: str
    spaces: tuple[str, ...] = ()


# The papers' encoders: five of each kind in IRP, all of its table 4 in LST, where figure 1 has six and five.
FIVE = {
    "image": ("ViT-base", "ViT-small", "ViT-base, 384", "RexNet", "CLIP"),
    "text": ("BERT-c", "BERT-u", "Electra", "RoBERTa", "XLM-R"),
}
ALL = {
    "image": ("ResNet", "DarkNet", "ViT-small", "ViT-base", "ViT-base, 384", "ViT-ResNet", "CLIP"),
    "text": ("BERT-c", "BERT-u", "Electra", "RoBERTa", "ALBERT", "XLM-R", "CLIP, texts"),
}
SEEN = ("ViT-base", "RexNet", "ViT-base, 384", "ViT-small", "ViT-ResNet", "DarkNet")
PAPERS_DATA = {
    "mnist": ("MNIST", "image"),
    "fashion": ("Fashion-MNIST", "image"),
    "cifar10": ("CIFAR-10", "image"),
    "cifar100 coarse": ("CIFAR-100 coarse", "image"),
    "cifar100 fine": ("CIFAR-100", "image"),
    "n24news images": ("N24News, images", "image"),
    "n24news texts": ("N24News, texts", "text"),
    "trec": ("TREC", "text"),
    "newsgroups": ("20 Newsgroups", "text"),
    "dbpedia": ("DBpedia", "text"),
    "ag news": ("AG News", "text"),
    "imdb": ("IMDB", "text"),
}
OF_PAPERS = {
    name + suffix: Source(group, group, encoders[kind])
    for suffix, encoders in (("", FIVE), (", all encoders", ALL))
    for name, (group, kind) in PAPERS_DATA.items()
}
PICTURES_AND_TEXTS = "N24News, images", "N24News, texts"
OF_PACKAGES = {
    "cifar10": Source("CIFAR-10", "resnets"),
    "cifar photos": Source("CIFAR-10, ImageNet networks", "cifar photos"),
    "fashion": Source("Fashion-MNIST", "fashion"),
    "mnist": Source("MNIST", "mnist"),
    "groceries": Source("groceries", "groceries"),
    "emoji": Source("emoji, pictures", "emoji", ("google", "twitter")),
    "emoji texts": Source("emoji, texts", "emoji", ("usem3", "para3", "glove")),
    "both kinds": Source("emoji, pictures and texts", "emoji", ("google", "twitter", "usem3", "para3", "glove")),
    "trec": Source("TREC", "trec"),
    "newsgroups": Source("20 Newsgroups", "newsgroups"),
    "tweets": Source("disaster tweets", "tweets"),
    "reviews": Source("film reviews", "reviews"),
}
TASKS = BySource(
    packages=OF_PACKAGES,
    hub=OF_PAPERS | {"both kinds": Source("N24News", "N24News", (*SEEN, *FIVE["text"]))},
)
# What each task of packages has in place of the papers' encoders.
OF_STAND_INS = {
    "cifar10": "CIFAR-10 through two residual networks (64-d) that were trained on other photos of it",
    "cifar photos": "CIFAR-10 through EfficientNet lite2 and Inception-v3, which saw ImageNet",
    "fashion": "Fashion-MNIST through two small networks and principal axes",
    "mnist": "MNIST through two small networks and principal axes",
    "groceries": "grocery photos through EfficientNet lite0 and lite1",
    "emoji": "emoji of two vendors through EfficientNet lite0, nine categories",
    "emoji texts": "names of emoji through USE, paraphrase-MiniLM-L3 and GloVe, nine categories",
    "trec": "TREC through MiniLM-L6, paraphrase-MiniLM-L3, USE, potion and GloVe",
    "newsgroups": "openings of 20 Newsgroups posts through USE lite, wordllama and LSA",
    "tweets": "tweets about disasters through MiniLM's third layer and GloVe, two classes",
    "reviews": "openings of film reviews through USE lite and MiniLM's third layer, two classes",
}
STAND_INS = BySource(packages=OF_STAND_INS, hub=defaultdict(str))


@dataclass(frozen=True)
class Task:
    """Parallel spaces, their labels, and row numbers: ``fit`` and ``choice`` part the training rows.

    ``inputs`` are what the encoders read, as a random encoder takes them; None where that is not at hand.
    """

    title: str
    spaces: dict[str, np.ndarray]
    labels: np.ndarray
    fit: np.ndarray
    choice: np.ndarray
    test: np.ndarray
    inputs: np.ndarray | None = None

    def anchors(self, k: int) -> np.ndarray:
        """Return k of the rows to fit on, or all of them where there are fewer."""
        return self.fit[:k]


def load_task(name: str, seed: int = 0, max_rows: int | None = None, encoders: int | None = None) -> Task:
    """Return one of TASKS. The seed draws the rows; no seed tests with rows that another one fits on or chooses by.

    ``max_rows`` limits the rows of each part, ``encoders`` the number of spaces.
    """
    source = TASKS[name]
    group = _pictures_and_texts() if on_hub() and name == "both kinds" else load_group(source.group, source.spaces)
    assert group.labels is not None
    spaces = {space: group.spaces[space] for space in list(source.spaces or group.spaces)[:encoders]}
    rows = split(len(group.labels), group.train, seed, max_rows)
    return Task(source.title, spaces, group.labels, *rows, inputs(source.group))


def _pictures_and_texts() -> Group:
    """Return N24News through encoders of both kinds: the rows of its pictures and of its texts are the same."""
    from experiments.data import hub

    pictures, texts = PICTURES_AND_TEXTS
    return hub.joined(load_group(pictures, SEEN), load_group(texts, FIVE["text"]))


def task_of(title: str, group: Group, seed: int = 0, max_rows: int | None = None) -> Task:
    """Return a group as a task, all its spaces, with the rows that the seed draws."""
    assert group.labels is not None
    return Task(title, group.spaces, group.labels, *split(len(group.labels), group.train, seed, max_rows))


def split(
    n: int, train: int | None, seed: int, max_rows: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw the rows to fit on, to choose by and to test with, none in two of them, whatever their seeds.

    >>> [len(part) for part in split(100, None, 0)], [len(part) for part in split(100, 90, 0, max_rows=20)]
    ([60, 15, 25], [20, 18, 10])
    """
    known = np.arange(n) < train if train is not None else np.random.default_rng(0).permutation(n) >= TEST_SHARE * n
    order = np.random.default_rng(seed).permutation(n)
    train_rows, test = order[known[order]], order[~known[order]]
    held = round(CHOICE_SHARE * len(train_rows))
    return train_rows[held:][:max_rows], train_rows[:held][:max_rows], test[:max_rows]
