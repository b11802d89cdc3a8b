"""Texts of a space's items, and their vectors by a new model: the pairs that a translator is fitted on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._errors import with_remedy
from relatent._files import FileError
from relatent._lazy import LazyModule
from relatent._terminal import Result, duration
from relatent.encode.encoder import Encoder, Usage, VectorCache, encode
from relatent.encode.items import text_column
from relatent.spaces.keys import key_hashes, key_values
from relatent.spaces.sample import hashed
from relatent.spaces.space import Space

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = LazyModule("pyarrow")

# Items that a closed-form map learns most of what it can from.
PAIRS = 2_000
# Texts that are embedded before their vectors are kept: a few requests at a time.
BATCH = 256
# Characters of a token, in English.
PER_TOKEN = 4
# Texts that are looked up at a time, whose vectors are in memory meanwhile.
LOOKED_UP = 10_000
# Texts that tell how fast a model embeds.
MEASURED = 100


@dataclass(frozen=True)
class Embedded(Result):
    """What embedding some texts took.

    ``embedded`` of the ``texts`` were not in the cache, and took ``seconds`` and ``tokens``, which are None where the
    model does not report them. ``price`` is what these cost; None where the price of a token is not known.
    ``rows_per_second`` and ``price_per_million`` rows are those of all that is in the cache: what embedding more takes.
    """

    model: str
    dim: int
    texts: int
    embedded: int
    seconds: float
    tokens: int | None
    price: float | None
    rows_per_second: float | None = None
    price_per_million: float | None = None

    def __str__(self) -> str:
        known = self.texts - self.embedded
        cached = f", {f'{known:,}' if self.embedded else 'all'} of them from the cache" if known else ""
        took = f" in {duration(self.seconds)}" if self.embedded else ""
        tokens = "" if self.tokens is None or not self.embedded else f": {self.tokens:,} tokens"
        price = "" if self.price is None or not self.embedded else f" at a price of {self.price:.2g}"
        return f"Embedded {self.texts:,} texts with {self.model}@{self.dim}{cached}{took}{tokens}{price}."

    @classmethod
    def total(cls, parts: Sequence[Embedded]) -> Embedded:
        """Return what several parts took together."""
        tokens, prices = [p.tokens for p in parts], [p.price for p in parts]
        return replace(
            parts[-1],
            texts=sum(p.texts for p in parts),
            embedded=sum(p.embedded for p in parts),
            seconds=sum(p.seconds for p in parts),
            tokens=None if None in tokens else sum(t or 0 for t in tokens),
            price=None if None in prices else sum(p or 0 for p in prices),
        )

    @classmethod
    def of(cls, space: Space, now: Usage, ever: Usage, token_price: float | None) -> Embedded:
        """Return what making a space took now, where it took so much ever."""
        each = None if token_price is None else token_price / 1e6
        known = {"tokens": now.tokens if now.tokens or not now.items else None}
        price = None if each is None or known["tokens"] is None else now.tokens * each
        speed = ever.items / ever.seconds if ever.items >= MEASURED and ever.seconds else None
        per_million = 1e6 * each * ever.tokens / ever.items if each is not None and ever.tokens else None
        model = space.fingerprint.model or space.name
        return cls(model.removesuffix(f"@{space.dim}"), space.dim, len(space), now.items, now.seconds, **known,
                   price=price, rows_per_second=speed, price_per_million=per_million)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts with the keys of their items; items without a text are left out, and only counted (``empty``)."""

    keys: pa.Array
    texts: Sequence[str]
    empty: int = 0
    name: str = ""
    column: str = ""

    def __len__(self) -> int:
        return len(self.texts)

    def about(self, encoder: Encoder, cache: str | Path | None = None, token_price: float | None = None) -> str:
        """Return what embedding them will take, in a sentence. A token is estimated to be four characters."""
        new = self._new(encoder, cache)
        tokens = sum(map(len, new)) // PER_TOKEN
        cached = f" ({len(self) - len(new):,} of them are in the cache)" if len(new) < len(self) else ""
        empty = f" Left out, because they have no text: {self.empty:,}." if self.empty else ""
        price = f" at a price of {tokens * token_price / 1e6:.2g}" if token_price is not None else ""
        needed = f": about {tokens:,} tokens{price}" if new else ""
        of = f" of column {self.column!r}" if self.column else ""
        return f"{len(self):,} texts{of} to embed with {encoder.model}{cached}{needed}.{empty}"

    def _new(self, encoder: Encoder, cache: str | Path | None) -> list[str]:
        """Return the texts that are not in the cache, each once."""
        distinct = list(dict.fromkeys(self.texts))
        if cache is None:
            return distinct
        with VectorCache(Path(cache), encoder.fingerprint(0), encoder.kind) as kept:
            return [
                text
                for at in range(0, len(distinct), LOOKED_UP)
                for text in _unknown(kept, distinct[at : at + LOOKED_UP])
            ]

    def blocks(self, size: int) -> Iterator[Texts]:
        """Cut them into blocks."""
        for start in range(0, len(self), size):
            yield Texts(self.keys[start : start + size], self.texts[start : start + size], name=self.name)

    def embed(
        self,
        encoder: Encoder,
        *,
        cache: str | Path | None = None,
        token_price: float | None = None,
        progress: bool | None = None,
    ) -> tuple[Space, Embedded]:
        """Return their vectors as a space of the same keys, and what that took."""
        before = replace(encoder.usage)
        options: dict[str, Any] = {"batch_size": BATCH, "cache": cache, "progress": progress}
        space = encode(self.texts, encoder, keys=self.keys, **options)
        now = ever = encoder.usage - before
        if cache is not None:
            with VectorCache(Path(cache), encoder.fingerprint(0), encoder.kind) as kept:
                ever = kept.used()
        return space, Embedded.of(space, now, ever, token_price)


