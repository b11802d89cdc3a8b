"""Encoders turn items into vectors and record how; :func:`encode` runs them in batches, with a cache on disk."""

from __future__ import annotations

import hashlib
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from relatent._array import to_numpy
from relatent._files import FileError
from relatent._terminal import progress_bar
from relatent.spaces import Fingerprint, Space

Kind = Literal["text", "image", "any"]
# SQLite takes at most 999 parameters in one statement.
MAX_PARAMETERS = 500
BUSY = (OSError, "another run uses it. Wait until that run ends, or choose another cache folder")
READ_ONLY = (PermissionError, "it cannot be written. Change its permissions, or choose another cache folder")
FULL = (OSError, "the disk is full, and what was encoded so far is kept. Free some space and run again")
DAMAGED = (FileError, "it is damaged or not a cache of vectors. Delete it, and its items are encoded again")
REMEDIES: dict[int | None, tuple[type[Exception], str]] = {
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_CANTOPEN: READ_ONLY,
    sqlite3.SQLITE_PERM: READ_ONLY,
}


@dataclass
class Usage:
    """What an encoder has encoded so far: items, the seconds that took, and the tokens that were counted for them.

    >>> Usage(3, 1.0, 12) - Usage(1, 0.5, 4)
    Usage(items=2, seconds=0.5, tokens=8)
    """

    items: int = 0
    seconds: float = 0.0
    tokens: int = 0

    def __sub__(self, before: Usage) -> Usage:
        return Usage(self.items - before.items, self.seconds - before.seconds, self.tokens - before.tokens)


@dataclass(frozen=True)
class Encoder:
    """A model that encodes batches of items, and what is recorded about it. Call it on one batch."""

    run: Callable[[Sequence[Any]], Any]
    model: str | None = None
    revision: str | None = None
    pooling: str | None = None
    normalization: str | None = None
    layer: int | None = None
    kind: Kind = "any"
    usage: Usage = field(default_factory=Usage, compare=False)

    def __call__(self, batch: Sequence[Any]) -> np.ndarray:
        """Encode one batch into one vector per item: finite, float32 or float64."""
        began = time.perf_counter()
        out = to_numpy(self.run(batch))
        self.usage.items += len(batch)
        self.usage.seconds += time.perf_counter() - began
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

    def prefixed(self, prefix: str) -> Encoder:
        """Return an encoder that puts a prefix in front of every text. It is recorded: other vectors come of it.

        >>> lengths = function(lambda texts: [[len(text)] for text in texts], model="lengths")
        >>> lengths(["a"]).tolist(), lengths.prefixed("query: ")(["a"]).tolist()
        ([[1.0]], [[8.0]])
        """
        if not prefix:
            return self
        run, noted = self.run, f"prefix {prefix!r}"
        revision = noted if self.revision is None else f"{self.revision}, {noted}"
        return replace(self, run=lambda texts: run([prefix + text for text in texts]), revision=revision)

    def fingerprint(self, dim: int) -> Fingerprint:
        """Return the fingerprint recorded with the vectors of this encoder."""
        return Fingerprint(dim, self.model, self.revision, self.pooling, self.normalization, self.layer)


