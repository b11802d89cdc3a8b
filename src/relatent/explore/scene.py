"""The items on the page: those that all spaces share, or a sample of them, with their vectors in every space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from relatent._array import suggest
from relatent._linalg import Plane
from relatent.anchors import uniform
from relatent.spaces import Space, key_hashes
from relatent.spaces.join import common_rows
from relatent.spaces.sample import shuffled_rows

# Columns that are taken for labels unless one is named.
LABEL_NAMES = ("label", "class", "category", "topic", "language")
MAX_ANCHORS = 2_000
# A browser gives a page few drawing contexts, and more panels could not be told apart.
MAX_SPACES = 6
MIN_SPACES = 2
MIN_ITEMS = 10


@dataclass(frozen=True, eq=False)
class Scene:
    """Items with their vectors in every space. The last space is the target that the others are translated into."""

    vectors: dict[str, np.ndarray]
    keys: list[str]
    labels: list[str] | None
    label_name: str | None
    anchors: np.ndarray
    """Rows to fit on, in the order in which they are added."""
    total: int
    """How many items all spaces share; those beyond the rows here were left out by the sample."""

    @classmethod
    def of(
        cls,
        spaces: Sequence[Space],
        *,
        label: str | None = None,
        seen_keys: np.ndarray | None = None,
        points: int = 20_000,
        seed: int = 0,
    ) -> Scene:
        """Join spaces on their keys and draw at most ``points`` of their items by the seed.

        ``seen_keys`` are hashes of keys that a translator was fitted on (``seen_keys_``): these are the anchors, and
        up to half of the points are kept for them. Without it, the anchors are drawn from half of the items.
        """
        named = _named(spaces)
        rows = dict(zip(named, common_rows(*named.values()), strict=True))
        first = next(iter(named))
        keys, total = named[first].keys[rows[first]], len(rows[first])
        if total < MIN_ITEMS:
            raise ValueError(f"The spaces share {total} items: expected {MIN_ITEMS} or more, to see anything.")
        seen = np.zeros(total, bool) if seen_keys is None else np.isin(key_hashes(keys), seen_keys)
        chosen = _sampled(seen, points, seed)
        rows = {name: taken[chosen] for name, taken in rows.items()}
        label_name, labels = _labels(named, rows, label)
        return cls(
            vectors={name: _checked(space, rows[name]) for name, space in named.items()},
            keys=[str(key) for key in keys[chosen]],
            labels=labels,
            label_name=label_name,
            anchors=_anchors(seen[chosen], seed),
            total=total,
        )

    @property
    def target(self) -> str:
        """The name of the space that the others are translated into."""
        return list(self.vectors)[-1]

    @property
    def sources(self) -> list[str]:
        """The names of the others."""
        return list(self.vectors)[:-1]

    @property
    def held_out(self) -> np.ndarray:
        """The rows that nothing is fitted on; all rows if every one is an anchor."""
        rest = np.setdiff1d(np.arange(len(self)), self.anchors)
        return rest if len(rest) else np.arange(len(self))

    @cached_property
    def planes(self) -> dict[str, Plane]:
        """The principal axes of every space."""
        return {name: Plane.fit(x) for name, x in self.vectors.items()}

    def __len__(self) -> int:
        return len(self.keys)


def _named(spaces: Sequence[Space]) -> dict[str, Space]:
    """Return spaces by name: where two have the same, a number tells them apart."""
    if not MIN_SPACES <= len(spaces) <= MAX_SPACES:
        raise ValueError(f"{len(spaces)} spaces were given: expected {MIN_SPACES} to {MAX_SPACES} to compare by eye.")
    named: dict[str, Space] = {}
    for i, space in enumerate(spaces, start=1):
        name = space.name or f"space {i}"
        named[f"{name} ({i})" if name in named else name] = space
    return named


def _sampled(seen: np.ndarray, points: int, seed: int) -> np.ndarray:
    """Return which items to keep, in order: anchors up to half of the points, others for the rest."""
    if len(seen) <= points:
        return np.arange(len(seen))
    rng = np.random.default_rng(seed)
    anchors, others = rng.permutation(np.flatnonzero(seen)), rng.permutation(np.flatnonzero(~seen))
    kept = anchors[: max(points // 2, points - len(others))]
    return np.sort(np.concatenate([kept, others[: points - len(kept)]]))


def _anchors(seen: np.ndarray, seed: int) -> np.ndarray:
    """Return the rows to fit on in a random order, so that more anchors are those before and new ones."""
    if seen.any():
        return shuffled_rows(np.flatnonzero(seen), MAX_ANCHORS, seed)
    return uniform(np.empty((len(seen), 1)), min(MAX_ANCHORS, len(seen) // 2), seed=seed)


def _labels(
    spaces: dict[str, Space], rows: dict[str, np.ndarray], wanted: str | None
) -> tuple[str | None, list[str] | None]:
    """Return the name and the values of the column of labels, of the first space that has it."""
    for name in LABEL_NAMES if wanted is None else (wanted,):
        for which, space in spaces.items():
            if name in space.schema.names:
                values = space.others.column(name).take(pa.array(rows[which]))
                return name, [str(value) for value in values.to_pylist()]
    if wanted is None:
        return None, None
    every = dict.fromkeys(name for space in spaces.values() for name in space.schema.names)
    raise ValueError(f"There is no column {wanted!r} to color by.{suggest(wanted, every)}")


def _checked(space: Space, rows: np.ndarray) -> np.ndarray:
    """Return vectors to draw and compare, which single precision is enough for."""
    with np.errstate(over="ignore"):
        found = space.take(rows).astype(np.float32)
    if not np.isfinite(found).all():
        raise ValueError(
            f"The vectors of {space.name} hold NaN, infinity, or numbers beyond float32: leave these rows out."
        )
    return found
