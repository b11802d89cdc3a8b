"""Which two spaces a translator joins, and the refusal of any other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from relatent._array import as_float
from relatent._errors import with_remedy
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.probe import MIN_ROWS, Match, SpaceWarning, compare_blocks, compare_probes, probe_of
from relatent.spaces.space import Space

# Every block of this many rows is checked, by some of its rows: enough to tell, few beside what a translation costs.
BLOCK_ROWS, ROWS_CHECKED = 256, 64
# Blocks that are checked at once, so that little is copied.
BLOCKS_AT_ONCE = 64
# Rows that are more like the other side by this much, in agreement, are of that.
OTHER_SIDE = 0.25

Side = Literal["source", "target"]


class SpaceMismatchError(ValueError):
    """A space was given that is not the one the translator was fitted on."""


def check_side(side: str) -> None:
    """Refuse what is neither side of a translator."""
    if side not in get_args(Side):
        raise ValueError(f"side is {side!r}: expected 'source' or 'target'.")


@dataclass(frozen=True)
class Finding:
    """What was found of some rows, and which: those of the first block that does not match, or all."""

    match: Match
    first: int
    last: int


@dataclass(frozen=True)
class Endpoints:
    """The fingerprints and names of both spaces, and the other fingerprints that a person has let pass."""

    source: Fingerprint
    target: Fingerprint
    source_name: str = ""
    target_name: str = ""
    accepted: tuple[Fingerprint, ...] = ()

    @staticmethod
    def of(x: Space | np.ndarray, y: Space | np.ndarray) -> Endpoints:
        """Take fingerprints of spaces, or measure those of bare arrays."""
        source, target = (a.fingerprint if isinstance(a, Space) else Fingerprint.of(a) for a in (x, y))
        source_name, target_name = (a.name if isinstance(a, Space) else "" for a in (x, y))
        return Endpoints(source.without_rows(), target.without_rows(), source_name, target_name)

    def check(self, space: Space, side: Side, *, strict: bool = False) -> None:
        """Refuse a space that is not the one of this side, even if its dimension fits; warn where that is not sure.

        Where a model is not recorded on both sides, blocks of rows from all over the space decide. ``strict`` refuses
        what is not sure, too.
        """
        found = self.find(space, side)
        if found.match.outcome == "same":
            return
        where, name = _rows_of(space, found), self._name(side)
        if found.match.outcome == "unsure" and not strict:
            warnings.warn(
                f"The space {space.name!r} may not be the {side} {name} that this translator was fitted on: "
                f"{where}{found.match.reason}. If you know that it is, accept it: translator.accept(space).",
                SpaceWarning,
                stacklevel=3,
            )
            return
        is_not = "is not" if found.match.outcome == "foreign" else "may not be"
        raise _refusal(
            f"The space {space.name!r} {is_not} the {side} {name} that this translator was fitted on: "
            f"{where}{found.match.reason}",
            acceptable=space.dim == getattr(self, side).dim,
        )

    def check_model(self, made: Fingerprint, side: Side) -> None:
        """Refuse a model that is recorded otherwise than that of this side, before its vectors are made."""
        match = made.matches(getattr(self, side).recorded())
        if not match:
            raise _refusal(f"{made.model} does not make vectors of the {side}: {match.reason}", acceptable=False)

    def find(self, space: Space, side: Side) -> Finding:
        """Compare a space with one side, by what is recorded, or else by blocks of its rows."""
        known: Fingerprint = getattr(self, side)
        match = known.recorded().matches(space.recorded)
        if not match or (known.model is not None and space.recorded.model is not None):
            accepted = match.outcome != "same" and any(a.matches(space.recorded) for a in self.accepted)
            return Finding(ACCEPTED if accepted else match, 0, len(space))
        blocks = list(space.blocks())
        if not any(len(rows) >= MIN_ROWS for _, rows in blocks) and blocks:
            blocks = [(0, np.concatenate([rows for _, rows in blocks]))]
        found = [Finding(self._compare(rows[None], side)[0], first, first + len(rows)) for first, rows in blocks]
        return _worst(found, len(space))

    def find_rows(self, x: np.ndarray, side: Side = "source") -> Finding:
        """Compare every block of the rows of an array with one side."""
        known: Fingerprint = getattr(self, side)
        if len(x) < MIN_ROWS or known.probe is None or x.shape[1] != known.dim:
            return Finding(Match("same", "too little is known"), 0, len(x))
        found = [
            Finding(match, first, last)
            for edges, blocks in _blocks(x)
            for (first, last), match in zip(edges, self._compare(blocks, side), strict=True)
        ]
        return _worst(found, len(x))

    def check_array(self, x: np.ndarray, side: Side = "source") -> None:
        """Warn if rows of an array do not look like the space of this side. A few rows of every block are checked.

        A space that is isotropic, as after whitening, can be told by its norms only.
        """
        found = self.find_rows(x, side)
        if found.match.outcome != "same":
            which = (
                "" if (found.first, found.last) == (0, len(x)) else f"of rows {found.first:,} to {found.last - 1:,}, "
            )
            warnings.warn(
                f"These vectors may not be of the {side} {self._name(side)} that this translator was fitted on: "
                f"{which}{found.match.reason}. Give vectors of the model that it was fitted on, prepared in the same "
                "way; if you know that they are, accept them: translator.accept(Space(x)).",
                SpaceWarning,
                stacklevel=3,
            )

    def is_other_side(self, space: Space, side: Side) -> bool:
        """Return whether the rows of a space are clearly more like the other side."""
        this, other = (self.find(space, s).match for s in (side, "target" if side == "source" else "source"))
        if other.outcome != "same" or this.reason == ACCEPTED.reason:
            return False
        return this.outcome != "same" or (other.agreement or 0.0) > (this.agreement or 1.0) + OTHER_SIDE

    def _compare(self, blocks: np.ndarray, side: Side) -> list[Match]:
        """Compare blocks with this side; what a person has accepted is the same."""
        known: Fingerprint = getattr(self, side)
        matches = _matches(known, blocks)
        for accepted in self.accepted if any(m.outcome != "same" for m in matches) else ():
            if accepted.dim == known.dim and accepted.probe is not None:
                others = _matches(accepted, blocks)
                matches = [ACCEPTED if other else match for match, other in zip(matches, others, strict=True)]
        return matches

    def _name(self, side: Side) -> str:
        name = self.source_name if side == "source" else self.target_name
        return repr(name) if name else "space"

    def accepting(self, fingerprint: Fingerprint) -> Endpoints:
        """Let one more fingerprint pass."""
        return replace(self, accepted=(*self.accepted, fingerprint.without_rows()))

    def outcome(self, width: int) -> Fingerprint:
        """Return the fingerprint of translated vectors: the target's model, and where they came from."""
        if width != self.target.dim:  # the coordinates of a likelihood ratio, which are of no model
            return Fingerprint(dim=width)
        origin = self.source.model or self.source_name or "another space"
        return replace(self.target, probe=None, revision=f"translated from {origin}")

    def about(self) -> dict[str, Any]:
        """Return what to save."""
        return {
            "source": self.source.to_json(),
            "target": self.target.to_json(),
            "names": [self.source_name, self.target_name],
            "accepted": [a.to_json() for a in self.accepted],
        }

    @staticmethod
    def from_saved(about: dict[str, Any]) -> Endpoints:
        """Rebuild from what :meth:`about` gave."""
        source, target = (Fingerprint.from_json(about[side]) for side in ("source", "target"))
        source_name, target_name = about["names"]
        accepted = tuple(Fingerprint.from_json(a) for a in about["accepted"])
        return Endpoints(source, target, source_name, target_name, accepted)