def function(run: Callable[[Sequence[Any]], Any], model: str | None = None, **recorded: Any) -> Encoder:
    """Make an encoder from any callable that takes a list of items and returns one vector per item.

    Name the model, so that its vectors are never mixed with those of another; a cache requires the name. ``revision``,
    ``pooling``, ``normalization``, ``layer`` and ``kind`` are recorded too.

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
    """Encode texts, images or any other items of the encoder into a space.

    With ``cache``, a folder, every vector is kept on disk under the content of its item and the fingerprint of the
    encoder: an interrupted run resumes where it stopped, and no item is encoded twice. ``progress=None`` shows a
    progress bar on a terminal only.

    >>> space = encode(["a", "bcd"], lambda texts: [[len(t), 1.0] for t in texts], keys=["x", "y"])
    >>> space.vectors.tolist(), space.keys.tolist()
    ([[1.0, 1.0], [3.0, 1.0]], ['x', 'y'])
    """
    items = _checked(items, keys, batch_size)
    encoder = encoder if isinstance(encoder, Encoder) else function(encoder)
    with progress_bar(len(items), name or encoder.model or "encoding", progress) as advance:
        if cache is None:
            vectors = np.concatenate(list(_batches(encoder, items, batch_size, advance)))
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
        raise ValueError(f"{len(keys)} keys were given for {len(items)} items: expected one key per item.")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}: expected at least 1.")
    return items


def _batches(encoder: Encoder, items: Sequence[Any], size: int, advance: Callable[[int], None]) -> Iterator[np.ndarray]:
    for start in range(0, len(items), size):
        batch = items[start : start + size]
        yield encoder(batch)
        advance(len(batch))


def _cached(encoder: Encoder, items: list[Any], size: int, folder: Path, advance: Callable[[int], None]) -> np.ndarray:
    """Look up known items, encode each of the others once, and keep every batch as soon as it is done."""
    with VectorCache(folder, encoder.fingerprint(0), encoder.kind) as cache:
        digests = [cache.digest(item) for item in items]
        known = cache.look_up(digests)
        new = {digest: item for digest, item in zip(digests, items, strict=True) if digest not in known}
        advance(len(items) - len(new))
        names, used = iter(new), replace(encoder.usage)
        for vectors in _batches(encoder, list(new.values()), size, advance):
            _check_width(encoder, cache.path, vectors, known)
            fresh = {next(names): vector for vector in vectors}
            cache.keep(fresh, encoder.usage - used)
            used = replace(encoder.usage)
            known |= fresh
    return np.stack([known[digest] for digest in digests])


def _check_width(encoder: Encoder, path: Path, vectors: np.ndarray, known: dict[bytes, np.ndarray]) -> None:
    """Refuse a model whose vectors have another width than those in the cache: it is not the same model any more."""
    former = next(iter(known.values()), vectors[0])
    if former.shape != vectors.shape[1:]:
        raise ValueError(
            f"{encoder.model} returns {vectors.shape[1]} coordinates, and its vectors in {path} have {len(former)}: "
            "another model goes by its name. Delete that file, or choose another cache folder."
        )


class VectorCache:
    """One SQLite file per encoder. Each batch is committed on its own, so an interruption loses one batch at most.

    Each row has a checksum of its item and vector. A row that does not match is ignored, and its item encoded again.
    """

    def __init__(self, folder: Path, fingerprint: Fingerprint, kind: str) -> None:
        if fingerprint.model is None:
            raise ValueError("The encoder has no name, so a cache could mix it with others: give it one with model=…")
        folder.mkdir(parents=True, exist_ok=True)
        self._kind = kind
        self.path = folder / f"{fingerprint.id}.sqlite"
        self._base = sqlite3.connect(self.path)
        try:
            self._begin(fingerprint.to_json())
        except BaseException:
            self._base.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()

    def digest(self, item: Any) -> bytes:
        """Return the digest of an item's content, under which its vector is kept."""
        return hashlib.blake2b(_content(item, self._kind), digest_size=16).digest()

    def look_up(self, digests: Sequence[bytes]) -> dict[bytes, np.ndarray]:
        """Return the vectors in the cache, by digest."""
        wanted = list(dict.fromkeys(digests))
        found: dict[bytes, np.ndarray] = {}
        for start in range(0, len(wanted), MAX_PARAMETERS):
            some = wanted[start : start + MAX_PARAMETERS]
            marks = ",".join("?" * len(some))
            with self._explained():
                rows = self._base.execute(f"SELECT * FROM checked WHERE item IN ({marks})", some).fetchall()
            found |= {row[0]: np.frombuffer(row[2], row[1]) for row in rows if _is_whole(*row)}
        return found

    def keep(self, vectors: dict[bytes, np.ndarray], used: Usage | None = None) -> None:
        """Keep the vectors of a batch, and what they took."""
        rows = [(item, vector.dtype.str, vector.tobytes()) for item, vector in vectors.items()]
        with self._explained(), self._base:
            self._base.executemany(
                "INSERT OR REPLACE INTO checked VALUES (?, ?, ?, ?)", [(*row, _checksum(*row)) for row in rows]
            )
            if used is not None:
                self._base.execute("INSERT INTO used VALUES (?, ?, ?)", (used.items, used.seconds, used.tokens))

    def used(self) -> Usage:
        """Return what all that is kept took, in all runs."""
        with self._explained():
            found = self._base.execute("SELECT sum(items), sum(seconds), sum(tokens) FROM used").fetchone()
        return Usage(*(value or 0 for value in found))

    def _begin(self, about: str) -> None:
        with self._explained(), self._base:
            self._base.execute("CREATE TABLE IF NOT EXISTS about (fingerprint TEXT)")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS checked (item BLOB PRIMARY KEY, dtype TEXT, vector BLOB, crc32 INTEGER)"
            )
            self._base.execute("CREATE TABLE IF NOT EXISTS used (items INTEGER, seconds REAL, tokens INTEGER)")
            if self._base.execute("SELECT count(*) FROM about").fetchone() == (0,):
                self._base.execute("INSERT INTO about VALUES (?)", (about,))
            if self._base.execute("SELECT fingerprint FROM about").fetchone() != (about,):
                raise sqlite3.DatabaseError("it was written by another encoder than its name says")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Explain why the cache cannot be used; only a damaged one should be deleted."""
        try:
            yield
        except sqlite3.Error as error:
            kind, remedy = REMEDIES.get(getattr(error, "sqlite_errorcode", None), DAMAGED)
            raise kind(f"{self.path} cannot be used ({error}): {remedy}.") from error


def _is_whole(item: Any, dtype: Any, vector: Any, crc32: Any) -> bool:
    """Return whether a row has the types that were written, and its checksum."""
    typed = isinstance(item, bytes) and isinstance(dtype, str) and isinstance(vector, bytes)
    return typed and crc32 == _checksum(item, dtype, vector)


def _checksum(item: bytes, dtype: str, vector: bytes) -> int:
    """Return the CRC-32 of a row."""
    return zlib.crc32(vector, zlib.crc32(dtype.encode(errors="replace"), zlib.crc32(item)))


def _content(item: Any, kind: str) -> bytes:
    """Return the bytes that identify an item; for the path of an image, those of the file.

    >>> _content("a", "text") != _content("b", "text")
    True
    """
    if isinstance(item, Path) or (isinstance(item, str) and kind == "image"):
        return b"file:" + Path(item).read_bytes()
    if isinstance(item, str):
        return b"text:" + item.encode()
    if isinstance(item, bytes):
        return b"bytes:" + item
    if hasattr(item, "tobytes") and hasattr(item, "mode"):  # a PIL image
        return f"image:{item.mode}{item.size}".encode() + bytes(item.tobytes())
    if isinstance(item, np.ndarray):
        return f"array:{item.dtype.str}{item.shape}".encode() + item.tobytes()
    raise TypeError(
        f"An item of type {type(item).__name__} has no content to cache its vector by: expected text, bytes, a path, "
        "an image or an array. Encode without a cache."
    )
