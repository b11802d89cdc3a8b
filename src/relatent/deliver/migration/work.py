"""The work folder of a migration: what a run that was killed left for the next one to go on from."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from relatent._atomic import FileError, atomic_write, writing
from relatent.deliver.loading import load
from relatent.deliver.migration.records import Manifest, Plan, sealed, unsealed
from relatent.deliver.translate import check_translator
from relatent.stores import Address, StoreError
from relatent.stores.locks import file_lock
from relatent.translate import Translator

__all__ = ["Work", "work_folder", "work_of"]

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
            raise FileError(f"{path} is not the translator that this migration began with: run apply with -t again.")
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
