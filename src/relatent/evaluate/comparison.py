"""Every measure of similarity between two spaces in one table, each beside what chance would give."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import Array, as_parallel, random_generator, to_numpy
from relatent._terminal import Stage, Tabular, no_stage, render
from relatent.evaluate.checks import check_fewer, check_varies
from relatent.evaluate.measures import MEASURES, Measure, Settings
from relatent.evaluate.pairwise import sampled

__all__ = ["Comparison", "Score", "compare"]


@dataclass(frozen=True)
class Score:
    """One measure of two spaces: its value, what shuffled rows give, and how to read it.

    ``null`` is the mean over shuffled pairings; ``p_value`` the share of pairings, the true one among them, that look
    at least as similar as the true one; ``rows`` how many rows entered.
    """

    name: str
    value: float
    null: float
    p_value: float
    rows: int
    measure: Measure

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        plain = {name: getattr(self, name) for name in ("name", "value", "null", "p_value", "rows")}
        return plain | {"unchanged_by": self.measure.unchanged_by, "means": self.measure.means}


@dataclass(frozen=True)
class Comparison(Tabular):
    """All measures of two spaces. Iterate for its scores, index by name, print it for a table."""

    scores: tuple[Score, ...]
    n: int
    permutations: int
    seed: int

    def __iter__(self) -> Iterator[Score]:
        """Return an iterator over the scores."""
        return iter(self.scores)

    def __getitem__(self, name: str) -> Score:
        """Return a score by the name of its measure."""
        for score in self.scores:
            if score.name == name:
                return score
        raise KeyError(f"{name!r} is not in the comparison. There are: {', '.join(s.name for s in self.scores)}.")

    @property
    def least_p_value(self) -> float:
        """The smallest p-value that so many shuffled pairings can show."""
        return 1 / (1 + self.permutations)

    def __str__(self) -> str:
        """Return the table as text for a person."""
        cells = [
            (s.name, f"{s.value:.3f}", f"{s.null:.3f}", self._p(s), s.rows, s.measure.means, s.measure.unchanged_by)
            for s in self.scores
        ]
        table = render(("measure", "value", "null", "p", "rows", "means", "unchanged by"), cells, numbers=(1, 2, 3, 4))
        return f"{table}\n{self.n} parallel rows; null: {self.permutations} shuffled pairings, seed {self.seed}"

    def records(self) -> list[dict[str, Any]]:
        """Return one record of plain values per measure."""
        return [score.to_dict() for score in self.scores]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"n": self.n, "permutations": self.permutations, "seed": self.seed, "scores": self.records()}

    def _p(self, score: Score) -> str:
        # No shuffled pairing looked as similar: more of them could only lower the figure.
        bound = "≤" if score.p_value <= self.least_p_value else ""
        return f"{bound}{score.p_value:.{3 if self.permutations < 1_000 else 5}f}"


def compare(
    x: Array,
    y: Array,
    *,
    k: int = 10,
    permutations: int = 20,
    max_rows: int = 2_000,
    seed: int = 0,
    on_stage: Stage = no_stage,
) -> Comparison:
    """Return every measure of two parallel spaces, each beside its null and with a short reading.

    The linear measures use all rows, in O(n d²). Those that relate rows to rows use the same seeded sample of at most
    ``max_rows`` of them; the column ``rows`` says which. The null of each is the mean over ``permutations`` shuffled
    pairings of exactly the rows it used, so that the bias that few rows give it shows; no p-value can fall below
    1 / (1 + ``permutations``), and is marked ≤ there. ``k`` is for the measures of neighborhoods; relative similarity
    uses up to 300 random rows as anchors. ``on_stage`` is called with the name of each stage of work that begins.

    Warns when the true pairing looks no better than shuffled ones, and when rows are too few for the coordinates.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(200, 5))
    >>> scores = compare(x, x @ np.linalg.qr(rng.normal(size=(5, 5)))[0])
    >>> round(scores["cka"].value, 6), scores["cka"].p_value < 0.05
    (1.0, True)
    """
    x, y = as_parallel(x=x, y=y)
    check_varies(x=x, y=y)
    if permutations < 1:
        raise ValueError(f"permutations is {permutations}: expected at least 1. There is no score without its null.")
    some = tuple(map(to_numpy, sampled(x, y, max_rows, seed)))
    settings = Settings(check_fewer(k, len(some[0]) - 1), seed)
    rng = random_generator(seed)
    scores: list[Score] = []
    for all_rows, (a, b), kind in ((True, (to_numpy(x), to_numpy(y)), "linear"), (False, some, "pairwise")):
        on_stage(f"{kind} measures of {len(a):,} rows, and of {permutations:,} shuffled pairings")
        table = {name: m for name, m in MEASURES.items() if m.all_rows is all_rows}
        scores += _scored(table, a, b, settings, permutations, rng)
    result = Comparison(tuple(scores), x.shape[0], permutations, seed)
    _warn_shuffled(result)
    return result


def _scored(
    table: dict[str, Measure],
    x: np.ndarray,
    y: np.ndarray,
    settings: Settings,
    permutations: int,
    rng: np.random.Generator,
) -> Iterator[Score]:
    """Score the true pairing and shuffled ones by every measure, what they share being prepared once."""
    views = {prepare: prepare(x, y, settings) for prepare in dict.fromkeys(m.prepare for m in table.values())}

    def values(order: np.ndarray) -> dict[str, float]:
        seen = {prepare: view(order) for prepare, view in views.items()}
        return {name: float(m.score(seen[m.prepare])) for name, m in table.items()}

    n = len(x)
    true = values(np.arange(n))
    null = [values(rng.permutation(n)) for _ in range(permutations)]
    for name, measure in table.items():
        shuffled = np.asarray([draw[name] for draw in null])
        sign = 1 if measure.larger_is_closer else -1
        p = (1 + int(np.sum(sign * shuffled >= sign * true[name]))) / (1 + permutations)
        yield Score(name, true[name], float(np.mean(shuffled)), p, n, measure)


def _warn_shuffled(result: Comparison) -> None:
    unproven: Sequence[Score] = [s for s in result if s.p_value > 1.5 * result.least_p_value]
    if 2 * len(unproven) < len(result.scores):
        return
    warnings.warn(
        f"{len(unproven)} of {len(result.scores)} measures score the given pairing no better than shuffled ones: row i "
        "of x and row i of y do not seem to mean the same. The likely cause is that one side was sorted, shuffled or "
        "filtered without the other. Join the two spaces on keys. If the pairing is right, the spaces share nothing.",
        stacklevel=3,
    )
