"""Checksums of rows that add, and do not depend on the order of the rows."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import pyarrow as pa

from relatent._files import FileError, atomic_write, writing
from relatent._saved import load
from relatent.spaces.keys import key_hashes
from relatent.stores import Address, Field, Shard, StoreError
from relatent.stores.locks import file_lock
from relatent.translate import Translator
from relatent.translate.files import check_translator

# The constants of splitmix64.
STEP, FIRST, SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
HASHES, BITS = 2, 64
UNREAD = np.uint64(0x5245_4144)


@dataclass(frozen=True)
class Digest:
    r"""How many rows there are, and the sums of two hashes of each.

    .. math:: s = \sum_i \text{mix}\Big(k_i \oplus \sum_j w_j x_{ij}\Big) \bmod 2^{64}

    where k is the hash of the key, x are the bytes of the vector as 64-bit words, and w odd weights. Digests of chunks
    add up to that of all rows, in whatever order and chunks they were read. A row that is added, deleted, changed or
    there twice changes the sums, but for one chance in :math:`2^{128}`. It is a guard against accidents: someone who
    knows the weights can make two stores with the same digest.

    References: Bellare & Micciancio, 1997 (sums of hashes); Lemire & Kaser, 2014 (multilinear hashes); Steele et al.,
    2014 (splitmix64).

    >>> keys, x = hashed_keys(pa.array(["a", "b"])), np.eye(2, dtype=np.float32)
    >>> Digest.of(keys, x) == Digest.of(keys[1:], x[1:]) + Digest.of(keys[:1], x[:1])
    True
    >>> Digest.of(keys, x) == Digest.of(keys[::-1], x)
    False
    """

    rows: int = 0
    sums: tuple[int, ...] = (0,) * HASHES

    @staticmethod
    def of(keys: np.ndarray, vectors: np.ndarray) -> Digest:
        """Return the digest of rows, from the hashes of their keys (:func:`hashed_keys`)."""
        words = _words(vectors)
        return _summed(keys[:, None] ^ (words @ _weights(words.shape[1])))

    @staticmethod
    def of_keys(keys: np.ndarray) -> Digest:
        """Return the digest of rows whose vectors cannot be read."""
        return _summed(keys[:, None] ^ (UNREAD * _weights(1)))

    def __add__(self, other: Digest) -> Digest:
        """Return the digest of the rows of both."""
        return Digest(
            self.rows + other.rows, tuple((a + b) % 2**BITS for a, b in zip(self.sums, other.sums, strict=True))
        )

    def to_json(self) -> list[Any]:
        """Return plain values: the rows, and the sums in hexadecimal digits."""
        return [self.rows, *(f"{one:016x}" for one in self.sums)]

    @staticmethod
    def from_json(saved: list[Any]) -> Digest:
        """Rebuild from what :meth:`to_json` returned."""
        rows, *sums = saved
        return Digest(int(rows), tuple(int(one, 16) for one in sums))


def hashed_keys(keys: pa.Array) -> np.ndarray:
    """Return a hash of each key of one store, whose keys are all of one kind; integers are hashed all at once."""
    if pa.types.is_integer(keys.type):
        return _mixed(keys.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64))
    return key_hashes(keys)


def _summed(hashes: np.ndarray) -> Digest:
    mixed = _mixed(hashes)
    return Digest(len(mixed), tuple(int(one) for one in mixed.sum(axis=0, dtype=np.uint64)))


def _words(vectors: np.ndarray) -> np.ndarray:
    """Return the bytes of each row as 64-bit numbers, the last one filled up with zeros."""
    rows = np.ascontiguousarray(vectors).view(np.uint8).reshape(len(vectors), -1)
    missing = -rows.shape[1] % 8
    return (np.pad(rows, ((0, 0), (0, missing))) if missing else rows).view(np.uint64)


def _weights(words: int) -> np.ndarray:
    """Return an odd number for each word and each hash: so no change of a single word is lost."""
    return _mixed(np.arange(1, words * HASHES + 1, dtype=np.uint64)).reshape(words, HASHES) | np.uint64(1)


def _mixed(x: np.ndarray) -> np.ndarray:
    """Return splitmix64 of each number: a sum of what comes out tells nothing about a sum of what went in."""
    x = x * STEP
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return np.asarray(x ^ (x >> np.uint64(31)))


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


HOME = ".relatent"
R = TypeVar("R")


def work_of(store: str | os.PathLike[str], folder: str | os.PathLike[str] | None) -> Work:
    """Return the work folder that is named, or else the one of the store."""
    return Work(work_folder(store) if folder is None else Path(folder))


def work_folder(store: str | os.PathLike[str]) -> Path:
    """Return where the work on a store is kept if no folder is named: under the current one, by name and address.

    >>> work_folder("postgresql://ann:secret@db/shop/items") == work_folder("postgresql://ann@db/shop/items")
    True
    """
    address = Address.parse(store)
    name = re.sub(r"[^\w.-]", "_", address.name)[:40]
    return Path(HOME, f"{name}-{hashlib.sha256(str(address).encode()).hexdigest()[:8]}")


@dataclass(frozen=True)
class Work:
    """A folder with the plan, a copy of the translator, a manifest per shard, and what was found when it was verified.

    Every file appears whole or not at all and carries a checksum of itself. File names are made of numbers here and
    never read from a record, so that no record can lead out of the folder.
    """

    folder: Path

    @contextmanager
    def locked(self, store: Address) -> Iterator[None]:
        """Keep other processes out of this folder; the lock dies with the process."""
        path = self.folder / "lock"
        with writing(path):
            self.folder.mkdir(parents=True, exist_ok=True)
        with file_lock(path, store):
            yield

    def is_busy(self, store: str | os.PathLike[str]) -> bool:
        """Return whether a process is at work here."""
        try:
            with self.locked(Address.parse(store)):
                return False
        except StoreError:
            return True

    def plan(self) -> Plan | None:
        """Return the plan, or None where there is none or it is damaged, which is said."""
        return self._read("plan.json", Plan.from_json, "all of the migration starts")

    def required_plan(self, store: str | os.PathLike[str]) -> Plan:
        """Return the plan; say what to do where there is none, or it is that of another store."""
        plan, address = self.plan(), str(Address.parse(store))
        if plan is None:
            raise StoreError(
                f"{self.folder} holds no migration of {address}: run relatent migrate apply first, or say where its "
                "work is kept with --work."
            )
        if plan.store != address:
            raise StoreError(
                f"{self.folder} holds the migration of {plan.store}, not of {address}: give its own folder."
            )
        return plan

    def begin(self, plan: Plan) -> None:
        """Forget what was here, and keep a new plan."""
        self.forget()
        self._write("plan.json", sealed(plan.to_json()).encode())

    def keep_translator(self, path: Path) -> None:
        """Keep a copy of the translator, for the steps after apply."""
        self._write("translator.safetensors", path.read_bytes())

    def forget(self) -> None:
        """Remove the plan first, and then all that belongs to it."""
        for name in ("plan.json", "finished.json", "verified.json"):
            (self.folder / name).unlink(missing_ok=True)
        shutil.rmtree(self.folder / "shards", ignore_errors=True)

    def translator(self, plan: Plan) -> Translator:
        """Return the translator that the plan was made for."""
        path = self.folder / "translator.safetensors"
        if hashlib.sha256(path.read_bytes()).hexdigest() != plan.translator:
            raise FileError(f"{path} is not the translator that this migration began with: give that one.")
        translator = load(path)
        check_translator(translator)
        return translator  # type: ignore[no-any-return]

    def manifest(self, plan: Plan, shard: int) -> Manifest | None:
        """Return the manifest of a shard; None if it is not done, or its manifest is damaged, which is said."""
        found = self._read(_name(shard), Manifest.from_json, f"shard {shard} starts")
        return found if found is not None and (found.migration, found.shard) == (plan.migration, shard) else None

    def manifests(self, plan: Plan) -> list[Manifest | None]:
        """Return the manifest of each shard, None for those that are not done."""
        return [self.manifest(plan, shard) for shard in range(len(plan.shards))]

    def done(self, manifest: Manifest) -> None:
        """Remember that a shard is done. Durable when it returns."""
        self._write(_name(manifest.shard), sealed(manifest.to_json()).encode())

    def undo(self, shard: int) -> None:
        """Forget that a shard was done, before it is written again."""
        (self.folder / _name(shard)).unlink(missing_ok=True)

    def state(self, plan: Plan) -> str | None:
        """Return a hash of all that was written; None as long as a shard is not done.

        What was found out about one state, such as that it is verified, is not believed of another.
        """
        found = self.manifests(plan)
        if any(one is None for one in found):
            return None
        texts = (sealed(one.to_json()) for one in found if one is not None)
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()

    def note(self, what: str, about: Mapping[str, Any], plan: Plan) -> None:
        """Remember something about the present state: "finished" or "verified"."""
        self._write(f"{what}.json", sealed({"state": self.state(plan), **about}).encode())

    def noted(self, what: str, plan: Plan) -> dict[str, Any] | None:
        """Return what :meth:`note` remembered, if the state is still the same."""
        saved, state = self._read(f"{what}.json", dict, f"what was {what} starts"), self.state(plan)
        return saved if saved is not None and state is not None and saved.pop("state") == state else None

    def _write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as aside:
            aside.write_bytes(content)

    def _read(self, name: str, parse: Callable[[dict[str, Any]], R], what_starts: str) -> R | None:
        path = self.folder / name
        try:
            return parse(unsealed(path.read_text(encoding="utf8")))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            warnings.warn(f"{path} is damaged: {error}. So {what_starts} afresh.", stacklevel=4)
            return None


def _name(shard: int) -> str:
    return f"shards/{shard:06d}.json"
