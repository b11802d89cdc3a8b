"""Text encoders: sentence-transformers and transformers (extra: text), ONNX (extra: onnx), static word vectors.

The end of the file is shared with the image encoders: device, name and revision of a model, pooling.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import suggest, to_numpy
from relatent._errors import needs, with_remedy
from relatent._files import FileError
from relatent._linalg import unit_norm
from relatent.encode.encoder import Encoder
from relatent.spaces import Space

POOLINGS = ("mean", "cls", "max", "last")
WEIGHTS = (".safetensors", ".bin", ".onnx", ".pt", ".pth")
WORD = re.compile(r"\w+(?:['’]\w+)?", re.UNICODE)


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

    pooling, unit = _own_pooling(parts.get("Pooling")), normalize or "Normalize" in parts
    known = recorded(model, name, revision, getattr(loaded[0], "auto_model", None), pooling=pooling, normalize=unit)
    return Encoder(run, kind="text", **known)


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
    loaded = load_transformer(library, model, revision, device)
    _check_layer(layer, loaded)

    def run(texts: Sequence[str]) -> np.ndarray:
        inputs = tokenizer(list(texts), padding=True, truncation=True, max_length=max_length, return_tensors="pt")
        tokens = hidden_state(loaded, layer, **inputs)
        return normalized(pooled(tokens, to_numpy(inputs["attention_mask"]), pooling), normalize)

    known = recorded(model, name, revision, loaded, pooling=pooling, normalize=normalize, layer=layer)
    return Encoder(run, kind="text", **known)


def onnx_text(
    model: str | Path,
    tokenizer: str | Path | None = None,
    *,
    pooling: str = "mean",
    output: str | None = None,
    name: str | None = None,
    normalize: bool = False,
    max_length: int = 256,
    threads: int | None = None,
) -> Encoder:
    """Load an ONNX model and its tokenizer.json (by default the one beside it).

    An output of shape (n, tokens, d) is pooled; one of shape (n, d) is used unchanged. The default is the first output
    of the model. The fastest execution provider available is used.
    """
    check_pooling(pooling)
    path = Path(model)
    session = _session(path, threads)
    outputs = [node.name for node in session.get_outputs()]
    if output is not None and output not in outputs:
        raise ValueError(f"{path} has no output {output!r}.{suggest(output, outputs)}")
    splitter = _tokenizer(path.with_name("tokenizer.json") if tokenizer is None else Path(tokenizer), max_length)
    wanted, names = output or outputs[0], {node.name for node in session.get_inputs()}

    def run(texts: Sequence[str]) -> np.ndarray:
        encoded = splitter.encode_batch(list(texts))
        fields = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
        feed = {
            key: np.asarray([getattr(one, field) for one in encoded], dtype=np.int64)
            for key, field in fields.items()
            if key in names or key == "attention_mask"
        }
        mask = feed["attention_mask"]
        out = session.run([wanted], {key: value for key, value in feed.items() if key in names})[0]
        vectors = pooled(out, mask, pooling) if out.ndim == 3 else out
        return normalized(np.asarray(vectors, dtype=np.float32), normalize)

    called = name or (path.stem if path.stem != "model" else model_name(path.parent, None))
    return Encoder(run, kind="text", **recorded(path, called, None, pooling=pooling, normalize=normalize))


def static(words: Space, *, name: str | None = None, lower: bool = True, normalize: bool = False) -> Encoder:
    """Encode texts by the mean of their words' vectors. Unknown words are skipped; a text without known words is zero.

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


def _check_layer(layer: int, loaded: Any) -> None:
    blocks = getattr(loaded.config, "num_hidden_layers", None)
    if blocks is not None and not -blocks - 1 <= layer <= blocks:
        raise ValueError(
            f"layer is {layer} and the model has {blocks} blocks: expected between 0 (the embedding) and {blocks} (the "
            "last block), or a negative number that counts from the end."
        )


def _own_pooling(part: Any) -> str | None:
    """Return our name for the pooling of a sentence-transformers model, if it has one."""
    if part is None:
        return None
    older = getattr(part, "get_pooling_mode_str", None)
    mode = str(older() if older else part.pooling_mode)
    return {"lasttoken": "last"}.get(mode, mode)


def _session(path: Path, threads: int | None) -> Any:
    runtime = needs("onnxruntime", "onnx", f"run {path.name}")
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: expected an ONNX model.")
    options = runtime.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    try:
        return runtime.InferenceSession(str(path), options, providers=runtime.get_available_providers())
    except Exception as error:
        raise FileError(f"{path} cannot be loaded as an ONNX model ({str(error)[:200]}): get a new copy.") from error


