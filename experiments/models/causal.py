"""A small causal transformer over characters, with a key-value cache that can be read and replaced."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, LENGTH, ALPHABET = 64, 4, 3, 96, 80
# Keys and values of each layer, (n, tokens, width) each: heads side by side.
Cache = list[tuple[Tensor, Tensor]]


def character_numbers(text: str) -> np.ndarray:
    """Return the characters of a text as numbers by their frequency; the last stands for all rare ones."""
    number = {c: i for i, (c, _) in enumerate(Counter(text).most_common(ALPHABET - 1))}
    return np.asarray([number.get(c, ALPHABET - 1) for c in text])


class Causal(nn.Module):
    """Predict the next character.

    >>> model, tokens = Causal(), torch.zeros(2, 5, dtype=torch.int64)
    >>> model(tokens).shape, len(model.cache(tokens))
    (torch.Size([2, 5, 80]), 3)
    """

    def __init__(self) -> None:
        super().__init__()
        self.characters, self.places = nn.Embedding(ALPHABET, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.read = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, ALPHABET))

    def forward(self, tokens: Tensor, past: Cache | None = None) -> Tensor:
        """Return logits (n, tokens, characters); tokens come behind those whose keys and values are past."""
        return self._run(tokens, past)[0]

    def cache(self, tokens: Tensor) -> Cache:
        """Return the keys and values of every layer."""
        return self._run(tokens, None)[1]

    def _run(self, tokens: Tensor, past: Cache | None) -> tuple[Tensor, Cache]:
        start = 0 if past is None else past[0][0].shape[1]
        x = self.characters(tokens) + self.places.weight[start : start + tokens.shape[1]]
        found = []
        for i, layer in enumerate(self.layers):
            x, kept = layer(x, None if past is None else past[i])
            found.append(kept)
        return self.read(x), found


class Layer(nn.Module):
    """Attention and a perceptron, each behind a layer norm and beside the residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.ask = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.mix = nn.Linear(WIDTH, WIDTH)
        self.think = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the residual stream, and the keys and values of these tokens."""
        queries, keys, values = self.ask(self.before(x)).chunk(3, dim=2)
        kept, start = (keys, values), 0
        if past is not None:
            start = past[0].shape[1]
            keys, values = (torch.cat([old, new], dim=1) for old, new in zip(past, kept, strict=True))
        seen = torch.ones(queries.shape[1], keys.shape[1], dtype=torch.bool).tril(start)
        mixed = functional.scaled_dot_product_attention(*map(split_heads, (queries, keys, values)), attn_mask=seen)
        x = x + self.mix(mixed.transpose(1, 2).flatten(2))
        return x + self.think(x), kept


def split_heads(x: Tensor) -> Tensor:
    """Return (n, heads, tokens, width of a head)."""
    return x.unflatten(2, (HEADS, -1)).transpose(1, 2)


def next_character_loss(model: nn.Module, tokens: Tensor, _: Tensor) -> Tensor:
    """Return the mean cross-entropy of the next character."""
    return functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
