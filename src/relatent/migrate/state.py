"""The state of a migration on disk: its plan, and for each finished shard a manifest with checksums of its rows."""

from __future__ import annotations

import hashlib
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

from relatent._errors import with_remedy
from relatent._files import FileError, Records, dump_checked, writing
from relatent._saved import load
from relatent._terminal import Result
from relatent.spaces.keys import key_hashes
from relatent.spaces.sample import STEP, splitmix64
from relatent.stores import Address, Field, Shard, Store, StoreError, open_store
from relatent.stores.fields import lock_file, plain_field
from relatent.translate import Translator
from relatent.translate.files import check_translator

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
    """Return a hash of each number: a sum of hashes tells nothing about the sum of the numbers."""
    return splitmix64(x * STEP)


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
        return plain | {"served": plain_field(self.served), "field": plain_field(self.field), "shards": bounds}

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


class Work(Records):
    """A folder with the plan, a copy of the translator, a manifest per shard, and the result of verifying it."""

    @contextmanager
    def locked(self, store: Address) -> Iterator[None]:
        """Keep other processes out of this folder; the lock dies with the process."""
        path = self.folder / "lock"
        with writing(path):
            self.folder.mkdir(parents=True, exist_ok=True)
        with lock_file(path, store):
            yield

    def is_busy(self, store: str | os.PathLike[str]) -> bool:
        """Return whether a process is at work here."""
        try:
            with self.locked(Address.parse(store)):
                return False
        except StoreError:
            return True

    def plan(self) -> Plan | None:
        """Return the plan; None if there is none, or, with a warning, if it is damaged."""
        return self._read("plan.json", Plan.from_json, "the whole migration")

    def required_plan(self, store: str | os.PathLike[str]) -> Plan:
        """Return the plan; refuse a folder that has none, or that of another store."""
        plan, address = self.plan(), str(Address.parse(store))
        if plan is None:
            words = "{} first, or give the folder of its work with {}."
            raise with_remedy(
                StoreError(f"{self.folder} holds no migration of {address}:"),
                python=words.format("call apply_migration", "work="),
                command=words.format("run relatent migrate apply", "--work"),
            )
        if plan.store != address:
            raise StoreError(
                f"{self.folder} holds the migration of {plan.store}, not of {address}: give its own folder."
            )
        return plan

    def begin(self, plan: Plan) -> None:
        """Remove an earlier migration, and write a new plan."""
        self.forget()
        self.write("plan.json", plan.to_json())

    def keep_translator(self, path: Path) -> None:
        """Keep a copy of the translator, for the steps after apply."""
        self.write_bytes("translator.safetensors", path.read_bytes())

    def forget(self) -> None:
        """Remove the plan first, and then all that belongs to it."""
        self.remove("plan.json", "finished.json", "verified.json")
        shutil.rmtree(self.folder / "shards", ignore_errors=True)

    def translator(self, plan: Plan) -> Translator:
        """Return the translator that the plan was made for."""
        path = self.folder / "translator.safetensors"
        if hashlib.sha256(path.read_bytes()).hexdigest() != plan.translator:
            raise FileError(f"{path} is not the translator of this migration: apply it again with that one.")
        translator = load(path)
        check_translator(translator)
        return translator  # type: ignore[no-any-return]

    def manifest(self, plan: Plan, shard: int) -> Manifest | None:
        """Return the manifest of a shard; None if it is not finished, or, with a warning, if it is damaged."""
        found = self._read(_name(shard), Manifest.from_json, f"shard {shard}")
        return found if found is not None and (found.migration, found.shard) == (plan.migration, shard) else None

    def manifests(self, plan: Plan) -> list[Manifest | None]:
        """Return the manifest of each shard, None for those that are not finished."""
        return [self.manifest(plan, shard) for shard in range(len(plan.shards))]

    def done(self, manifest: Manifest) -> None:
        """Record that a shard is finished. Durable when it returns."""
        self.write(_name(manifest.shard), manifest.to_json())

    def undo(self, shard: int) -> None:
        """Remove the record of a shard, before it is written again."""
        self.remove(_name(shard))

    def state(self, plan: Plan) -> str | None:
        """Return a hash of all that was written; None as long as a shard is not finished.

        A note about one state, such as that it is verified, does not hold for another.
        """
        found = self.manifests(plan)
        if any(one is None for one in found):
            return None
        texts = (dump_checked(one.to_json()) for one in found if one is not None)
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()

    def note(self, what: str, about: Mapping[str, Any], plan: Plan) -> None:
        """Record something about the present state: "finished" or "verified"."""
        self.write(f"{what}.json", {"state": self.state(plan), **about})

    def noted(self, what: str, plan: Plan) -> dict[str, Any] | None:
        """Return what :meth:`note` recorded, if the state is still the same."""
        saved, state = self._read(f"{what}.json", dict, what), self.state(plan)
        return saved if saved is not None and state is not None and saved.pop("state") == state else None

    def _read(self, name: str, parse: Callable[[dict[str, Any]], R], what: str) -> R | None:
        try:
            found = self.read(name)
            return None if found is None else parse(found)
        except (ValueError, KeyError, TypeError) as error:
            warnings.warn(f"{self.folder / name} is damaged: {error}. So {what} starts over.", stacklevel=4)
            return None


