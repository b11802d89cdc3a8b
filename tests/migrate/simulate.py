"""All verbs of a migration on a simulated store, in any order, with a fault at any call, against a pure model.

Replay a seed with its events, or run many::

    python -m tests.migrate.simulate --seed 7
    python -m tests.migrate.simulate --seeds 10000
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tests.migrate.simulated import DIM, URL, Crash, Kind, Rates, Vectors, World, registered, translated

import relatent as rl
from relatent.migrate import (
    apply_migration,
    cut_over,
    finish_migration,
    migration_status,
    plan_migration,
    roll_back,
    verify_migration,
)
from relatent.stores import Roles

SHARD_ROWS, STEPS = 7, 14


class Violation(AssertionError):  # noqa: N818 (what is violated is an invariant, not a call)
    """Something happened that must never happen."""


@cache
def translator_file() -> Path:
    """Fit a translator from the old model to the new one, which is exact; once per process."""
    folder = Path(tempfile.mkdtemp(prefix="relatent-simulated-"))
    x = np.random.default_rng(0).normal(size=(200, DIM)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    spaces = [rl.Space(v, name=name) for v, name in ((x, "old-model"), (translated(x), "new-model"))]
    rl.Translator(map="least_squares").fit(*spaces, held_out=0, progress=False).save(folder / "t.safetensors")
    return folder / "t.safetensors"


@dataclass
class Model:
    """What is true of the items, whatever the migration does: told of every write by others, and of nothing else."""

    first: Vectors
    """The old field."""
    mine: Vectors = field(default_factory=dict)
    """What was written with the new model since the old vector of the same item."""
    ever: dict[int, list[np.ndarray]] = field(default_factory=dict)
    """All new vectors that an item ever had a right to."""
    touched: set[int] = field(default_factory=set)
    """Keys written during the present call."""
    stale: set[int] = field(default_factory=set)
    """Keys whose old vector was written during or after the cutover."""
    deleted: set[int] = field(default_factory=set)
    """Keys that were deleted from what is served after the cutover."""
    behind: set[int] = field(default_factory=set)
    """Keys written since the last apply that was complete: the cutover is to translate them."""
    reported: set[int] = field(default_factory=set)
    """Keys that a rollback has reported to be only in the new field."""
    ghosts: set[int] = field(default_factory=set)
    """Keys that were deleted from the old field at the time of a cutover: after a rollback nothing tells them from
    items that were added with the new model, and they are kept and reported as those are."""
    unnoted: bool = False
    """Whether a rollback was killed before it had noted them: then a later deletion is taken for such a one, too."""

    def __post_init__(self) -> None:
        self.ever = {key: [translated(vector)] for key, vector in self.first.items()}

    def told(self, world: World, name: str, key: int, vector: np.ndarray | None, derived: bool) -> None:
        """Follow a write. A vector that the store derived from it is checked, not believed."""
        self.touched.add(key)
        self.behind.add(key)
        self.reported.discard(key)
        self.ghosts |= {key} if self.unnoted and vector is None else set()
        old, served, late = name == "old", name == world.roles.served.name, world.roles.old is not None
        if vector is not None and not derived:
            self.ever.setdefault(key, []).append(translated(vector) if old else vector)
        if old:
            self._told_of_old(key, vector, derived, late)
        elif vector is not None and not derived:
            self.mine[key] = vector
            self.deleted.discard(key)
        if vector is None and served:
            self.mine.pop(key, None)
            self.deleted |= {key} if late else set()

    def _told_of_old(self, key: int, vector: np.ndarray | None, derived: bool, late: bool) -> None:
        if vector is None:
            self.first.pop(key, None)
            return
        self.first[key] = vector
        if not derived:
            self.mine.pop(key, None)
            self.deleted.discard(key)
            self.stale |= {key} if late else set()

    def right(self, key: int, served: bool) -> list[np.ndarray]:
        """Return the new vectors that are right for an item: after a rollback, also the translation of the old one."""
        if served and key in self.deleted:
            return []
        known = [self.mine[key]] if key in self.mine else []
        return [*known, translated(self.first[key])] if key in self.first and not (served and known) else known

    def wrong_in(self, found: Vectors, keys: set[int], *, served: bool = False) -> str | None:
        """Return what is wrong with the new vectors of some items: one of them is missing, too many, or another's."""
        for key in sorted(keys):
            right = self.right(key, served)
            if not right and key in found and key not in self.ghosts:
                return f"{key} was deleted and is there"
            if right and key not in found:
                return f"{key} is missing"
            if right and not is_among(found[key], right):
                former = is_among(found[key], self.ever[key])
                return f"{key} has {'the translation of a former vector' if former else 'a vector of no version of it'}"
        return None


