"""Backfill a store that serves translated vectors: replace them by those that the new model makes of the texts."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from relatent._errors import with_remedy
from relatent._terminal import Result, progress_bar
from relatent.encode import Embedded, Encoder, Texts, texts_of
from relatent.migrate.side import stored_side
from relatent.spaces import Fingerprint, Space, read_space
from relatent.spaces.keys import key_texts
from relatent.stores import Field, StoreError, open_store
from relatent.translate import Translator

# Items whose vectors are embedded and written together.
BLOCK = 2_048


@dataclass(frozen=True)
class BackfillResult(Result):
    """How many items were listed, written, not there any more (``gone``) or without a text (``empty``)."""

    store: str
    field: str
    listed: int
    written: int
    gone: int
    empty: int
    embedded: Embedded

    def __str__(self) -> str:
        left = [f"{count:,} {why}" for count, why in ((self.gone, "are gone"), (self.empty, "have no text")) if count]
        told = f" Of {self.listed:,} listed, {' and '.join(left)}." if left else ""
        field = f"{self.field!r} of {self.store}"
        return f"{self.embedded}\n{self.written:,} vectors of {field} are the new model's own now.{told}"


def run_backfill(
    translator: Translator,
    url: str | os.PathLike[str],
    order: Space,
    encoder: Encoder,
    *,
    text: str | None = None,
    most: int | None = None,
    max_chars: int | None = None,
    cache: str | Path | None = None,
    token_price: float | None = None,
    tell: Callable[[str], None] = lambda about: None,
    progress: bool | None = None,
) -> BackfillResult:
    """Embed the texts of the items that ``order`` lists, at most ``most``, and write their vectors into a store.

    The store serves what ``translator`` has translated into the space of the encoder's model; its old field stays as it
    is. ``order`` is what :func:`relatent.decide.plan_backfill` wrote. Texts are read from the column ``text`` of the
    store. ``tell`` is given what it will take before it begins. With a cache, a run that was killed resumes: run it
    again, and nothing is embedded twice.
    """
    translator.endpoints_.check_model(encoder.fingerprint(translator.endpoints_.target.dim), "target")
    if stored_side(translator).name != "source":
        raise ValueError(
            "This translator maps queries and documents into a shared space, which is not that of the new model: its "
            "vectors cannot stand beside the new model's own."
        )
    listed = order.key_column()
    if listed is None:
        raise ValueError(f"{order.name} has no keys: expected the order that backfill wrote.")
    wanted = key_texts(listed)[:most]
    texts = _texts(read_space(url), wanted, text, max_chars)
    with open_store(url) as store, store.lock():
        parts, served = [], store.served
        _check_served(served, translator, str(store.address))
        tell(texts.about(encoder, cache, token_price))
        with progress_bar(len(texts), "backfill", progress) as advance:
            for block in texts.blocks(BLOCK):
                space, took = block.embed(encoder, cache=cache, token_price=token_price, progress=False)
                translator.endpoints_.check(space, "target", strict=True)
                store.overwrite(block.keys, space.vectors)
                parts.append(took)
                advance(len(block))
        store.build_index(served)  # where it does not take in what is replaced by itself
        store.flush()
        gone = len(wanted) - len(texts) - texts.empty
        embedded = Embedded.total(parts)
        return BackfillResult(str(store.address), served.name, len(wanted), len(texts), gone, texts.empty, embedded)


def _check_served(served: Field, translator: Translator, store: str) -> None:
    """Refuse a store that does not serve what this translator has translated."""
    if not served.provenance.get("translator"):
        error = StoreError(f"{store} serves {served.name!r}, which is not translated.")
        first = "Apply the migration, verify it and cut over first"
        raise with_remedy(
            error, python=f"{first} (relatent.migrate.cut_over).", command=f"{first} (relatent migrate cutover)."
        )
    here = Fingerprint(served.dim, served.provenance.get("model"))
    match = here.matches(replace(translator.endpoints_.target.recorded(), revision=None))
    if not match:
        raise StoreError(
            f"{store} does not serve the space that this translator translates into: {match.reason}. Give the "
            "translator that the store was migrated by."
        )


def _texts(space: Space, wanted: pa.Array, text: str | None, max_chars: int | None) -> Texts:
    """Return the texts of the wanted keys that a space has, in the order wanted."""
    keys = key_texts(space.key_column())
    rows = np.flatnonzero(pc.is_in(keys, value_set=wanted).to_numpy(zero_copy_only=False))
    if not len(rows):
        raise StoreError(f"{space.path or space.name} has none of the {len(wanted):,} items listed: check the order.")
    found = texts_of(space, rows, text, max_chars=max_chars)
    place = pc.index_in(key_texts(found.keys), value_set=wanted).to_numpy(zero_copy_only=False)
    order = np.argsort(place, kind="stable")
    return Texts(
        found.keys.take(pa.array(order)), [found.texts[i] for i in order], found.empty, found.name, found.column
    )
