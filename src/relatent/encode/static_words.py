"""Static word vectors as a text encoder: the mean of the vectors of the words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from relatent.encode.encoder import Encoder
from relatent.encode.local import normalized
from relatent.spaces import Space

__all__ = ["static"]

WORD = re.compile(r"\w+(?:['’]\w+)?", re.UNICODE)


def static(words: Space, *, name: str | None = None, lower: bool = True, normalize: bool = False) -> Encoder:
    """Encode texts by the mean of their words' vectors. Unknown words are passed over; a text of them is zero.

    >>> words = Space([[1.0, 0.0], [0.0, 1.0]], keys=["red", "car"], name="toy")
    >>> static(words)(["Red car!", "???"]).tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """
    if not words.has_keys:
        raise ValueError("The word vectors have no keys: expected a space whose keys are words. Name its key column.")
    row_of = {str(word): row for row, word in reversed(list(enumerate(words.keys)))}
    vectors = words.vectors

    def one(text: str) -> Any:
        found = [row_of[word] for word in WORD.findall(text.lower() if lower else text) if word in row_of]
        return np.mean(vectors[found], axis=0, dtype=np.float64) if found else np.zeros(words.dim)

    def run(texts: Sequence[str]) -> np.ndarray:
        return normalized(np.stack([one(text) for text in texts]).astype(vectors.dtype), normalize)

    known = words.fingerprint
    called = name or known.model or words.name or "word vectors"
    return Encoder(run, called, known.revision, "mean", "l2" if normalize else "none", kind="text")
