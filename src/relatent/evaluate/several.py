"""Every two of several spaces, compared on the rows that all of them share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from relatent._array import is_space
from relatent._terminal import Tabular, render, stages
from relatent.evaluate.comparison import MAX_PAIRWISE_ROWS, MAX_ROWS, Comparison, compare
from relatent.spaces.sample import sample_rows

# Pairs whose columns fit beside each other in a terminal.
PAIRS_PER_TABLE = 12


@dataclass(frozen=True)
class Comparisons(Tabular):
    """The comparison of every two of several spaces. Index by two names; print it for a table of pairs.

    Of measures that have a direction, such as predictivity, the space that was given first is x.
    """

    names: tuple[str, ...]
    pairs: Mapping[tuple[str, str], Comparison]

    def __getitem__(self, names: tuple[str, str]) -> Comparison:
        """Return the comparison of two spaces by their names, in the order in which they were given."""
        if names not in self.pairs:
            given = ", ".join(f"({a!r}, {b!r})" for a, b in self.pairs)
            raise KeyError(f"{names!r} is not a pair of the comparison. There are: {given}.")
        return self.pairs[names]

    @property
    def n(self) -> int:
        """The rows that all spaces share and that were used."""
        return next(iter(self.pairs.values())).n

    @property
    def seed(self) -> int:
        """The seed of what was drawn."""
        return next(iter(self.pairs.values())).seed

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Return a header and one line per measure: its values for every pair, by the numbers of the spaces."""
        number = {name: i for i, name in enumerate(self.names, start=1)}
        header = ("measure", *(f"{number[a]}–{number[b]}" for a, b in self.pairs))
        measures = [score.name for score in next(iter(self.pairs.values()))]
        return header, [(name, *(f"{one[name].value:.3f}" for one in self.pairs.values())) for name in measures]

    def __str__(self) -> str:
        header, rows = self.table()
        spaces = ", ".join(f"{i} {name}" for i, name in enumerate(self.names, start=1))
        tables = []
        for start in range(1, len(header), PAIRS_PER_TABLE):
            columns = [0, *range(start, min(start + PAIRS_PER_TABLE, len(header)))]
            cells = [[row[i] for i in columns] for row in rows]
            tables.append(render([header[i] for i in columns], cells, numbers=range(1, len(columns))))
        first = next(iter(self.pairs.values()))
        note = f"{self.n} rows of all; null: {first.permutations} shuffled pairings of each pair, seed {self.seed}"
        return "\n".join([*tables, f"Spaces: {spaces}.", note])

    def records(self) -> list[dict[str, Any]]:
        """Return one record of plain values per pair and measure."""
        return [{"x": a, "y": b, **score.to_dict()} for (a, b), one in self.pairs.items() for score in one]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        first = next(iter(self.pairs.values()))
        about = {"spaces": list(self.names), "n": self.n, "permutations": first.permutations, "seed": self.seed}
        return about | {"scores": self.records()}


def compare_all(
    spaces: Mapping[str, Any] | Sequence[Any],
    *,
    k: int = 10,
    permutations: int = 20,
    max_rows: int = MAX_ROWS,
    max_pairwise_rows: int = MAX_PAIRWISE_ROWS,
    seed: int = 0,
    progress: bool | None = None,
) -> Comparisons:
    """Compare every two of several spaces by every measure (:func:`relatent.compare`), on the same rows.

    ``spaces`` are row-aligned arrays, or spaces, of which the rows whose keys are in all of them are used; a mapping
    gives them names. Of more than ``max_rows`` such rows, that many are drawn by the seed.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 4))
    >>> found = compare_all({"x": x, "turned": x[:, ::-1], "noisy": x + rng.normal(size=x.shape)}, permutations=5)
    >>> round(found["x", "turned"]["cka"].value, 2), found["x", "noisy"]["cka"].value < 0.9
    (1.0, True)
    """
    named = _named(spaces)
    if len(named) < 2:
        raise ValueError(f"{len(named)} spaces were given: expected at least 2.")
    with stages(progress) as stage:
        vectors = _read(named, max_rows, seed, stage)
        pairs = {}
        for a, b in combinations(vectors, 2):
            stage(f"{a} and {b}")
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                pairs[a, b] = compare(
                    vectors[a],
                    vectors[b],
                    k=k,
                    permutations=permutations,
                    max_pairwise_rows=max_pairwise_rows,
                    seed=seed,
                    progress=False,
                )
            for one in told:
                warnings.warn(f"{a} and {b}: {one.message}", one.category, stacklevel=2)
    return Comparisons(tuple(vectors), pairs)


def _named(spaces: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    """Return spaces by distinct names."""
    if isinstance(spaces, Mapping):
        return dict(spaces)
    found: dict[str, Any] = {}
    for i, space in enumerate(spaces, start=1):
        name = getattr(space, "name", "") or f"space {i}"
        found[f"{name} ({i})" if name in found else name] = space
    return found


def _read(named: dict[str, Any], max_rows: int, seed: int, stage: Any) -> dict[str, Any]:
    """Read the rows that all spaces share, at most ``max_rows`` of them; arrays are returned as they are."""
    if not is_space(*named.values()):
        return named
    from relatent.spaces.join import common_rows

    stage("joining keys")
    shared = common_rows(*named.values(), names=list(named))
    kept = sample_rows(len(shared[0]), max_rows, seed)
    stage(f"reading {len(kept):,} rows of {len(named)} spaces")
    return {name: space.take(rows[kept]) for (name, space), rows in zip(named.items(), shared, strict=True)}
