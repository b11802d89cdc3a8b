"""`relatent anchors --known`: which items to embed with the new model next, and what that will bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent import anchors
from relatent._terminal import duration
from relatent.deliver.anchors import candidate_count
from relatent.evaluate.interval import Estimate
from relatent.spaces.files import AnyPath, check_new, write_space
from relatent.spaces.join import Matched, match_keys
from relatent.spaces.space import Space
from relatent.translate import Translator

__all__ = ["NextAnchors", "plan_anchors"]

# Pairs that the learning curve is drawn from.
MOST_PAIRS = 5_000
# A gain whose best case is smaller than this is not worth an embedding.
WORTH = 0.005
SMALLEST_PRICE = 0.01


@dataclass(frozen=True)
class NextAnchors:
    """The rows to embed next, and what they are expected to add.

    ``gain`` is what the learning curve of the known pairs says for so many more (None without known pairs); ``hours``
    and ``cost`` are what embedding them takes, where the speed and the price are known.
    """

    rows: np.ndarray
    known: int
    measure: str
    now: Estimate | None
    gain: Estimate | None
    hours: float | None
    cost: float | None

    @property
    def stop(self) -> bool:
        """Whether even the best case of the gain is not worth it."""
        return self.gain is not None and self.gain.high < WORTH

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        told = {name: None if e is None else e.to_dict() for name, e in (("now", self.now), ("gain", self.gain))}
        plain = {"next": len(self.rows), "known": self.known, "measure": self.measure, "stop": self.stop}
        return {**plain, **told, "hours": self.hours, "cost": self.cost}

    def __str__(self) -> str:
        """Say it in two lines for a person."""
        if self.now is None or self.gain is None:
            return f"{len(self.rows):,} items to embed first: no pair is known yet, so that nothing can be expected."
        half = (self.gain.high - self.gain.low) / 2
        effort = [duration(3_600 * self.hours) if self.hours is not None else "", _price(self.cost)]
        spent = ", ".join(part for part in effort if part)
        lines = [
            f"{self.measure} is {self.now.value:.3f} with {self.known:,} pairs.",
            f"{len(self.rows):,} more: {self.gain.value:+.3f} ± {half:.3f}" + (f", {spent}." if spent else "."),
        ]
        return "\n".join([*lines, "More pairs will hardly help: stop here."] if self.stop else lines)


def plan_anchors(
    source: Space,
    target: Space | None,
    budget: int,
    path: AnyPath,
    *,
    goal: str = "vectors",
    rows_per_second: float | None = None,
    price: float | None = None,
    overwrite: bool = False,
    seed: int = 0,
) -> NextAnchors:
    """Choose which items of the source to embed with the target's model next (:func:`relatent.anchors.plan`).

    ``target`` holds those embedded already; their pairs give the learning curve. The items are written to ``path``, in
    the order in which to embed them. ``price`` is per million rows.
    """
    check_new(path, source, target, overwrite=overwrite)
    matched = None if target is None else match_keys(source, target)
    known = np.empty(0, dtype=np.intp) if matched is None else matched.x_rows
    rows = _next_rows(source, known, budget, seed)
    now = gain = None
    if matched is not None and target is not None:
        now, gain = _outlook(source, target, matched, Translator(goal, seed=seed), budget)
    write_space(source.subset(rows), path, overwrite=overwrite)
    hours = None if rows_per_second is None else budget / rows_per_second / 3_600
    return NextAnchors(rows, len(known), "MRR", now, gain, hours, None if price is None else budget * price / 1_000_000)


def _next_rows(source: Space, known: np.ndarray, budget: int, seed: int) -> np.ndarray:
    """Plan among a random sample of a large space, the known rows included."""
    count = candidate_count(source, budget + len(known))
    rows = np.arange(len(source))
    if count < len(source):
        rows = np.union1d(known, anchors.uniform(np.broadcast_to(0.0, (len(source), 1)), count, seed))
    chosen = anchors.plan(source.take(rows), budget, np.searchsorted(rows, np.sort(known)), seed)
    return np.asarray(rows[chosen])


def _outlook(
    source: Space, target: Space, matched: Matched, translator: Translator, budget: int
) -> tuple[Estimate, Estimate]:
    """Return the MRR to expect with the known pairs, and what so many more would add."""
    kept = np.random.default_rng(translator.seed).permutation(len(matched))[:MOST_PAIRS]
    x, y = source.take(matched.x_rows[kept]), target.take(matched.y_rows[kept])
    if np.array_equal(x, y):
        raise ValueError(
            f"{target.name} holds the vectors of {source.name} itself: expected what the new model gave for the items "
            "that it embedded already."
        )
    quality = translator.fit(x, y).expected_quality()
    return quality["mrr"], quality.more(budget)


def _price(cost: float | None) -> str:
    if cost is None:
        return ""
    return f"at a price of {cost:,.2f}" if cost >= SMALLEST_PRICE else f"at a price below {SMALLEST_PRICE}"
