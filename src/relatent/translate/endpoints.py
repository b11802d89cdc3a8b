"""Which two spaces a translator joins, and the refusal of any other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.space import Space

__all__ = ["Endpoints", "SpaceMismatchError"]


class SpaceMismatchError(ValueError):
    """A space was given that is not the one the translator was fitted on."""


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

    def check(self, space: Space, side: str) -> None:
        """Refuse a space that is not the one of this side, even if its dimension fits."""
        expected, name = (self.source, self.source_name) if side == "source" else (self.target, self.target_name)
        given = space.fingerprint
        if expected.matches(given) or any(a.matches(given) for a in self.accepted):
            return
        raise SpaceMismatchError(
            f"The space {space.name!r} is not the {side} {name!r} that this translator was fitted on: "
            f"{expected.matches(given).reason}. Mixing spaces gives wrong answers without a sign of it. Give the right "
            "space, or fit a new translator; if you know better, accept it (--accept, or translator.accept(space))."
        )

    def accepting(self, fingerprint: Fingerprint) -> Endpoints:
        """Let one more fingerprint pass."""
        return replace(self, accepted=(*self.accepted, fingerprint))

    def outcome(self, width: int) -> Fingerprint:
        """Return the fingerprint of translated vectors: the target's model, and where they came from."""
        if width != self.target.dim:  # the coordinates of a likelihood ratio, which are nobody's model
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
