"""What is in a file: a space, or a fitted object."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from relatent._saved import is_saved
from relatent.deliver.loading import load
from relatent.spaces.files import AnyPath, read_space
from relatent.spaces.inspect import Inspection, inspect_space
from relatent.translate import Translator

__all__ = ["Fitted", "describe"]


@dataclass(frozen=True)
class Fitted:
    """A fitted object, at a glance."""

    kind: str
    joins: str
    dims: tuple[int, int]
    pairs: int
    known_keys: int
    goal: str
    map: str

    def __str__(self) -> str:
        """Say it in a few lines for a person."""
        if not self.joins:
            return f"{self.kind}, saved by relatent"
        return "\n".join(
            [
                f"{self.kind}: {self.joins}",
                f"  {'coordinates':<16} {self.dims[0]} → {self.dims[1]}",
                f"  {'fitted on':<16} {self.pairs:,} pairs, {self.known_keys:,} of them known by key",
                f"  {'goal':<16} {self.goal}",
                f"  {'map':<16} {self.map}",
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def describe(path: AnyPath, *, progress: bool | None = None, **reading: Any) -> Inspection | Fitted:
    """Say what a file holds; ``reading`` as in :func:`relatent.read_space`."""
    if str(path).endswith(".safetensors") and Path(path).is_file() and is_saved(path):
        return _fitted(load(path))
    return inspect_space(read_space(path, **reading), progress=progress)


def _fitted(thing: Any) -> Fitted:
    if not isinstance(thing, Translator):
        return Fitted(thing.kind, "", (0, 0), 0, 0, "", "")
    joins, chosen = thing.endpoints_, thing.selection_
    ends = [joins.source.model or joins.source_name, joins.target.model or joins.target_name]
    return Fitted(
        thing.kind,
        " → ".join(end or "unnamed" for end in ends),
        (thing.n_features_in_, thing.map_.width),
        thing.n_pairs_,
        len(thing.seen_keys_),
        thing.goal,
        thing.map if chosen is None else f"{chosen.chosen}, chosen by {chosen.criterion}",
    )
