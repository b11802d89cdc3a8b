"""Which collection is served, which is new and which is old, and the repair of a switch that died in the middle."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from relatent.stores.address import StoreError
from relatent.stores.chroma.connection import Connection
from relatent.stores.locks import busy
from relatent.stores.store import Field

META = "relatent.added"
METRICS = {"cosine": "cosine", "inner": "ip", "l2": "l2"}
# A switch is in the middle for some milliseconds. Who finds it there for so many seconds looks whether it is dead; one
# that lives and takes longer than that is waited for no more.
PATIENCE, LONGEST, PAUSE = 2.0, 60.0, 0.02


@dataclass(frozen=True)
class Added:
    """What a companion records of itself in its metadata. Renaming the collection keeps it."""

    name: str
    """The name of its field."""
    serves: str
    """The name of the collection once it is served."""
    dim: int
    metric: str
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def waiting(self) -> str:
        """The name of the collection while it is new."""
        return f"{self.serves}.{self.name}"

    @property
    def aside(self) -> str:
        """The name of the collection that was served before, while this one is."""
        return f"{self.serves}.old"

    def metadata(self) -> dict[str, Any]:
        """Return what to write into the metadata of the collection."""
        return {META: json.dumps(asdict(self))}

    @staticmethod
    def of(collection: Any) -> Added | None:
        """Read what :meth:`metadata` wrote; None for a collection that we did not add."""
        text = (collection.metadata or {}).get(META)
        return None if text is None else Added(**json.loads(text))


@dataclass(frozen=True)
class Roles:
    """The fields by what they are for, and the collection of each, by name of the field."""

    served: Field
    new: Field | None
    old: Field | None
    collections: Mapping[str, Any]
    added: Added | None
    """What the last companion records: the new field, or the one that was switched to."""


def read_roles(connection: Connection) -> Roles:
    """Find the roles of the collections; wait for a switch that is under way, and undo one that died."""
    name = connection.address.name
    served = _whole(connection, name)
    every = {one.name: one for one in connection.every()}
    records = {at: record for at, one in every.items() if (record := Added.of(one)) is not None}
    new = next((every[at] for at, one in records.items() if one.serves == name and at == one.waiting), None)
    old = every.get(records[name].aside) if name in records else None
    found = [None if one is None else (_field(one, name), one) for one in (served, new, old)]
    fields = [None if pair is None else pair[0] for pair in found]
    collections = {pair[0].name: pair[1] for pair in found if pair is not None}
    assert fields[0] is not None
    added = Added.of(served) if new is None else Added.of(new)
    return Roles(fields[0], fields[1], fields[2], collections, added)


def _whole(connection: Connection, name: str) -> Any:
    """Return the served collection. If it is away for longer than a switch takes, have the old one back."""
    began = time.monotonic()
    while (served := connection.find(name)) is None:
        every = {one.name: one for one in connection.every()}
        if _put_aside(every, name) is None and name not in every:
            raise StoreError(f"{connection.address} is not there: no collection has that name.")
        waited = time.monotonic() - began
        if waited > LONGEST:
            raise busy(connection.address)
        if waited > PATIENCE:
            _undo(connection, name)
        time.sleep(PAUSE)
    return served


def _undo(connection: Connection, name: str) -> None:
    """Have the old collection back, unless a migration is alive: on a busy machine a switch can take long."""
    with suppress(StoreError), connection.lock():
        old = _put_aside({one.name: one for one in connection.every()}, name)
        if old is not None:
            connection.rename(old, name)


def _put_aside(every: Mapping[str, Any], name: str) -> Any | None:
    """Return what was served before, if both it and a companion are there and neither has the served name."""
    records = [record for one in every.values() if (record := Added.of(one)) is not None and record.serves == name]
    aside = (every[one.aside] for one in records if one.aside in every and one.waiting in every)
    return None if name in every else next(aside, None)


def _field(collection: Any, served: str) -> Field:
    """Describe a collection. One that we did not add is the field that was served first, whatever it is called now."""
    record = Added.of(collection)
    if record is not None:
        return Field(record.name, record.dim, "float32", record.metric, record.provenance)
    space = (collection.configuration.get("hnsw") or collection.configuration.get("spann") or {}).get("space", "l2")
    one = collection.get(limit=1, include=["embeddings"])["embeddings"]
    metric = next(metric for metric, known in METRICS.items() if known == space)
    return Field(served, len(one[0]) if len(one) else 0, "float32", metric)
