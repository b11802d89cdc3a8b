"""Real texts that are on every machine, and encoders that need no download: for a migration from end to end."""

from __future__ import annotations

import ast
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer
from tests.stores.case import Items

import relatent as rl
from relatent.decide import Relevance

SHORTEST, WORDS_ASKED = 80, 12


@cache
def docstrings() -> list[str]:
    """Return what the modules of the standard library say about their functions and classes."""
    found: dict[str, None] = {}
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8", errors="ignore"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node) or ""
                found |= {" ".join(text.split()): None} if len(text) > SHORTEST else {}
    return list(found)


@cache
def encoder(analyzer: str, longest: int, dim: int) -> Pipeline:
    """Return a model of texts: hashed words or letters, reduced to their main directions, at norm 1."""
    hashed = HashingVectorizer(analyzer=analyzer, ngram_range=(1, longest), n_features=2**12, alternate_sign=False)
    return make_pipeline(hashed, TruncatedSVD(dim, random_state=dim), Normalizer()).fit(docstrings())


MODELS = {"old": ("word", 1, 64), "new": ("word", 2, 96), "foreign": ("char_wb", 3, 48)}


@cache
def encoded(model: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of all texts, and of the first words of each, which ask for it."""
    texts = docstrings()
    asked = [" ".join(text.split()[:WORDS_ASKED]) for text in texts]
    vectors, queries = (np.asarray(encoder(*MODELS[model]).transform(t), np.float32) for t in (texts, asked))
    return vectors, queries


@dataclass(frozen=True)
class Encoded:
    """The same texts under two models."""

    old: str = "old"
    new: str = "new"

    def items(self) -> Items:
        """Return what stands in the store: texts with the vectors of the old model."""
        texts = docstrings()
        return Items(list(range(len(texts))), encoded(self.old)[0], texts)

    def sample(self) -> tuple[rl.Space, rl.Space]:
        """Return both models' vectors of every text, and of what asks for it."""
        return self._space(self.old), self._space(self.new)

    def _space(self, model: str) -> rl.Space:
        vectors, queries = encoded(model)
        keys = [*map(str, range(len(vectors))), *(f"q{i}" for i in range(len(queries)))]
        known = rl.Fingerprint(vectors.shape[1], f"{model} model")
        return rl.Space(np.concatenate([vectors, queries]), keys, model, known)

    def relevant(self) -> Relevance:
        """Return which text each query should find: the one that it was taken from."""
        rows = range(len(docstrings()))
        return Relevance([f"q{i}" for i in rows], [str(i) for i in rows], "texts by their first words")

    def translator(self) -> rl.Translator:
        """Fit on two thirds of the texts, as if only those had been embedded by the new model, and on no query."""
        old, new = (space.subset(range(len(docstrings()))) for space in self.sample())
        fitted = rl.Translator()
        fitted.fit(old, new, held_out=1 / 3, progress=False)
        return fitted
