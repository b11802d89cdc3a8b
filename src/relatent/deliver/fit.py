"""Fit a translator on two spaces that share keys, and keep part of the pairs for judging it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from relatent.spaces.join import Matched, match_keys
from relatent.spaces.keys import held_out as is_held_out
from relatent.spaces.keys import key_hashes
from relatent.spaces.space import Space
from relatent.translate.selection import Selection
from relatent.translate.translator import Translator

__all__ = ["FitReport", "fit_spaces", "unseen_rows"]

# More pairs than this hardly change a closed-form map, and would have to be held in memory.
MOST_PAIRS = 100_000
FEWEST_HELD_OUT = 100


@dataclass(frozen=True)
class FitReport:
    """What a translator was fitted on, and what was kept from it."""

    source: str
    target: str
    dims: tuple[int, int]
    joined: str
    pairs: int
    held_out: int
    unused: int
    selection: Selection | None

    def __str__(self) -> str:
        """Say it in a few lines for a person."""
        lines = [
            f"{self.source} ({self.dims[0]}-d) → {self.target} ({self.dims[1]}-d): {self.joined}.",
            f"Fitted on {self.pairs:,} pairs; {self.held_out:,} held out for `relatent evaluate`"
            + (f"; {self.unused:,} more not needed." if self.unused else "."),
        ]
        if self.selection is not None:
            lines.append(f"Map: {self.selection.chosen}, chosen by {self.selection.criterion}.")
        if self.held_out < FEWEST_HELD_OUT:
            lines.append(f"Only {self.held_out} pairs are left to judge it by: expect wide intervals.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Give plain values, for JSON."""
        return asdict(self)


def fit_spaces(
    translator: Translator,
    source: Space,
    target: Space,
    *,
    held_out: float = 0.2,
    max_pairs: int = MOST_PAIRS,
    anchors: Sequence[Any] | None = None,
) -> FitReport:
    """Fit on the keys that two spaces share, without those held out.

    Whether a key is held out follows from the key alone (:func:`relatent.spaces.held_out`), so that the same keys are
    held out in every run, file and order. The translator remembers the keys that it was fitted on, and an evaluation
    leaves them out. ``anchors`` are keys to fit on instead of all; then nothing but the other keys is held out.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 4))
    >>> t = Translator()
    >>> print(fit_spaces(t, Space(x, name="old"), Space(2 * x[:, ::-1], name="new")).pairs)
    392
    """
    matched = match_keys(source, target)
    hashes = key_hashes(matched.keys)
    wanted = ~is_held_out(hashes, held_out) if anchors is None else np.isin(hashes, _anchor_hashes(anchors, matched))
    rows = np.flatnonzero(wanted)
    if len(rows) < 2:
        raise ValueError(
            f"{len(rows)} pairs are left to fit on, of {len(matched)} keys in common: expected at least 2, and about "
            "as many as there are coordinates. Hold out less, or give more rows."
        )
    rows = _most(rows, hashes, max_pairs)
    pairs = (_part(source, matched.x_rows[rows], matched, rows), _part(target, matched.y_rows[rows], matched, rows))
    translator.fit(*pairs)
    kept = int(np.sum(~wanted))
    return FitReport(
        source.name,
        target.name,
        (source.dim, target.dim),
        matched.summary(),
        len(rows),
        kept,
        len(matched) - len(rows) - kept,
        translator.selection_,
    )


def unseen_rows(translator: Translator, matched: Matched, most: int, first: Sequence[Any] = ()) -> np.ndarray:
    """Find the pairs that a translator was not fitted on: those of the keys in ``first``, then others, in row order."""
    hashes = key_hashes(matched.keys)
    rows = np.flatnonzero(~np.isin(hashes, translator.seen_keys_))
    if not len(rows):
        raise ValueError(
            f"The translator was fitted on all {len(matched)} keys in common: expected others to judge it by. Fit "
            "again and hold part out, or give spaces of other keys."
        )
    later = ~np.isin(hashes[rows], key_hashes(first))
    return np.sort(rows[np.lexsort((hashes[rows], later))][:most])


def _most(rows: np.ndarray, hashes: np.ndarray, most: int) -> np.ndarray:
    """Take at most so many rows, by the largest numbers of their keys: a draw that any run repeats."""
    if most < 2:
        raise ValueError(f"At most {most} pairs were allowed: expected at least 2.")
    return np.sort(rows[np.argsort(hashes[rows])[::-1][:most]])


def _part(space: Space, rows: np.ndarray, matched: Matched, pairs: np.ndarray) -> Space:
    return Space(space.take(rows), matched.keys[pairs], space.name, space.fingerprint)


def _anchor_hashes(anchors: Sequence[Any], matched: Matched) -> np.ndarray:
    hashes = key_hashes(anchors)
    missing = ~np.isin(hashes, key_hashes(matched.keys))
    if missing.any():
        first = anchors[int(np.argmax(missing))]
        raise ValueError(
            f"{int(missing.sum())} of the {len(hashes)} anchors are not in both spaces, first {first!r}: "
            "take anchors from the keys that both have."
        )
    return hashes
