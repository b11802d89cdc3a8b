"""Encoders: what turns items into vectors, with a record of how; and the loop that runs them in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from relatent._array import to_numpy
from relatent._terminal import progress_bar
from relatent.encode.cache import VectorCache
from relatent.spaces import Fingerprint, Space

__all__ = ["Encoder", "encode", "function"]

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