def _tokenizer(path: Path, max_length: int) -> Any:
    library = needs("tokenizers", "onnx", "split texts into tokens")
    if not path.is_file():
        raise with_remedy(
            FileNotFoundError(f"There is no file {path}: expected the tokenizer.json of the model."),
            python="Name it with tokenizer=…",
            command="Put it beside the model.",
        )
    splitter = library.Tokenizer.from_file(str(path))
    splitter.enable_truncation(max_length)
    if splitter.padding is None:
        splitter.enable_padding()
    else:  # a stored fixed length would pad every text to it
        splitter.enable_padding(**{**splitter.padding, "length": None})
    return splitter


def load_transformer(library: Any, model: str | Path, revision: str | None, device: str | None) -> Any:
    """Load a transformers model for inference."""
    return library.AutoModel.from_pretrained(str(model), revision=revision).to(best_device(device)).eval()


def recorded(
    model: str | Path,
    name: str | None,
    revision: str | None,
    loaded: Any = None,
    *,
    pooling: str | None,
    normalize: bool,
    layer: int | None = None,
) -> dict[str, Any]:
    """Return what an :class:`Encoder` records of a model from a folder or a hub."""
    return {
        "model": model_name(model, name),
        "revision": revision_of(model, revision, loaded),
        "pooling": pooling,
        "normalization": "l2" if normalize else "none",
        "layer": layer,
    }


def hidden_state(loaded: Any, layer: int, **inputs: Any) -> np.ndarray:
    """Run a transformers model and return one of its hidden states, (n, tokens, d)."""
    import torch

    with torch.inference_mode():
        inputs = {key: value.to(loaded.device) for key, value in inputs.items()}
        out = loaded(**inputs, output_hidden_states=layer != -1)
        # The last hidden state is the normalized one; in some models the last of all states is not.
        state = out.last_hidden_state if layer == -1 else out.hidden_states[layer]
        return to_numpy(state.float())


def best_device(device: str | None = None) -> str:
    """Return the given device, by default the fastest one available."""
    if device is not None:
        return device
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def model_name(source: str | Path, name: str | None) -> str:
    """Return the name to record: the given one, by default that of the folder or of the model on a hub."""
    if name is not None:
        return name
    path = Path(source)
    return path.resolve().name if path.exists() else str(source)


def revision_of(source: str | Path, given: str | None, loaded: Any = None) -> str | None:
    """Return what identifies a version: a digest of local weights, the commit on the hub, or the given revision."""
    path = Path(source)
    if path.exists():
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in WEIGHTS)
        digest = hashlib.sha256()
        for file in files:
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        return f"sha256:{digest.hexdigest()[:16]}" if files else given
    commit = getattr(getattr(loaded, "config", None), "_commit_hash", None)
    return commit or given


def check_pooling(pooling: str) -> None:
    """Raise for an unknown pooling."""
    if pooling not in POOLINGS:
        raise ValueError(f"There is no pooling {pooling!r}.{suggest(pooling, POOLINGS)}")


def pooled(tokens: np.ndarray, mask: np.ndarray | None, pooling: str) -> np.ndarray:
    """Pool token vectors (n, tokens, d) to one vector per item, ignoring padding.

    >>> tokens, mask = np.asarray([[[1.0], [3.0], [9.0]]]), np.asarray([[1, 1, 0]])
    >>> [float(pooled(tokens, mask, how)[0, 0]) for how in ("mean", "cls", "max", "last")]
    [2.0, 1.0, 3.0, 3.0]
    """
    if mask is None:
        mask = np.ones(tokens.shape[:2], dtype=tokens.dtype)
    kept = mask[:, :, None].astype(tokens.dtype)
    rows = np.arange(len(tokens))
    if pooling == "mean":
        return np.asarray((tokens * kept).sum(axis=1) / np.maximum(kept.sum(axis=1), 1))
    if pooling == "max":
        return np.asarray(np.where(kept > 0, tokens, -np.inf).max(axis=1))
    # The first and the last token that is not padding; padding may be on either side.
    first = np.argmax(mask, axis=1)
    last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
    return np.asarray(tokens[rows, first if pooling == "cls" else last])


def normalized(vectors: np.ndarray, normalize: bool) -> np.ndarray:
    """Return rows scaled to unit norm if ``normalize``, unchanged otherwise."""
    return np.asarray(unit_norm(vectors)) if normalize else vectors
