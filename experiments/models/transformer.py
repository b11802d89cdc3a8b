"""A small transformer that classifies short texts, for experiments that cut it between its layers."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict

import numpy as np
import torch
from torch import nn

WIDTH, HEADS, LAYERS, LENGTH, RARE = 64, 4, 4, 16, 2


def transformer(vocabulary: int, classes: int) -> nn.Sequential:
    """Build word and position embeddings, layers, and a head on the mean over words.

    >>> transformer(10, 6)(torch.zeros(3, LENGTH, dtype=torch.int64)).shape
    torch.Size([3, 6])
    """
    layers = {
        f"layer{i}": nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.1, batch_first=True)
        for i in range(LAYERS)
    }
    return nn.Sequential(OrderedDict(words=Words(vocabulary), **layers, head=Head(classes)))


def word_numbers(texts: list[str], trained: int) -> tuple[np.ndarray, int]:
    """Return the first words of each text as numbers, and how many there are: 0 for none, 1 for rare ones."""
    split = [re.findall(r"\w+", text.lower())[:LENGTH] for text in texts]
    counts = Counter(word for words in split[:trained] for word in words)
    number = {word: i + 2 for i, (word, n) in enumerate(counts.most_common()) if n >= RARE}
    rows = [[number.get(word, 1) for word in words] + [0] * (LENGTH - len(words)) for words in split]
    return np.asarray(rows), len(number) + 2


class Words(nn.Module):
    """Add what a word is to where it stands."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, WIDTH), nn.Embedding(LENGTH, WIDTH)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return (n, words, width)."""
        return self.words(numbers) + self.places.weight


class Head(nn.Module):
    """Classify the mean over words."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.read = nn.Linear(WIDTH, classes)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return (n, classes)."""
        return self.read(tokens.mean(dim=1))
