"""Encoders: what turns items into vectors, with a record of how; and the loop that runs them in batches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from relatent._array import suggest, to_numpy
from relatent._linalg import unit_norm
from relatent._terminal import progress_bar
from relatent.encode.cache import VectorCache
from relatent.spaces import Fingerprint, Space

Kind = Literal["text", "image", "any"]


@dataclass(frozen=True)
class Encoder:
    """A model ready to run on a batch of items, and what is to be recorded of it. Call it for one batch."""

    run: Callable[[Sequence[Any]], Any]
    model: str | None = None
    revision: str | None = None
    pooling: str | None = None
    normalization: str | None = None
    layer: int | None = None
    kind: Kind = "any"

    def __call__(self, batch: Sequence[Any]) -> np.ndarray:
        """Encode one batch: as many vectors as items, finite, float32 or float64."""
        out = to_numpy(self.run(batch))
        if out.ndim != 2 or len(out) != len(batch):
            raise ValueError(
                f"{self.model or 'The encoder'} returned an array of shape {out.shape} for {len(batch)} items: "
                "expected one vector per item."
            )
        out = out if out.dtype in (np.float32, np.float64) else out.astype(np.float32)
        finite = np.isfinite(out).all(axis=1)
        if not finite.all():
            bad = batch[int(np.argmin(finite))]
            raise ValueError(f"{self.model or 'The encoder'} returned NaN or infinity for {str(bad)[:80]!r}.")
        return out

    def fingerprint(self, dim: int) -> Fingerprint:
        """Return what is recorded of vectors that this encoder makes."""
        return Fingerprint(dim, self.model, self.revision, self.pooling, self.normalization, self.layer)


def function(run: Callable[[Sequence[Any]], Any], model: str | None = None, **recorded: Any) -> Encoder:
    """Make an encoder of any callable that takes a list of items and returns an array of as many vectors.

    Name the model, so that its vectors are never mixed with those of another; a cache needs the name too. Further
    names to record: ``revision``, ``pooling``, ``normalization``, ``layer``, ``kind``.

    >>> lengths = function(lambda texts: [[len(text), 1.0] for text in texts], model="lengths")
    >>> lengths(["a", "bcd"]).tolist()
    [[1.0, 1.0], [3.0, 1.0]]
    """
    return Encoder(run, model, **recorded)


def encode(
    items: Sequence[Any],
    encoder: Encoder | Callable[[Sequence[Any]], Any],
    *,
    keys: Sequence[Any] | None = None,
    name: str = "",
    batch_size: int = 64,
    cache: str | Path | None = None,
    progress: bool | None = None,
) -> Space:
    """Encode texts, images or whatever the encoder takes into a space.

    With ``cache``, a folder, every vector is kept on disk under the content of its item and the fingerprint of the
    encoder: what was interrupted goes on where it stopped, and what was encoded before is not encoded again. The
    progress bar shows on a terminal unless told otherwise.

    >>> space = encode(["a", "bcd"], lambda texts: [[len(t), 1.0] for t in texts], keys=["x", "y"])
    >>> space.vectors.tolist(), space.keys.tolist()
    ([[1.0, 1.0], [3.0, 1.0]], ['x', 'y'])
    """
    items = _checked(items, keys, batch_size)
    encoder = encoder if isinstance(encoder, Encoder) else function(encoder)
    with progress_bar(len(items), name or encoder.model or "encoding", progress) as advance:
        if cache is None:
            parts = list(_batches(encoder, items, batch_size, advance))
            vectors = np.concatenate(parts)
        else:
            vectors = _cached(encoder, items, batch_size, Path(cache), advance)
    recorded = encoder.fingerprint(vectors.shape[1])
    probe = Fingerprint.of(vectors).probe
    return Space(vectors, keys, name or encoder.model or "", replace(recorded, probe=probe))


def _checked(items: Sequence[Any], keys: Sequence[Any] | None, batch_size: int) -> list[Any]:
    if isinstance(items, str | bytes):
        raise TypeError(f"items is one string, {items[:40]!r}: expected a list of items. Write [text] for one text.")
    items = list(items)
    if not items:
        raise ValueError("There are no items to encode: give at least one.")
    if keys is not None and len(keys) != len(items):
        raise ValueError(f"{len(keys)} keys were given for {len(items)} items: expected one each.")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}: expected at least 1.")
    return items


def _batches(encoder: Encoder, items: Sequence[Any], size: int, advance: Callable[[int], None]) -> Iterator[np.ndarray]:
    for start in range(0, len(items), size):
        batch = items[start : start + size]
        yield encoder(batch)
        advance(len(batch))


def _cached(encoder: Encoder, items: list[Any], size: int, folder: Path, advance: Callable[[int], None]) -> np.ndarray:
    """Look up what is known, encode the rest once each, and keep every batch as soon as it is done."""
    with VectorCache(folder, encoder.fingerprint(0), encoder.kind) as cache:
        digests = [cache.digest(item) for item in items]
        known = cache.look_up(digests)
        new = {digest: item for digest, item in zip(digests, items, strict=True) if digest not in known}
        advance(len(items) - len(new))
        names = list(new)
        done = 0
        for vectors in _batches(encoder, list(new.values()), size, advance):
            fresh = dict(zip(names[done : done + len(vectors)], vectors, strict=True))
            cache.keep(fresh)
            known |= fresh
            done += len(vectors)
    return np.stack([known[digest] for digest in digests])


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