def is_among(vector: np.ndarray, others: list[np.ndarray]) -> bool:
    return any(np.allclose(vector, other, atol=1e-4) for other in others)


@dataclass(frozen=True)
class Before:
    """What a call began with."""

    roles: Roles
    first: set[int]
    keys: set[int]


@dataclass(frozen=True)
class Returned:
    """What a step returned or raised, put into words only where it is shown."""

    verb: str
    result: Any

    def __str__(self) -> str:
        return f"<-- {self.verb}: {str(self.result)[:400] or type(self.result).__name__}"


Check = Callable[["Run", Before, dict[str, Any], Any], None]


class Run:
    """One seed: a world, a user, and what must hold after every step."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder, self.rng = seed, folder, random.Random(seed)
        draw = self.rng.choice
        kind = Kind(*(draw((False, True)) for _ in range(4)), follows=self.rng.random() < 0.3)
        rates = Rates(draw((0, 0.003, 0.02)), draw((0, 0.003, 0.02)), draw((0, 0.01, 0.05)), draw((0, 0.2)))
        self.world = World(random.Random(self.rng.random()), kind, rates)
        self.model = Model(dict(self.world.fields["old"]))
        self.world.told = lambda *write: self.model.told(self.world, *write)
        self.forced = self.finished = self.lost = False
        self.succeeded = ""

    def go(self) -> None:
        """Take random steps, with faults; then, without faults, those that lead to the end."""
        self.world.note(f"seed {self.seed}: {self.world.kind}, {self.world.rates}")
        for _ in range(STEPS):
            for _ in range(self.rng.choice((0, 0, 0, 1, 3)) if self.world.rates.others else 0):
                self.world.others()
            self.step(*self._choose())
            if self.finished:
                return
        self.end()

    # What the user does ----------------------------------------------------------------------------------------------

    def _choose(self) -> tuple[str, dict[str, Any]]:
        verb = self._next() if self.rng.random() < 0.75 else self.rng.choice((*CALLS, "lose"))
        option = {"cutover": "force", "finish": "force", "rollback": "drop"}.get(verb)
        if verb == "apply":
            return verb, {"max_passes": self.rng.choice((1, 3, 5))}
        return verb, {option: True} if option is not None and self.rng.random() < 0.2 else {}

    def _next(self) -> str:
        """Return what a user does next."""
        roles = self.world.roles
        if roles.old is not None:
            return self.rng.choice(("finish", "rollback")) if not roles.dropping else "finish"
        return {"apply": "verify", "verify": "cutover"}.get(self.succeeded, "apply")

    def step(self, verb: str, options: dict[str, Any]) -> Any:
        """Take a step, and check the world after it; return what it returned or raised."""
        world, model = self.world, self.model
        world.note(f"--> {verb} {options or ''}")
        if verb == "lose":
            shutil.rmtree(self.folder, ignore_errors=True)
            self.lost = True
            if world.roles.old is None:  # nothing tells any more which items a rollback has left
                model.reported |= set(model.mine)
            return None
        model.touched = set()
        before = Before(world.roles, set(model.first), {key for rows in world.fields.values() for key in rows})
        result = self._called(verb, options)
        done = not isinstance(result, BaseException) and getattr(result, "passed", True)
        self.succeeded = verb if done and verb != "status" else self.succeeded if verb == "status" else ""
        world.note(Returned(verb, result))
        for check in CHECKS:
            check(self, before, {"verb": verb, **options}, result)
        return result

    def _called(self, verb: str, options: dict[str, Any]) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return CALLS[verb](self, options)
        except Crash as crash:
            self.world.restart()
            return crash
        except ValueError as error:  # which StoreError and FileError are
            self.require(str(error).strip() != "", f"{verb} failed without a message")
            return error
        except Exception as error:
            raise self.violation(f"{verb} raised {type(error).__name__}: {error}") from error

    def end(self) -> None:
        """End the migration without faults, as a user does who reads the messages."""
        self.world.rates = Rates()
        self.world.note("no faults and no other writers from here on")
        if self.world.roles.old is not None and not self.world.roles.dropping and (self.model.stale or self.forced):
            self.calm("rollback")
        if self.world.roles.old is None:
            self.require(self.calm("apply").converged, "apply did not converge although nobody wrote")
            found = self.calm("verify")
            self.require(found.passed, f"verify did not pass although nobody wrote:\n{found}")
            self.calm("cutover")
        lost = set(self.model.first) - set(self.world.fields[self.world.roles.served.name])
        self.calm("finish", **({"force": True} if lost else {}))
        self.require(self.finished, "finish returned, and the old field is still there")

    def calm(self, verb: str, **options: Any) -> Any:
        result = self.step(verb, options)
        self.require(not isinstance(result, BaseException), f"{verb} failed although nothing disturbed it: {result}")
        return result

    def require(self, holds: bool, what: str) -> None:
        if not holds:
            raise self.violation(what)

    def violation(self, what: str) -> Violation:
        self.world.note(f"VIOLATION {what}")
        return Violation(
            "\n".join([*self.world.events, f"Replay: python -m tests.migrate.simulate --seed {self.seed}"])
        )


# The steps -----------------------------------------------------------------------------------------------------------


def _plan(run: Run, options: dict[str, Any]) -> Any:
    trial = run.rng.random() < 0.5
    return plan_migration(translator_file(), URL, trial=trial, trial_rows=8, accept=True, progress=False)


def _apply(run: Run, options: dict[str, Any]) -> Any:
    given = {"work": run.folder, "shard_rows": SHARD_ROWS, "accept": True, "progress": False}
    return apply_migration(translator_file(), URL, **given, **options)


CALLS: dict[str, Callable[[Run, dict[str, Any]], Any]] = {
    "plan": _plan,
    "apply": _apply,
    "verify": lambda run, options: verify_migration(URL, work=run.folder, progress=False, **options),
    "cutover": lambda run, options: cut_over(URL, work=run.folder, **options),
    "rollback": lambda run, options: roll_back(URL, work=run.folder, **options),
    "finish": lambda run, options: finish_migration(URL, work=run.folder, **options),
    "status": lambda run, options: migration_status(URL, work=run.folder, **options),
}

# What must hold after each -------------------------------------------------------------------------------------------


def old_vectors_are_untouched(run: Run, before: Before, given: dict[str, Any], result: Any) -> None:
    """Until it is dropped, the old field is what others have written: also after a rollback."""
    roles = run.world.roles
    if roles.dropping or "old" not in run.world.fields:
        run.require(before.roles.old is not None, f"{given['verb']} dropped the old field")
        return
    found = run.world.fields["old"]
    wrong = [key for key in {*found, *run.model.first} if found.get(key) is not run.model.first.get(key)]
    run.require(not wrong, f"{given['verb']} modified the old vectors of {wrong}")


def what_is_served_is_current(run: Run, before: Before, given: dict[str, Any], result: Any) -> None:
    """A cutover serves the translation of all that the source held when it began; later writes are at most stale."""
    world, model = run.world, run.model
    if world.roles.old is None or before.roles.old is not None:
        return
    run.require(given["verb"] == "cutover", f"{given['verb']} switched the store")
    run.forced, run.lost = bool(given.get("force")), False
    model.stale |= model.touched & set(model.first) - set(model.mine)
    if run.forced:
        return
    served = world.fields[world.roles.served.name]
    late = set() if world.steps is not None else model.touched
    wrong = model.wrong_in(served, {*served, *before.first, *model.mine} - late)
    run.require(wrong is None, f"what is served after the cutover is not what the source holds: {wrong}")
    since = model.touched & (set(model.mine) | model.deleted)
    wrong = model.wrong_in(served, since, served=True)
    run.require(wrong is None, f"cutover wrote over what the application wrote after the switch: {wrong}")
    foreign = [key for key in served if not is_among(served[key], model.ever[key])]
    run.require(not foreign, f"what is served of {foreign} is no translation of any of their vectors")


def what_is_complete_is_right(run: Run, before: Before, given: dict[str, Any], result: Any) -> None:
    """Where apply has converged or verify has passed, the new field is right but for what was written since."""
    applied, second, model = getattr(result, "converged", False), run.world.roles.second, run.model
    model.behind = set(model.touched) if applied else model.behind
    if applied:  # it has seen which of them are items again
        model.unnoted, model.ghosts = False, model.ghosts - set(model.first)
    if (applied or getattr(result, "passed", False)) and second is not None:
        found = run.world.fields[second.name]
        wrong = model.wrong_in(found, {*found, *model.first} - model.behind)
        run.require(wrong is None, f"{given['verb']} reports that the new field is complete: {wrong}")


def a_rollback_restores(run: Run, before: Before, given: dict[str, Any], result: Any) -> None:
    """A rollback that returns serves the old field, whose vectors are checked after every step."""
    if given["verb"] == "rollback" and not isinstance(result, BaseException):
        run.require(run.world.roles.served.name == "old", "rollback returned, and the old field is not served")
    if run.world.roles.old is None and before.roles.old is not None and run.world.roles.served.name == "old":
        run.require(given["verb"] == "rollback", f"{given['verb']} switched the store back")
        run.model.stale, run.model.deleted, run.forced = set(), set(), False
        run.model.reported = set(run.model.mine) if "only in" in str(result) else set()
        second = run.world.roles.second
        run.model.ghosts = set() if second is None else set(run.world.fields[second.name]) - set(run.model.first)
        run.model.unnoted = isinstance(result, BaseException)


def no_only_vector_is_lost(run: Run, before: Before, given: dict[str, Any], result: Any) -> None:
    """No step without force destroys the only vector of an item, nor the only current one."""
    world, model = run.world, run.model
    if given.get("force"):
        return
    kept = {key for rows in world.fields.values() for key in rows}
    lost = sorted((before.keys & set(model.mine)) - kept - model.reported)
    run.require(not lost, f"{given['verb']} destroyed the only vectors of {lost}, which the new model has made")
    model.mine = {key: vector for key, vector in model.mine.items() if key in kept}
    begun = world.roles.dropping or "old" not in world.fields
    if begun and not before.roles.dropping:
        served = world.fields[world.roles.served.name]
        lost = sorted(before.first - set(served) - model.touched - model.deleted)
        run.require(not lost, f"finish dropped the only vectors of {lost}")
        if not run.lost:  # which alone knows what was translated
            wrong = model.wrong_in(served, (model.stale & set(model.first)) - model.touched - model.deleted)
            run.require(run.forced or wrong is None, f"finish dropped the only current vector: {wrong}")


def the_end_is_noticed(run: Run, before: Before, given: dict[str, Any], result: Any) -> None:
    run.finished = "old" not in run.world.fields


CHECKS: tuple[Check, ...] = (
    old_vectors_are_untouched,
    what_is_served_is_current,
    what_is_complete_is_right,
    no_only_vector_is_lost,
    a_rollback_restores,
    the_end_is_noticed,
)


def simulate(seed: int, folder: Path) -> World:
    """Run a seed in a folder, which is removed; raise :class:`Violation`, or return the world as it is at the end."""
    run = Run(seed, folder / f"work-{seed}")
    try:
        with registered(run.world):
            run.go()
    finally:
        shutil.rmtree(run.folder, ignore_errors=True)
    return run.world


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="replay one, and print its events")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    given, failed, began = parser.parse_args(), {}, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        if given.seed is not None:
            print("\n".join(simulate(given.seed, Path(folder)).events))  # noqa: T201
            return
        for seed in range(given.first, given.first + given.seeds):
            try:
                simulate(seed, Path(folder))
            except Violation as violation:
                failed[seed] = str(violation).splitlines()[-2]
                print(f"seed {seed}: {failed[seed]}", flush=True)  # noqa: T201
    print(f"{given.seeds:,} seeds, {len(failed):,} failed, {time.perf_counter() - began:.0f} s")  # noqa: T201
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