@dataclass(frozen=True)
class BlockCheck:
    """Refuses rows that are not, or not surely, of one side of a translator: block by block, while they pass.

    For migrations, which cannot be watched. It can be pickled.
    """

    endpoints: Endpoints
    side: Side
    name: str
    """What the rows are read from."""

    def __call__(self, vectors: np.ndarray, keys: Sequence[Any] | None = None) -> None:
        """Check rows that are read together; a refusal names the first and the last key of the block."""
        found = self.endpoints.find_rows(vectors, self.side)
        if found.match.outcome == "same":
            return
        first, last = found.first, found.last - 1
        ends = (
            [repr(getattr(k, "as_py", lambda k=k: k)()) for k in (keys[first], keys[last])] if keys is not None else []
        )
        which = f"with keys {ends[0]} to {ends[1]}" if ends else f"{first:,} to {last:,} of a chunk"
        is_not = "are not" if found.match.outcome == "foreign" else "may not be"
        side, name = self.side, self.endpoints._name(self.side)
        raise _refusal(
            f"The rows {which} of {self.name} {is_not} of the {side} {name} that this translator was fitted on: "
            f"{found.match.reason}"
        )


ACCEPTED = Match("same", "it was accepted")


def _refusal(problem: str, *, acceptable: bool = True) -> SpaceMismatchError:
    advice = "Mixing spaces gives wrong answers without a sign of it. Give the right space, or fit a new translator"
    if not acceptable:
        return SpaceMismatchError(f"{problem}. {advice}.")
    error = SpaceMismatchError(f"{problem}. {advice}; if you know better, accept it with")
    return with_remedy(error, python="translator.accept(space), or accept=True.", command="--accept.")


