"""Which two spaces a translator joins, and the refusal of any other."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from relatent._errors import with_remedy
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.probe import MIN_ROWS, Match, SpaceWarning, probe_of, surely_same
from relatent.spaces.space import Space

# Rows of an array that are checked: enough to tell, few beside what a translation costs.
ROWS_CHECKED = 64
# Directions of theirs that are checked first: where these are enough, the check costs a fraction.
DIRECTIONS_SCREENED = 64

Side = Literal["source", "target"]


class SpaceMismatchError(ValueError):
    """A space was given that is not the one the translator was fitted on."""


def check_side(side: str) -> None:
    """Refuse what is neither side of a translator."""
    if side not in get_args(Side):
        raise ValueError(f"side is {side!r}: expected 'source' or 'target'.")


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
        return Endpoints(source, target, source_name, target_name)

    def check(self, space: Space, side: Side) -> None:
        """Refuse a space that is not the one of this side, even if its dimension fits; warn where that is not sure."""
        match, name = self._match(space.fingerprint, side), self._name(side)
        if match.outcome == "foreign":
            refused = (
                f"The space {space.name!r} is not the {side} {name} that this translator was fitted on: "
                f"{match.reason}. Mixing spaces gives wrong answers without a sign of it. Give the right space, or fit "
                "a new translator"
            )
            if space.dim != getattr(self, side).dim:
                raise SpaceMismatchError(f"{refused}.")
            error = SpaceMismatchError(f"{refused}; if you know better, accept it with")
            raise with_remedy(error, python="translator.accept(space).", command="--accept.")
        if match.outcome == "unsure":
            warnings.warn(
                f"The space {space.name!r} may not be the {side} {name} that this translator was fitted on: "
                f"{match.reason}. If you know that it is, accept it: translator.accept(space).",
                SpaceWarning,
                stacklevel=3,
            )

    def check_array(self, x: np.ndarray, side: Side = "source") -> None:
        """Warn if an array does not look like the space of this side. Checks few rows, and none of a small array.

        A foreign space, noise, zeros and vectors that were rescaled or normalized are noticed from 20 rows on; a space
        that is isotropic, as after whitening, can be told by its norms only.
        """
        expected: Fingerprint = getattr(self, side)
        if len(x) < MIN_ROWS or expected.probe is None or x.shape[1] != expected.dim:
            return
        sample = x[np.linspace(0, len(x) - 1, min(len(x), ROWS_CHECKED)).astype(np.intp)]
        screened = probe_of(sample, DIRECTIONS_SCREENED)
        if screened is not None and surely_same(expected.probe.along(DIRECTIONS_SCREENED), screened, expected.dim):
            return
        match = self._match(Fingerprint.of(sample), side)
        if match.outcome != "same":
            warnings.warn(
                f"These vectors may not be of the {side} {self._name(side)} that this translator was fitted on: "
                f"{match.reason}. Give vectors of the model that it was fitted on, prepared in the same way; if you "
                "know that they are, accept them: translator.accept(Space(x)).",
                SpaceWarning,
                stacklevel=3,
            )

    def _match(self, given: Fingerprint, side: Side) -> Match:
        """Compare with this side; what a person has accepted is the same."""
        match = (self.source if side == "source" else self.target).matches(given)
        if match.outcome != "same" and any(accepted.matches(given) for accepted in self.accepted):
            return Match("same", "it was accepted")
        return match

    def _name(self, side: Side) -> str:
        name = self.source_name if side == "source" else self.target_name
        return repr(name) if name else "space"

    def accepting(self, fingerprint: Fingerprint) -> Endpoints:
        """Let one more fingerprint pass."""
        return replace(self, accepted=(*self.accepted, fingerprint))

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
