"""The papers' own encoders and data sets, for those who reach a model hub and a data hub: ``--source hub``.

Texts go through five language models, the vector of [CLS] in the last hidden state; pictures through seven networks of
timm, their pooled features. Names of models and data sets can be local folders as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from experiments.data.groups import Group

import relatent as rl

LANGUAGE_MODELS = {
    "BERT, cased": "bert-base-cased",
    "BERT, uncased": "bert-base-uncased",
    "ELECTRA": "google/electra-base-discriminator",
    "RoBERTa": "roberta-base",
    "XLM-R": "xlm-roberta-base",
}
VISION_MODELS = {
    "RexNet": "rexnet_100",
    "ViT-base, 224": "vit_base_patch16_224",
    "ViT-base, 384": "vit_base_patch16_384",
    "ViT-small": "vit_small_patch16_224",
    "ViT-ResNet": "vit_base_resnet50_384",
}


@dataclass(frozen=True)
class DataSet:
    """A data set of a hub: its name and configuration, and the columns of items and labels."""

    path: str
    item: str
    label: str
    config: str | None = None
    train: int = 6_000
    test: int = 2_000

    def read(self) -> tuple[list[Any], np.ndarray, int]:
        """Return items, labels, and how many of the first are to train on; larger parts are sampled."""
        parts = [self._part(split, count) for split, count in (("train", self.train), ("test", self.test))]
        items = [item for part, _ in parts for item in part]
        return items, np.concatenate([labels for _, labels in parts]), len(parts[0][0])

    def _part(self, split: str, count: int) -> tuple[list[Any], np.ndarray]:
        rows = load_dataset(self.path, self.config, split)
        chosen = random.Random(0).sample(range(len(rows)), min(count, len(rows)))
        part = rows.select(sorted(chosen))
        return list(part[self.item]), np.asarray(part[self.label])


TEXTS = {
    "trec": DataSet("trec", "text", "coarse_label"),
    "newsgroups": DataSet("SetFit/20_newsgroups", "text", "label"),
    "reviews": DataSet("amazon_reviews_multi", "review_body", "stars", config="en"),
    "ag news": DataSet("ag_news", "text", "label"),
    "dbpedia": DataSet("dbpedia_14", "content", "label"),
}
PICTURES = {
    "resnets": DataSet("cifar10", "img", "label"),
    "cifar photos": DataSet("cifar100", "img", "coarse_label"),
    "fashion": DataSet("fashion_mnist", "image", "label"),
}


def build(name: str, models: dict[str, str] | None = None) -> Group:
    """Return a group of parallel spaces by its name, from a hub."""
    if name in TEXTS:
        return encoded(TEXTS[name], models or LANGUAGE_MODELS, partial(rl.encode.transformer, pooling="cls"))
    if name in PICTURES:
        return encoded(PICTURES[name], models or VISION_MODELS, rl.encode.timm_model)
    raise SystemExit(f"{name} has no counterpart on a hub: run it with --source packages.")


def encoded(data: DataSet, models: dict[str, str], load: Callable[[str], rl.encode.Encoder]) -> Group:
    """Encode the items of a data set by several models."""
    items, labels, train = data.read()
    spaces = {name: _vectors(items, load(model)) for name, model in models.items()}
    return Group(spaces, labels, train=train)


def load_dataset(path: str, config: str | None, split: str) -> Any:
    """Return the rows of one split, or stop with what is missing."""
    try:
        import datasets
    except ImportError:
        raise SystemExit("--source hub needs the package datasets: pip install datasets.") from None
    try:
        return datasets.load_dataset(path, config, split=split)
    except (ConnectionError, OSError) as error:
        raise SystemExit(f"{path} cannot be loaded; is this computer offline? {error}") from None


def _vectors(items: Sequence[Any], encoder: rl.encode.Encoder) -> np.ndarray:
    return np.asarray(rl.encode.encode(items, encoder, progress=True).vectors, dtype=np.float32)
