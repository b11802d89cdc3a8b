"""Blocks of coordinates, such as the heads of an attention layer: a map for each, and one that holds them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np

from relatent.spaces.normalize import UNIT_ROWS
from relatent.steps import Map
from relatent.translate.goals import Choice, Settings, Solution, Solver
from relatent.translate.pairs import Pairs
from relatent.translate.source_penalties import weighed
from relatent.translate.sources import parts


@dataclass(frozen=True)
class BlockChoice(Choice):
    """A choice for each block, with the penalties of several sources there."""

    blocks: tuple[tuple[Choice, tuple[float, ...] | None], ...]

    def stricter(self, factor: float) -> BlockChoice:
        """Multiply all penalties."""
        return replace(self, blocks=tuple((one.stricter(factor), held) for one, held in self.blocks))

    @property
    def words(self) -> tuple[str, ...]:
        """The normalization, and how many blocks there are."""
        return self.normalize, f"{len(self.blocks)} blocks"


@dataclass(frozen=True)
class Blocks:
    """A goal for each block of coordinates by itself."""

    goal: Solver
    spec: int | list[tuple[int, int]]

    @staticmethod
    def of(goal: Solver, spec: int | Sequence[Sequence[int]], settings: Settings, name: str) -> Blocks:
        """Refuse what is not affine, and maps that do not go from the source into the target."""
        if name != "vectors":
            raise ValueError(f'blocks were given for goal {name!r}: expected goal "vectors", or a map by its name.')
        if settings.normalize in UNIT_ROWS:
            raise ValueError(
                f"normalize={settings.normalize!r} scales whole rows, and blocks are mapped by themselves: expected an "
                "affine normalization, such as 'iso'."
            )
        return Blocks(goal, _checked(spec))

    def needs(self, settings: Settings) -> tuple[bool, bool]:
        """Return whether the full scatter of the source and of the target is needed."""
        return self.goal.needs(settings)

    def choose(self, pairs: Pairs, settings: Settings) -> BlockChoice:
        """Choose for each block by itself."""
        affine = replace(settings, max_cost="affine")
        blocks = [weighed(pairs.block(x, y, widths), affine) for x, y, widths in self._columns(pairs)]
        found = tuple((self.goal.choose(block, affine), block.penalties) for block in blocks)
        return BlockChoice(settings.normalize, len(pairs), None, found)

    def solve(self, pairs: Pairs, choice: BlockChoice) -> Solution:
        """Solve for each block, and put the maps together."""
        columns = self._columns(pairs)
        maps = [
            self.goal.solve(replace(pairs.block(x, y, widths), penalties=held), one).source
            for (x, y, widths), (one, held) in zip(columns, choice.blocks, strict=True)
        ]
        return Solution(Map.of_blocks(maps, [x for x, _, _ in columns], [y for _, y, _ in columns]))

    def _columns(self, pairs: Pairs) -> list[tuple[np.ndarray, np.ndarray, tuple[int, ...] | None]]:
        """Return the coordinates of each block on both sides, and the widths of its sources."""
        sources = pairs.widths or pairs.dims[:1]
        if isinstance(self.spec, int):
            uneven = [width for width in (*sources, pairs.dims[1]) if width % self.spec]
            if uneven:
                raise ValueError(
                    f"blocks is {self.spec}, and {uneven[0]} coordinates cannot be cut into as many of equal width: "
                    "expected a divisor of both sides (and of every source), or a list of (source, target) widths."
                )
            cut = [[width // self.spec] * self.spec for width in (*sources, pairs.dims[1])]
        else:
            cut = [list(side) for side in zip(*self.spec, strict=True)]
            if len(sources) > 1 or [sum(side) for side in cut] != list(pairs.dims):
                raise ValueError(
                    f"blocks have {[sum(side) for side in cut]} coordinates in all: expected {list(pairs.dims)}, those "
                    "of the source and of the target. Of several sources, give the number of blocks."
                )
        starts = np.cumsum([0, *sources])
        *of_sources, of_target = [list(parts(side)) for side in cut]
        found = []
        for i, columns in enumerate(of_target):
            own = [np.r_[side[i]] + start for side, start in zip(of_sources, starts, strict=False)]
            widths = None if pairs.widths is None else tuple(map(len, own))
            found.append((np.concatenate(own), np.r_[columns], widths))
        return found


def _checked(spec: Any) -> int | list[tuple[int, int]]:
    """Return a number of blocks, or the widths of each on both sides."""
    try:
        found = index(spec) if np.ndim(spec) == 0 else [(index(x), index(y)) for x, y in spec]
    except (TypeError, ValueError):
        found = 0
    widths = [found] if isinstance(found, int) else [width for pair in found for width in pair]
    if min(widths, default=0) < 1:
        raise ValueError(
            f"blocks is {spec!r}: expected a number of 1 or more, or a list of (source, target) widths of 1 or more."
        )
    return found
