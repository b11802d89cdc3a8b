"""Where a model runs and which one it is: the best device at hand, the revision of a folder, pooling of tokens."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

import numpy as np

from relatent._array import suggest
from relatent._linalg import unit_norm

__all__ = ["POOLINGS", "Pooling", "best_device", "check_pooling", "model_name", "normalized", "pooled", "revision_of"]

Pooling = Literal["mean", "cls", "max", "last"]
POOLINGS = ("mean", "cls", "max", "last")
WEIGHTS = (".safetensors", ".bin", ".onnx", ".pt", ".pth")


def best_device(device: str | None = None) -> str:
    """Return the device asked for, else the fastest that is there."""
    if device is not None:
        return device
    import torch

    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def model_name(source: str | Path, name: str | None) -> str:
    """Return the name to record: the one given, else that of the folder or of the model on a hub."""
    if name is not None:
        return name
    path = Path(source)
    return path.resolve().name if path.exists() else str(source)


def revision_of(source: str | Path, given: str | None, loaded: Any = None) -> str | None:
    """Return what tells two versions apart: the revision given, the hub's commit, or a digest of local weights."""
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
    """Refuse a pooling that does not exist."""
    if pooling not in POOLINGS:
        raise ValueError(f"There is no pooling {pooling!r}.{suggest(pooling, POOLINGS)}")


def pooled(tokens: np.ndarray, mask: np.ndarray | None, pooling: str) -> np.ndarray:
    """Make one vector of the vectors of tokens, (n, tokens, d), passing over padding.

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
    # The first and the last token that is not padding, on whichever side the padding is.
    first = np.argmax(mask, axis=1)
    last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
    return np.asarray(tokens[rows, first if pooling == "cls" else last])


def normalized(vectors: np.ndarray, normalize: bool) -> np.ndarray:
    """Return unit rows if asked."""
    return np.asarray(unit_norm(vectors)) if normalize else vectors
