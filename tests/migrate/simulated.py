"""A store that is simulated: in memory, and every fault at every call comes from a seed.

:class:`World` is the disk with the applications that write to it; it outlives crashes. :class:`SimulatedStore` is what
a process sees of it.
"""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import relatent.stores
from relatent import _schemes
from relatent._files import Records
from relatent.stores import Field, Roles, Shard, Store, StoreError
from relatent.stores.base import Found, Rows, Scan, Session, Tally, every_nth
from relatent.stores.fields import busy
from relatent.stores.rows import open_rows

DIM, NEW_DIM, ROWS = 4, 5, 30
URL = "sim:///items"
TURN = np.linalg.qr(np.random.default_rng(5).normal(size=(NEW_DIM, NEW_DIM)))[0][:DIM]

Vectors = dict[int, np.ndarray]


def translated(old: np.ndarray) -> np.ndarray:
    """Return what the new model makes of a vector of the old one."""
    return np.asarray(old @ TURN, np.float32)


class Crash(BaseException):
    """The process was killed, or the machine went down."""


@dataclass(frozen=True)
class Kind:
    """What a simulated store can do."""

    together: bool = False
    """Whether an item's vectors are in one row and go with it; else the new field is a companion."""
    tells: bool = False
    """Whether it knows the state of a shard without reading it."""
    snapshots: bool = False
    """Whether a scan, and all scans of a moment, see the store as it was when they began."""
    writes_served: bool = False
    """Whether the second field can be written after the switch."""
    follows: bool = False
    """Whether it translates by itself what is written to it."""


@dataclass(frozen=True)
class Rates:
    """How likely each fault is at each call."""

    crash: float = 0.0
    timeout: float = 0.0
    others: float = 0.0
    duplicate: float = 0.0


