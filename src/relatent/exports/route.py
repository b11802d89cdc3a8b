"""Which texts go which way, for wrappers of embedders: through the map, or through the target's own embedder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent.exports.formats import map_of

ROLES = ("query", "document")


@dataclass(frozen=True)
class Route:
    """Two embedders and a translator between them.

    The roles in ``translate`` are embedded by ``source`` and translated. The others are embedded by ``target``, the
    model of the space that is translated into.
    """

    translator: Any
    source: Any
    target: Any = None
    translate: tuple[str, ...] = ROLES

    def __post_init__(self) -> None:
        map_of(self.translator)
        if not self.translate or not set(self.translate) <= set(ROLES):
            raise ValueError(f"translate is {self.translate!r}: expected one or both of 'query' and 'document'.")
        if getattr(self.translator, "target_map_", None) is not None and set(self.translate) == set(ROLES):
            raise ValueError(
                "This translator has a map for queries and one for documents: one role is translated and the other "
                "prepared for it. Name the one "
                'that the source\'s model embeds, such as translate=("query",), or fit with frozen_target=True.'
            )

    def embedder(self, role: str) -> Any:
        """Return what embeds texts of a role."""
        if role in self.translate:
            return self.source
        if self.target is None:
            raise ValueError(
                f"Nothing was given that embeds a {role}, which is not translated: give target, the embedder of the "
                f"space that is translated into, or name {role!r} in translate."
            )
        return self.target

    def rows(self, vectors: Any, role: str) -> np.ndarray:
        """Bring vectors that the embedder of a role gave into the common space."""
        rows = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
        if role in self.translate:
            return np.asarray(self.translator.transform(rows))
        prepare = getattr(self.translator, "transform_target", None)
        return rows if prepare is None else np.asarray(prepare(rows))

    def lists(self, vectors: Any, role: str) -> list[list[float]]:
        """Return the same as lists of numbers."""
        found: list[list[float]] = self.rows(vectors, role).tolist() if len(vectors) else []
        return found

    def one(self, vector: Any, role: str) -> list[float]:
        """Return the same for one vector."""
        return self.lists([vector], role)[0]
