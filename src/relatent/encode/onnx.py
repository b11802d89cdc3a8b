"""ONNX text encoders (extra: onnx): a model file with a tokenizer.json, no torch needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._atomic import FileError
from relatent._extras import needs
from relatent._remedy import with_remedy
from relatent.encode.encoder import Encoder
from relatent.encode.local import check_pooling, model_name, normalized, pooled, revision_of

__all__ = ["onnx_text"]


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

    An output of shape (n, tokens, d) is pooled; one of shape (n, d) is taken as it is. The first output is used
    unless one is named. The fastest execution provider that is there is used.
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
    how = "l2" if normalize else "none"
    return Encoder(run, called, revision_of(path, None), pooling, how, kind="text")


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
