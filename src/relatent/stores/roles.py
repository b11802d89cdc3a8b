"""Which of two fields is served, as a note that a store keeps: JSON in a comment, in metadata or in a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from relatent.stores.store import Field


@dataclass(frozen=True)
class Roles:
    """The field that was served first, the one that was added, and which of them is served.

    >>> roles = Roles(Field("a", 2), Field("b", 3), switched=True)
    >>> roles.served.name, roles.new, roles.old.name, Roles.of_note(roles.note()) == roles
    ('b', None, 'a', True)
    """

    first: Field
    second: Field | None = None
    switched: bool = False
    dropping: bool = False
    """Whether dropping the old field was begun: part of it may be gone, and it is not served again."""

    @property
    def served(self) -> Field:
        """The field that is served."""
        return self.second if self.switched and self.second is not None else self.first

    @property
    def new(self) -> Field | None:
        """The field that was added and is not served."""
        return None if self.switched else self.second

    @property
    def old(self) -> Field | None:
        """The field that was served before."""
        return self.first if self.switched else None

    @property
    def finished(self) -> Roles:
        """The roles once the old field is gone: what is served stands alone."""
        return Roles(self.served)

    def note(self) -> dict[str, Any]:
        """Return the roles as plain values, for JSON."""
        fields = (self.first, self.second)
        first, second = (None if f is None else asdict(replace(f, provenance=dict(f.provenance))) for f in fields)
        return {"first": first, "second": second, "switched": self.switched, "dropping": self.dropping}

    @staticmethod
    def of_note(note: Mapping[str, Any]) -> Roles:
        """Return the roles that were noted."""
        second = None if note["second"] is None else Field(**note["second"])
        return Roles(Field(**note["first"]), second, note["switched"], note.get("dropping", False))