@dataclass
class World:
    """A disk, the applications that write to it, and the faults of both; one random generator decides about all."""

    rng: random.Random
    kind: Kind = Kind()
    rates: Rates = Rates()
    fields: dict[str, Vectors] = field(default_factory=dict)
    """What readers see."""
    durable: dict[str, Vectors] = field(default_factory=dict)
    """What is left of it after a crash."""
    pending: list[list[Callable[[Vectors], None]]] = field(default_factory=list)
    """Batches that were written to the second field and not flushed, as changes of single rows."""
    roles: Roles = field(default_factory=lambda: Roles(Field("old", DIM)))
    versions: dict[int, int] = field(default_factory=dict)
    steps: tuple[Sequence[Any], Sequence[Any]] | None = None
    since: dict[int, str] = field(default_factory=dict)
    """Keys written since the switch, and the model of their writer: of a store that follows."""
    log: list[tuple[int, object]] = field(default_factory=list)
    """What happened when; put into words by :attr:`events`, which few seeds need."""
    newer: dict[tuple[str, int], int] = field(default_factory=dict)
    """When others wrote a row last: what was pending before that is not written over it after a crash."""
    told: Callable[[str, int, np.ndarray | None, bool], None] = lambda *_: None
    """Who is told of every write: the field, the key, the vector or None, and whether the store itself derived it."""
    planned: list[tuple[int, Callable[[], None]]] = field(default_factory=list)
    """What others will do once the clock has come that far."""
    dead: bool = False
    locked: bool = False
    clock: int = 0
    changes: int = 0
    watched: int = 0

    def __post_init__(self) -> None:
        first = {key: self.draw(DIM) for key in range(0, 2 * ROWS, 2)}
        self.fields, self.durable = {"old": first}, {"old": dict(first)}
        self.watched = threading.get_ident()

    # The scheduler ---------------------------------------------------------------------------------------------------

    def note(self, what: object) -> None:
        self.log.append((self.clock, what))

    @property
    def events(self) -> list[str]:
        return [f"{clock:5} {' '.join(str(what).split())}" for clock, what in self.log]

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Let faults happen before and after the effect of a call."""
        self.may_fail(f"before {name}")
        yield
        self.may_fail(f"after {name}")

    def may_fail(self, where: str) -> None:
        if self.dead:
            raise Crash(where)
        if threading.get_ident() != self.watched:  # the order in which threads come is not that of the seed
            return
        self.clock += 1
        while self.planned and self.planned[0][0] <= self.clock:
            self.planned.pop(0)[1]()
        while self.happens(self.rates.others):
            self.others()
        if self.happens(self.rates.crash):
            self.note(f"CRASH {where}")
            self.dead = True
            raise Crash(where)
        if self.happens(self.rates.timeout):
            self.note(f"TIMEOUT {where}")
            raise StoreError(f"{URL} did not answer in time: try again.")

    def may_crash(self, where: str) -> None:
        """Let only a crash happen: at a call that is not one of the store."""
        with patch.object(self, "rates", replace(self.rates, timeout=0.0)):
            self.may_fail(where)

    def happens(self, rate: float) -> bool:
        return rate > 0 and self.rng.random() < rate

    def restart(self) -> None:
        """Start over after a crash: of batches that were not flushed, all, some or no rows are left, in any order."""
        self.dead = self.locked = False
        second = self.roles.second
        if second is not None:
            rows = self.durable[second.name]
            for batch in self.rng.sample(self.pending, len(self.pending)):
                share = self.rng.choice((0.0, 0.5, 1.0))
                for change in batch:
                    if self.rng.random() < share:
                        change(rows)
        self.pending = []
        self.fields = {name: dict(rows) for name, rows in self.durable.items()}

    def flush(self) -> None:
        self.pending = []
        self.durable = {name: dict(rows) for name, rows in self.fields.items()}

    def change(self, batch: list[Callable[[Vectors], None]]) -> None:
        """Change rows of the second field, durable after a flush."""
        second = self.roles.second
        assert second is not None
        for change in batch:
            change(self.fields[second.name])
        self.pending.append(batch)

    # What others write -----------------------------------------------------------------------------------------------

    def draw(self, dim: int) -> np.ndarray:
        """Return a vector as one of the two models makes them."""
        x = np.asarray([self.rng.gauss(0, 1) for _ in range(DIM)])
        x = np.asarray(x / np.linalg.norm(x), np.float32)
        return x if dim == DIM else translated(x)

    def others(self) -> None:
        """Let an application write: insert, update, swap two or delete; after a switch also with the old model."""
        roles = self.roles
        late = roles.old is not None and not roles.dropping and self.rng.random() < 0.25
        name = roles.first.name if late else roles.served.name
        keys = sorted(self.fields[name])
        what = self.rng.choice(("insert", "update", "swap", "delete"))
        if what == "insert" or len(keys) < 8:
            self.put(name, self.rng.randrange(2 * ROWS))
        elif what == "update":
            self.put(name, self.rng.choice(keys))
        elif what == "swap":
            one, two = self.rng.sample(keys, 2)
            mine, theirs = self.fields[name][one], self.fields[name][two]
            self.put(name, one, theirs)
            self.put(name, two, mine)
        else:
            self.delete(name, self.rng.choice(keys))

    def put(self, name: str, key: int, vector: np.ndarray | None = None) -> None:
        """Write a vector as an application does: durable, and translated where the store follows."""
        first, second = self.roles.first.name, self.roles.second
        vector = self.draw(DIM if name == first else NEW_DIM) if vector is None else vector
        self.note(f"others put {key} into {name}: {vector[0]:.3f}, …")
        self._set(name, key, vector)
        if self.steps is not None and second is not None:
            forth, back = self.steps
            other, steps = (second.name, forth) if name == first else (first, back)
            self._set(other, key, _through(steps, vector), derived=True)
            if self.roles.old is not None:
                self.since[key] = "old" if name == first else "new"

    def _set(self, name: str, key: int, vector: np.ndarray, derived: bool = False) -> None:
        self.fields[name][key] = self.durable[name][key] = vector
        self.newer[name, key] = self.clock
        self._changed(key)
        self.told(name, key, vector, derived)

    def delete(self, name: str, key: int) -> None:
        self.note(f"others delete {key} from {name}")
        together = self.kind.together or self.steps is not None
        for each in list(self.fields) if together else [name]:
            self.fields[each].pop(key, None)
            self.durable[each].pop(key, None)
            self.newer[each, key] = self.clock
            self.told(each, key, None, each != name)
        self._changed(key)

    def _changed(self, key: int) -> None:
        self.changes += 1
        self.versions[key] = self.changes

    def has(self, key: int) -> bool:
        """Return whether there is such an item."""
        if self.kind.together or self.roles.old is not None:
            return any(key in rows for rows in self.fields.values())
        return key in self.fields[self.roles.served.name]


def _through(steps: Sequence[Any], vector: np.ndarray) -> np.ndarray:
    rows: Any = vector[None]
    for step in steps:
        rows = step(rows)
    return np.asarray(rows[0], np.float32)


WORLDS: dict[str, World] = {}


class SimulatedStore(Store):
    """What a process sees of the world of its name."""

    schemes = ("sim",)
    extra = ""
    forms = ()
    chunk_bytes: ClassVar[int] = 3 * DIM * 4
    can_follow = True

    @property
    def writes_served(self) -> bool:
        return self.world.kind.writes_served

    def _open(self) -> None:
        self.world = WORLDS[self.address.name]
        self._moment: dict[str, Vectors] | None = None

    @contextmanager
    def _session(self, purpose: str = "read") -> Iterator[Session]:
        self.world.may_fail(f"roles, to {purpose}")
        yield Session(self.world.roles, "id")

    def _rows(self, of: Field, shard: Shard, among: dict[str, Vectors] | None = None) -> list[tuple[int, np.ndarray]]:
        rows = (among or self.world.fields)[of.name]
        low, high = shard.low, shard.high
        return sorted(
            (item for item in rows.items() if (low is None or low <= item[0]) and (high is None or item[0] < high)),
            key=lambda item: item[0],
        )

    def _count(self, session: Session, of: Field, shard: Shard) -> int:
        return len(self._rows(of, shard))

    def _bounds(self, session: Session, rows: int) -> list[int]:
        return every_nth(pa.array(sorted(self.world.fields[session.roles.served.name])), rows)

    def state(self, shard: Shard) -> str | None:
        if not self.world.kind.tells:
            return None
        self.world.may_fail("state")
        bounds = [-1 if shard.low is None else shard.low, 10**9 if shard.high is None else shard.high]
        # Also deleted rows have a version: what changes with every change, and sometimes without one.
        seen = [item for item in sorted(self.world.versions.items()) if bounds[0] <= item[0] < bounds[1]]
        return hashlib.sha256(repr(seen).encode()).hexdigest()

    def _scan(self, session: Session, asked: Scan) -> Rows:
        world = self.world
        among = self._moment or ({n: dict(r) for n, r in world.fields.items()} if world.kind.snapshots else None)
        low = asked.shard.low
        while True:
            world.may_fail(f"scan of {asked.of.name} from {low}")
            rows = self._rows(asked.of, Shard(low, asked.shard.high), among)[: asked.rows]
            if not rows:
                return
            keys, vectors = zip(*rows, strict=True)
            yield pa.table({"id": pa.array(keys, pa.int64())}), np.stack(vectors)
            low = keys[-1] + 1

    @contextmanager
    def at_one_moment(self) -> Iterator[None]:
        if self.world.kind.snapshots:
            self._moment = {name: dict(rows) for name, rows in self.world.fields.items()}
        try:
            yield
        finally:
            self._moment = None

    def _add(self, session: Session, new: Field) -> None:
        with self.world.call(f"add {new.name}"):
            self.world.fields[new.name], self.world.durable[new.name] = {}, {}
            self.world.roles = replace(self.world.roles, new=new)

    def _write(self, session: Session, new: Field, keys: pa.Array, vectors: np.ndarray) -> None:
        world, names = self.world, keys.to_pylist()
        with world.call(f"write {names}"):
            batch = [self._put(new.name, key, vector) for key, vector in zip(names, vectors.copy(), strict=True)]
            world.note(f"write {names}")
            world.change(batch)
            if world.happens(world.rates.duplicate):
                world.note("DUPLICATE")
                world.change(batch)

    def _put(self, name: str, key: int, vector: np.ndarray) -> Callable[[Vectors], None]:
        world, now = self.world, self.world.clock

        def put(rows: Vectors) -> None:
            newer = world.newer.get((name, key), -1) > now
            if world.has(key) and not newer and not (world.steps is not None and key in rows):
                rows[key] = vector

        return put

    def flush(self) -> None:
        with self.world.call("flush"):
            self.world.flush()

    def _remove_orphans(self, session: Session, new: Field, kept: frozenset[Any] = frozenset()) -> int:
        gone = [key for key in self.world.fields[new.name] if not self.world.has(key) and key not in kept]
        with self.world.call(f"remove {gone}"):
            self.world.note(f"remove {gone}")
            self.world.change([self._removed(key) for key in gone])
        return len(gone)

    def _removed(self, key: int) -> Callable[[Vectors], None]:
        def remove(rows: Vectors) -> None:
            if not self.world.has(key):
                rows.pop(key, None)

        return remove

    def _search(
        self, session: Session, of: Field, queries: np.ndarray, k: int, exact: bool, effort: int | None
    ) -> Sequence[Found]:
        self.world.may_fail("search")
        keys, vectors = zip(*self._rows(of, Shard()), strict=True)
        x = np.stack(vectors)
        cosines = queries @ (x / np.linalg.norm(x, axis=1, keepdims=True)).T
        cosines /= np.linalg.norm(queries, axis=1, keepdims=True)
        best = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        return [([keys[i] for i in row], 1 - cosines[n, row]) for n, row in enumerate(best)]

    def _write_roles(self, session: Session, roles: Roles) -> None:
        with self.world.call(f"switch to {roles.served.name}"):
            self.world.note(f"roles: {roles.served.name} served, new {roles.new and roles.new.name}")
            self.world.roles, self.world.since = roles, {}

    def _drop_new(self, session: Session, new: Field) -> None:
        with self.world.call(f"drop {new.name}"):
            self.world.note(f"drop {new.name}")
            self._gone(new, replace(self.world.roles, new=None))

    def _drop_old(self, session: Session, old: Field) -> None:
        world = self.world
        with world.call("begin to drop"):
            world.note(f"drop {old.name}")
            world.roles = replace(world.roles, dropping=True)
        with world.call("drop some"):
            for key in sorted(world.fields[old.name])[::2]:
                del world.fields[old.name][key]
                del world.durable[old.name][key]
        with world.call("drop the rest"):
            self._gone(old, world.roles.finished())

    def _gone(self, which: Field, roles: Roles) -> None:
        world = self.world
        del world.fields[which.name], world.durable[which.name]
        if world.roles.is_new(which):
            world.pending = []
        world.roles, world.steps, world.since = roles, None, {}

    # While others write ----------------------------------------------------------------------------------------------

    def follow(self, new: Field, steps: Sequence[Any], back: Sequence[Any]) -> str | None:
        if not self.world.kind.follows:
            return super().follow(new, steps, back)
        with self.world.call("follow"):
            self.world.note("follow")
            self.world.steps = steps, back
        return None

    def follows(self) -> bool:
        return self.world.steps is not None

    def tally(self, of: Field, other: Field) -> Tally:
        self.world.may_fail("tally")
        first, second = (self.world.fields[field.name].keys() for field in (of, other))
        items = {key for rows in self.world.fields.values() for key in rows if self.world.has(key)}
        return Tally(len(items), len(first), len(first & second), len(second - first))

    def written_since(self) -> Mapping[Any, pa.Array]:
        since = self.world.since
        return {
            model: pa.array(sorted(key for key in since if since[key] == model), pa.int64()) for model in ("old", "new")
        }

    @contextmanager
    def lock(self) -> Iterator[None]:
        if self.world.locked:
            raise busy(self.address)
        self.world.locked = True
        try:
            yield
        finally:
            self.world.locked = False


@contextmanager
def registered(world: World) -> Iterator[World]:
    """Make the simulated store known, have it show a world, and let the work folder crash, too."""
    remove = Records.remove

    def write_bytes(self: Records, name: str, content: bytes) -> None:
        """Write as simply as can be: that a file is complete or absent is tested elsewhere."""
        world.may_crash(f"before writing {name}")
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_bytes(content)
        world.note(f"wrote {name}")
        world.may_crash(f"after writing {name}")

    def remove_all(self: Records, *names: str) -> None:
        for name in names:
            world.may_crash(f"before removing {name}")
            remove(self, name)

    with (
        patch.object(relatent.stores, "STORES", (*relatent.stores.STORES, SimulatedStore)),
        patch.dict(_schemes._SCHEMES, {"sim": lambda url, options: open_rows(SimulatedStore, url, options)}),
        patch.dict(WORLDS, {"items": world}),
        patch.object(Records, "write_bytes", write_bytes),
        patch.object(Records, "remove", remove_all),
    ):
        yield world