def _unknown(cache: VectorCache, texts: Sequence[str]) -> list[str]:
    """Return the texts that are not in the cache."""
    digests = [cache.digest(text) for text in texts]
    known = cache.look_up(digests)
    return [text for text, digest in zip(texts, digests, strict=True) if digest not in known]


def sample_texts(
    space: Space,
    column: str | None = None,
    n: int = PAIRS,
    *,
    max_chars: int | None = None,
) -> Texts:
    """Return the texts of at most n items of a space: those of the smallest hashes of their keys.

    So every run takes the same items, however the rows are ordered, and most of them again when the space has grown.
    ``column`` is that of the texts, by default one that is named as such columns are. ``max_chars`` cuts longer texts.

    >>> space = Space(np.ones((3, 2)), ["a", "b", "c"], others={"text": ["one", "", "three"]})
    >>> found = sample_texts(space)
    >>> sorted(found.texts), found.empty
    (['one', 'three'], 1)
    """
    if n < 2:
        raise ValueError(f"{n} pairs were asked for: expected at least 2, such as {PAIRS:,}.")
    hashes = key_hashes(_keys(space))
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    rows = first[counts == 1]  # a key of several rows tells none of them apart
    order = np.argsort(hashed(hashes[rows], seed=0), kind="stable")
    return texts_of(space, np.sort(rows[order[:n]]), column, max_chars=max_chars)


def texts_of(space: Space, rows: np.ndarray, column: str | None = None, *, max_chars: int | None = None) -> Texts:
    """Return the texts of some rows of a space, ascending, without holding the others."""
    name, inner = _column(space, column)
    keys, texts = [pa.array([], key_values(_keys(space)[:0]).type)], []
    for chunk, places in _places(space, rows):
        found = chunk.others.column(name).take(pa.array(places)).to_pylist()
        found = [_inside(value, inner) for value in found] if inner else found
        held = [row for row, text in enumerate(found) if text is not None and text.strip()]
        keys.append(key_values(chunk.keys.take(pa.array(places[held], pa.int64()))))
        texts += [found[row][:max_chars] for row in held]
    if not texts:
        raise FileError(
            f"None of {len(rows):,} items has a text in column {column or name!r}: name the column of the texts."
        )
    return Texts(pa.concat_arrays(keys), texts, len(rows) - len(texts), space.name, column or name)


def _places(space: Space, rows: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
    """Return each chunk that holds some of the rows, with their places in it."""
    within = (int(rows[0]), int(rows[-1]) + 1) if len(rows) else (0, 0)
    for chunk in space.chunks(within=within) if len(rows) else ():
        low, high = np.searchsorted(rows, [chunk.start, chunk.start + len(chunk)])
        if low < high:
            yield chunk, rows[low:high] - chunk.start


def _keys(space: Space) -> Any:
    keys = space.key_column()
    if keys is None:
        words = "Its vectors are joined on keys with those that are made now: name the key column with {}."
        error = ValueError(f"{space.name or 'The space'} has no keys.")
        raise with_remedy(error, python=words.format("key="), command=words.format("--key"))
    return keys


def _column(space: Space, given: str | None) -> tuple[str, list[str]]:
    """Return the column of the texts, and the keys that lead to them where it holds JSON (``payload.data``)."""
    names, inner = space.schema.names, []
    if given is not None and given not in names and given.partition(".")[0] in names:
        given, *inner = given.split(".")
    name = text_column(space.path or space.name or "the space", names, given)
    kind = space.schema.field(name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
        raise FileError(f"Column {name!r} of {space.name} holds {kind}: expected texts. Name another column.")
    return name, inner


def _inside(value: str | None, keys: list[str]) -> str | None:
    """Return the text that keys lead to in JSON; None where there is none.

    >>> _inside('{"data": {"body": "a note"}}', ["data", "body"]), _inside("no JSON", ["data"])
    ('a note', None)
    """
    try:
        found = None if value is None else json.loads(value)
    except ValueError:
        return None
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, str) else None