def _name(shard: int) -> str:
    return f"shards/{shard:06d}.json"


def is_cut_over(store: Store, plan: Plan) -> bool:
    """Return whether the store serves what this migration has written."""
    return store.served == plan.field


@dataclass(frozen=True)
class Status(Result):
    """The progress of a migration, from its work folder and its store."""

    store: str
    work: str
    stage: str
    """applying, applied, verified or cut over"""
    running: bool
    """Whether a process is working on it now."""
    shards_done: int
    shards: int
    rows_done: int
    rows: int | None
    skipped: int
    field: str
    provenance: dict[str, Any]
    problem: str | None
    """Why the store could not be read."""

    def __str__(self) -> str:
        of = "" if self.rows is None else f" of {self.rows:,}"
        made = ", ".join(f"{name} {value}" for name, value in self.provenance.items())
        lines = [
            f"{self.store}: {self.stage}{', running now' if self.running else ''}.",
            f"{self.rows_done:,}{of} rows, {self.shards_done:,} of {self.shards:,} shards are in {self.field!r}.",
            f"{self.skipped:,} rows were skipped because they could not be read." if self.skipped else "",
            f"Made with: {made}.",
            "" if self.problem is None else f"The store could not be read: {self.problem}",
        ]
        return "\n".join(line for line in lines if line)


def migration_status(url: str | os.PathLike[str], *, work: str | os.PathLike[str] | None = None) -> Status:
    """Return the progress of a migration. Reads only, also while it runs and while the store is down."""
    folder = work_of(url, work)
    plan = folder.required_plan(url)
    done = [one for one in folder.manifests(plan) if one is not None]
    rows, switched, problem = _asked(url, plan)
    return Status(
        store=plan.store,
        work=str(folder.folder),
        stage="cut over" if switched else _stage(folder, plan),
        running=folder.is_busy(url),
        shards_done=len(done),
        shards=len(plan.shards),
        rows_done=sum(one.written.rows for one in done),
        rows=rows,
        skipped=sum(one.skipped for one in done),
        field=plan.field.name,
        provenance=dict(plan.field.provenance),
        problem=problem,
    )


def _stage(work: Work, plan: Plan) -> str:
    verified = work.noted("verified", plan)
    if verified is not None and verified["passed"]:
        return "verified"
    return "applying" if work.noted("finished", plan) is None else "applied"


def _asked(url: str | os.PathLike[str], plan: Plan) -> tuple[int | None, bool, str | None]:
    """Return the rows of the store and whether it was cut over; or why it could not be read."""
    try:
        with open_store(url) as store:
            return store.count(plan.served), is_cut_over(store, plan), None
    except StoreError as error:
        return None, False, str(error)
