"""What a migration remembers: the plan it follows, and a manifest of each shard that is done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from relatent._atomic import FileError
from relatent.deliver.migration.digest import Digest
from relatent.stores import Field, Shard

__all__ = ["Manifest", "Plan", "sealed", "unsealed"]


@dataclass(frozen=True)
class Plan:
    """What is moved where. Written once, before the first row; every later run follows it.

    ``migration`` is a random name that every manifest repeats: one of an earlier plan is not believed.
    """

    migration: str
    store: str
    """Its address, without a password."""
    translator: str
    """The SHA-256 of the translator's file."""
    side: str
    """Which of the translator's two spaces the stored vectors are of: source or target."""
    served: Field
    field: Field
    shards: tuple[Shard, ...]
    chunk_rows: int | None
    """Rows to read at a time; None: as the store likes it."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        bounds = [[_plain_key(shard.low), _plain_key(shard.high)] for shard in self.shards]
        plain = {name: getattr(self, name) for name in ("migration", "store", "translator", "side", "chunk_rows")}
        return plain | {"served": _plain_field(self.served), "field": _plain_field(self.field), "shards": bounds}

    @staticmethod
    def from_json(saved: Mapping[str, Any]) -> Plan:
        """Rebuild from what :meth:`to_json` returned."""
        shards = tuple(Shard(_key(low), _key(high)) for low, high in saved["shards"])
        fields = {name: Field(**saved[name]) for name in ("served", "field")}
        return Plan(**{**saved, **fields, "shards": shards})


@dataclass(frozen=True)
class Manifest:
    """A shard that is done: what was read of the source, what was written, and the rows that were left out."""

    migration: str
    shard: int
    read: Digest
    written: Digest
    skipped: int = 0
    reasons: tuple[str, ...] = ()
    """Key and reason of the first rows that were left out."""
    state: str | None = None
    """What the store said of the shard before it was read, if it can tell without reading it (``Store.state``)."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"read": self.read.to_json(), "written": self.written.to_json()}

    @staticmethod
    def from_json(saved: Mapping[str, Any]) -> Manifest:
        """Rebuild from what :meth:`to_json` returned."""
        digests = {name: Digest.from_json(saved[name]) for name in ("read", "written")}
        return Manifest(**{**saved, **digests, "reasons": tuple(saved["reasons"])})


def sealed(record: Mapping[str, Any]) -> str:
    """Return a record as JSON with a checksum of itself."""
    return json.dumps({"sha256": _checksum(record), **record}, ensure_ascii=False, indent=1)


def unsealed(text: str) -> dict[str, Any]:
    """Return the record that :func:`sealed` wrote; raise :class:`FileError` if a bit of it has changed.

    >>> unsealed(sealed({"rows": 3}))
    {'rows': 3}
    """
    try:
        record = dict(json.loads(text))
        checksum = record.pop("sha256")
    except (ValueError, TypeError, KeyError) as error:
        raise FileError(f"it is no record of a migration ({error})") from error
    if checksum != _checksum(record):
        raise FileError("its checksum does not match")
    return record


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _plain_field(field: Field) -> dict[str, Any]:
    return asdict(field) | {"provenance": dict(field.provenance)}


def _plain_key(key: Any) -> Any:
    """Return a key that bounds a shard as JSON can hold it, so that :func:`_key` returns the same."""
    if key is None or isinstance(key, str | int):
        return key
    if isinstance(key, UUID):
        return {"uuid": str(key)}
    if isinstance(key, bytes):
        return {"bytes": key.hex()}
    raise ValueError(f"A key is {key!r}, a {type(key).__name__}: expected integers, text, UUIDs or bytes as keys.")


def _key(saved: Any) -> Any:
    if not isinstance(saved, dict):
        return saved
    (kind, value), *_ = saved.items()
    return UUID(value) if kind == "uuid" else bytes.fromhex(value)
