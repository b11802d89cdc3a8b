"""The state of a migration on disk: its plan, and for each finished shard a manifest with checksums of its rows."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from relatent._errors import with_remedy
from relatent._files import FileError, Records, writing
from relatent._saved import load
from relatent._terminal import Result
from relatent.migrate.digest import Digest
from relatent.stores import Address, Field, Shard, Store, StoreError, open_store
from relatent.stores.fields import lock_file, plain_field
from relatent.translate import Translator
from relatent.translate.files import check_translator


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
    """A shard that is done: what was read of the source, how much was written, and the rows that were left out."""

    migration: str
    shard: int
    read: Digest
    written: int
    """Rows of the shard that have a new vector."""
    skipped: int = 0
    reasons: tuple[str, ...] = ()
    """Key and reason of the first rows that were left out."""
    state: str | None = None
    """What the store said of the shard before it was read, if it can tell without reading it (``Store.state``)."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return vars(self) | {"read": self.read.to_json(), "reasons": list(self.reasons)}

    @staticmethod
    def from_json(saved: Mapping[str, Any]) -> Manifest:
        """Rebuild from what :meth:`to_json` returned, or an earlier version."""
        written = saved["written"]
        counted = Digest.from_json(written).rows if isinstance(written, list) else int(written)
        known = {"read": Digest.from_json(saved["read"]), "written": counted, "reasons": tuple(saved["reasons"])}
        return Manifest(**{**saved, **known})


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

    @property
    def max_rate(self) -> Path:
        """A file with the rows per second that a running apply may read: it replaces what was asked for; 0 pauses."""
        return self.folder / "max-rate"

    @property
    def postponed(self) -> Path:
        """A file that exists while apply waits before its last pass."""
        return self.folder / "postponed"

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

    def rolled_back(self) -> dict[str, Any] | None:
        """Return what is noted of a rollback; None if there was none.

        ``kept`` are the keys that only the new field had, None if they are not known yet; ``again`` is whether all
        shards are to be copied again, because of what was written to the new field while it was served.
        """
        return self._read("rolled-back.json", dict, "what a rollback has left")

    def note_rollback(self, kept: list[Any] | None, again: bool = True) -> None:
        """Note a rollback, before and after it is done."""
        if self.plan() is not None:
            self.write("rolled-back.json", {"kept": kept, "again": again})

    def write_keys(self, name: str, keys: list[Any]) -> Path:
        """Write keys to a text file, one on each line as JSON; return its path."""
        self.write_bytes(f"{name}.txt", "".join(f"{json.dumps(key, ensure_ascii=False)}\n" for key in keys).encode())
        return self.folder / f"{name}.txt"

    def forget(self) -> None:
        """Remove the plan first, and then all that belongs to it."""
        self.remove("plan.json", "finished.json", "verified.json", "rolled-back.json", "max-rate", "postponed")
        shutil.rmtree(self.folder / "shards", ignore_errors=True)

    def translator(self, plan: Plan) -> Translator:
        """Return the translator that the plan was made for."""
        path = self.folder / "translator.safetensors"
        if not path.exists():
            raise FileError(f"{path} is missing, because apply was killed when it began: apply the translator again.")
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
        if any(one is None for one in self.manifests(plan)):
            return None
        texts = (self.folder.joinpath(_name(shard)).read_text("utf8") for shard in range(len(plan.shards)))
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
    rows_estimated: bool
    """Whether ``rows`` were not counted, because that takes long: they are the store's estimate."""
    skipped: int
    missing: int | None
    """Rows that have an old vector and no new one: they would not be found after a cutover. None: not counted."""
    follows: bool
    """Whether the store translates by itself what is written to it."""
    written_since: dict[str, int]
    """Items that were written since the cutover, by the model of their vectors, where the store counts them."""
    postponed: str | None
    """The file that apply waits for: it makes its last pass once that is removed."""
    field: str
    provenance: dict[str, Any]
    problem: str | None
    """Why the store could not be read."""

    def __str__(self) -> str:
        of = "" if self.rows is None else f" of {'about ' if self.rows_estimated else ''}{self.rows:,}"
        made = ", ".join(f"{name} {value}" for name, value in self.provenance.items())
        lines = [
            f"{self.store}: {self.stage}{', running now' if self.running else ''}.",
            f"{self.rows_done:,}{of} rows, {self.shards_done:,} of {self.shards:,} shards are in {self.field!r}.",
            f"{self.skipped:,} rows were skipped because they could not be read." if self.skipped else "",
            f"{self.missing:,} rows have no new vector and would not be found after a cutover." if self.missing else "",
            NOT_COUNTED if self.rows_estimated else "",
            "The store translates what is written to it by itself." if self.follows else "",
            *(
                f"{n:,} items were written with the {model} model since."
                for model, n in self.written_since.items()
                if n
            ),
            f"Apply waits before its last pass until {self.postponed} is removed." if self.postponed else "",
            f"Made with: {made}.",
            "" if self.problem is None else f"The store could not be read: {self.problem}",
        ]
        return "\n".join(line for line in lines if line)


