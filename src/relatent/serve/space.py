"""Which space the answers are in, by an id that anyone can compare."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

from relatent.exports.about import space_id
from relatent.exports.steps import map_of
from relatent.spaces.fingerprint import one_model
from relatent.translate import Translator

__all__ = ["ServedSpace"]


@dataclass(frozen=True)
class ServedSpace:
    """The space of the answers. What one translator sends both sides into is a space of its own."""

    id: str
    model: str
    dim: int
    metric: str
    translated_from: str

    @staticmethod
    def of(translator: Translator, side: str, model: str | None = None) -> ServedSpace:
        """Describe what comes out of one side of a translator."""
        ends, fitted = translator.endpoints_, map_of(translator, side)
        two_sided = translator.target_map_ is not None
        name = model or ends.target.model or ends.target_name or "translated"
        given, given_name = (ends.source, ends.source_name) if side == "source" else (ends.target, ends.target_name)
        found = hashlib.sha256(translator.matrix_.tobytes()).hexdigest()[:16] if two_sided else space_id(ends.target)
        return ServedSpace(found, name, fitted.width, translator.metric_, given.model or given_name or "unnamed")

    def is_called(self, expected: str) -> bool:
        """Return whether a caller means this space: by its id, or by the name of its model."""
        return expected == self.id or one_model(expected, self.model)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)