def _matches(known: Fingerprint, blocks: np.ndarray) -> list[Match]:
    """Compare blocks with a fingerprint: by its quiet directions, or all together where it has none."""
    probe = known.probe
    if probe is None or blocks.shape[1] < MIN_ROWS:
        return [Match("same", "too little is known")] * len(blocks)
    if probe.quiet is not None and probe.quiet.tells:
        return compare_blocks(probe, blocks)
    given = probe_of(blocks.reshape(-1, blocks.shape[2])[:: len(blocks)], quiet=False)
    match = Match("same", "no row is finite") if given is None else compare_probes(probe, given, known.dim)
    if probe.quiet is not None and match.outcome == "unsure":  # profiles are sure of little in such a space
        match = replace(match, outcome="same")
    return [match] * len(blocks)


def _blocks(x: np.ndarray) -> Iterator[tuple[list[tuple[int, int]], np.ndarray]]:
    """Yield blocks of rows, (blocks, rows, d), some at a time, each with its first row and the one after its last."""
    count = max(1, len(x) // BLOCK_ROWS)
    edges = np.linspace(0, len(x), count + 1).astype(np.intp)
    rows = min(int(np.diff(edges).min()), ROWS_CHECKED)
    spaced = np.linspace(0, np.diff(edges).min() - 1, rows).astype(np.intp)
    for i in range(0, count, BLOCKS_AT_ONCE):
        part = edges[i : i + BLOCKS_AT_ONCE + 1]
        blocks = as_float(x[part[:-1, None] + spaced])
        with np.errstate(over="ignore", invalid="ignore"):
            square = np.vdot(blocks, blocks)
        if not np.isfinite(square):  # an entry is not finite, or squares overflow
            blocks[~np.isfinite(blocks).all(axis=2)] = 0
        yield list(zip(part[:-1].tolist(), part[1:].tolist(), strict=True)), blocks


def _worst(found: list[Finding], rows: int) -> Finding:
    """Return the first finding of the worst outcome; of all rows, where none is the same."""
    for outcome in ("foreign", "unsure", "same"):
        for one in found:
            if one.match.outcome == outcome:
                some = outcome != "same" and any(other.match.outcome == "same" for other in found)
                return one if some else Finding(one.match, 0, rows)
    return Finding(Match("same", "there are no rows"), 0, rows)


def _rows_of(space: Space, found: Finding) -> str:
    """Name the rows of a block, where the space has others."""
    if found.last - found.first >= len(space):
        return ""
    if space.path is None:
        return f"of rows {found.first:,} to {found.last - 1:,}, "
    from relatent.spaces.io.files import file_row

    file, row = file_row(space.path, found.first)
    return f"of {file} from row {row:,} on, "