def migration_status(url: str | os.PathLike[str], *, work: str | os.PathLike[str] | None = None) -> Status:
    """Return the progress of a migration. Reads only, also while it runs and while the store is down."""
    folder = work_of(url, work)
    plan = folder.required_plan(url)
    done = [one for one in folder.manifests(plan) if one is not None]
    asked = _Asked.of(url, plan)
    return Status(
        store=plan.store,
        work=str(folder.folder),
        stage="cut over" if asked.switched else _stage(folder, plan),
        running=folder.is_busy(url),
        shards_done=len(done),
        shards=len(plan.shards),
        rows_done=sum(one.written for one in done) if asked.filled is None else asked.filled,
        rows=asked.rows,
        rows_estimated=asked.estimated,
        skipped=sum(one.skipped for one in done),
        missing=asked.missing,
        follows=asked.follows,
        written_since=asked.written_since,
        postponed=str(folder.postponed) if folder.postponed.exists() else None,
        field=plan.field.name,
        provenance=dict(plan.field.provenance),
        problem=asked.problem,
    )


NOT_COUNTED = "The rows of the store are its estimate; those without a new vector are counted by verify and cutover."


def _stage(work: Work, plan: Plan) -> str:
    verified = work.noted("verified", plan)
    if verified is not None and verified["passed"]:
        return "verified"
    return "applying" if work.noted("finished", plan) is None else "applied"


@dataclass(frozen=True)
class _Asked:
    """What a store says of its migration; or why it could not be read."""

    rows: int | None = None
    estimated: bool = False
    missing: int | None = None
    switched: bool = False
    follows: bool = False
    filled: int | None = None
    """The rows of the new field, where the store itself writes to it and they are counted in a moment."""
    written_since: dict[str, int] = field(default_factory=dict)
    problem: str | None = None

    @staticmethod
    def of(url: str | os.PathLike[str], plan: Plan) -> _Asked:
        try:
            with open_store(url) as store:
                switched, size = is_cut_over(store, plan), store.size(plan.served)
                unknown = switched or store.new != plan.field or not size.is_exact
                missing = None if unknown else len(missing_rows(store, plan))
                since: dict[str, int] = {model: len(keys) for model, keys in store.written_since().items()}
                follows = store.follows()
                filled = store.count(plan.field) if follows and size.is_exact else None
                return _Asked(size.rows, not size.is_exact, missing, switched, follows, filled, since)
        except StoreError as error:
            return _Asked(problem=str(error))


def missing_rows(store: Store, plan: Plan) -> list[Any]:
    """Return the keys that have an old vector and no new one."""
    return [key for shard in plan.shards for key in store.only_in(plan.served, plan.field, shard).to_pylist()]
