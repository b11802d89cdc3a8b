"""Text encoders (extra: text): sentence-transformers, and any transformers model with a pooling and a layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import to_numpy
from relatent._extras import needs
from relatent.encode.encoder import Encoder
from relatent.encode.local import best_device, check_pooling, model_name, normalized, pooled, revision_of

__all__ = ["sentence_transformer", "transformer"]


def sentence_transformer(
    model: str | Path,
    *,
    name: str | None = None,
    revision: str | None = None,
    device: str | None = None,
    normalize: bool = False,
    prompt: str | None = None,
) -> Encoder:
    """Load a sentence-transformers model, from a folder or a hub. Pooling is the model's own."""
    library = needs("sentence_transformers", "text", "load a sentence-transformers model")
    loaded = library.SentenceTransformer(str(model), revision=revision, device=best_device(device))
    parts = {type(part).__name__: part for part in loaded}

    def run(texts: Sequence[str]) -> Any:
        return loaded.encode(
            list(texts),
            batch_size=len(texts),
            prompt=prompt,
            normalize_embeddings=normalize,
            convert_to_numpy=True,
            show_progress_bar=False,
        )

    return Encoder(
        run,
        model_name(model, name),
        revision_of(model, revision, getattr(loaded[0], "auto_model", None)),
        _own_pooling(parts.get("Pooling")),
        "l2" if normalize or "Normalize" in parts else "none",
        kind="text",
    )


def transformer(
    model: str | Path,
    *,
    pooling: str = "mean",
    layer: int = -1,
    name: str | None = None,
    revision: str | None = None,
    device: str | None = None,
    normalize: bool = False,
    max_length: int | None = None,
) -> Encoder:
    """Load a transformers model with its tokenizer, from a folder or a hub.

    ``layer`` counts the hidden states: 0 is the embedding of the tokens, 1 the output of the first block, -1 that of
    the last. ``pooling`` is mean, cls (the first token), max or last.
    """
    check_pooling(pooling)
    library = needs("transformers", "text", "load a transformers model")
    tokenizer = library.AutoTokenizer.from_pretrained(str(model), revision=revision)
    loaded = library.AutoModel.from_pretrained(str(model), revision=revision).to(best_device(device)).eval()
    _check_layer(layer, loaded)

    def run(texts: Sequence[str]) -> np.ndarray:
        inputs = tokenizer(list(texts), padding=True, truncation=True, max_length=max_length, return_tensors="pt")
        tokens = hidden_state(loaded, layer, **inputs)
        return normalized(pooled(tokens, to_numpy(inputs["attention_mask"]), pooling), normalize)

    return Encoder(
        run,
        model_name(model, name),
        revision_of(model, revision, loaded),
        pooling,
        "l2" if normalize else "none",
        layer,
        "text",
    )


def hidden_state(loaded: Any, layer: int, **inputs: Any) -> np.ndarray:
    """Run a transformers model and return one of its hidden states, (n, tokens, d)."""
    import torch

    with torch.inference_mode():
        inputs = {key: value.to(loaded.device) for key, value in inputs.items()}
        out = loaded(**inputs, output_hidden_states=layer != -1)
        # The last hidden state is the normalized one; in some models the last of all states is not.
        state = out.last_hidden_state if layer == -1 else out.hidden_states[layer]
        return to_numpy(state.float())


def _check_layer(layer: int, loaded: Any) -> None:
    blocks = getattr(loaded.config, "num_hidden_layers", None)
    if blocks is not None and not -blocks - 1 <= layer <= blocks:
        raise ValueError(
            f"layer is {layer} and the model has {blocks} blocks: expected between 0 (the embedding) and {blocks} (the "
            "last block), or a negative number that counts from the end."
        )


def _own_pooling(part: Any) -> str | None:
    """Name the pooling of a sentence-transformers model in our words where there is one."""
    if part is None:
        return None
    older = getattr(part, "get_pooling_mode_str", None)
    mode = str(older() if older else part.pooling_mode)
    return {"lasttoken": "last"}.get(mode, mode)
