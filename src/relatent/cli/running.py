"""Commands that look after a system that runs: thresholds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relatent.cli.frame import Answer, command
from relatent.cli.options import ByRow, Key, Seed, SourceSpace, TargetKey, TargetSpace, TargetVector, Vector
from relatent.cli.options import spaces as two_spaces

__all__ = ["thresholds"]


@command
def thresholds(
    old: SourceSpace,
    new: TargetSpace,
    cutoff: Annotated[
        list[float] | None, typer.Option("--cutoff", "-c", help="An old cut-off; repeat for several.")
    ] = None,
    purpose: Annotated[
        str, typer.Option("--for", help="link (every two items), dedup or cache (an item and its nearest).")
    ] = "link",
    same: Annotated[
        Path | None,
        typer.Option("--same", help="Keys that belong together, two columns: cut at equal precision, not equal rate."),
    ] = None,
    max_rows: Annotated[int, typer.Option("--rows", help="Rows to read at most.")] = 5_000,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    target_vector: TargetVector = None,
    target_key: TargetKey = None,
    by_row: ByRow = False,
) -> Answer:
    """Find the new cut-off on similarity that does what an old one did.

    OLD are vectors of the old model; NEW those of the new model, or translated ones. The cosine similarities of two
    models are not on one scale: a cut-off that found duplicates in one may link everything in the other.

    Examples:
      relatent thresholds old.parquet new.parquet --cutoff 0.7 --cutoff 0.9
      relatent thresholds old.parquet translated.parquet --for dedup --same duplicates.csv --json
    """
    from relatent.deliver import read_relevance, threshold_spaces
    from relatent.evaluate.cutoffs import CUTOFFS

    source, target = two_spaces(old, new, vector, key, target_vector, target_key, by_row)
    found = threshold_spaces(
        source,
        target,
        cutoff or CUTOFFS,
        purpose=purpose,
        same=None if same is None else read_relevance(same),
        max_rows=max_rows,
        seed=seed,
    )
    return Answer(str(found), found.to_dict())
