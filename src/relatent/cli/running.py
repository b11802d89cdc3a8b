"""Commands that look after a system that runs: thresholds, backfill, canary make and check, watch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from relatent.cli.frame import NO_GO, OK, Answer, command, group
from relatent.cli.options import (
    ByRow,
    Force,
    Key,
    Out,
    Seed,
    SourceSpace,
    TargetKey,
    TargetSpace,
    TargetVector,
    TranslatorFile,
    Vector,
)
from relatent.cli.options import spaces as two_spaces

ABOUT_CANARIES = """Keep a few items with their vectors, and learn from them when a model behind a name has changed.

\b
  relatent canary make old.parquet -o canary.parquet
  relatent encode canary.parquet --column text --key id -m MODEL -o fresh.parquet
  relatent canary check canary.parquet fresh.parquet
"""
in_canary = partial(command, group=group("canary", ABOUT_CANARIES))


@command
def thresholds(
    old: SourceSpace,
    new: TargetSpace,
    threshold: Annotated[
        list[float] | None, typer.Option("--threshold", "-c", help="An old threshold; repeat for several.")
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
    """Find the new threshold on similarity that does what an old one did.

    OLD are vectors of the old model; NEW those of the new model, or translated ones. The cosine similarities of two
    models are not on one scale: a threshold that found duplicates in one may link everything in the other.

    Examples:
      relatent thresholds old.parquet new.parquet --threshold 0.7 --threshold 0.9
      relatent thresholds old.parquet translated.parquet --for dedup --same duplicates.csv --json
    """
    from relatent.decide import read_relevance, thresholds
    from relatent.decide.threshold import THRESHOLDS

    source, target = two_spaces(old, new, vector, key, target_vector, target_key, by_row)
    found = thresholds(
        source,
        target,
        threshold or THRESHOLDS,
        purpose=purpose,
        same=None if same is None else read_relevance(same),
        max_rows=max_rows,
        seed=seed,
    )
    return Answer(str(found), found.to_dict())


@command
def backfill(
    translator: TranslatorFile,
    old: SourceSpace,
    new: TargetSpace,
    out: Out,
    counts: Annotated[
        str | None, typer.Option("--counts", help="Column of OLD that says how often an item is retrieved.")
    ] = None,
    left: Annotated[float, typer.Option("--left", help="Share of the gain that may be left where you stop.")] = 0.05,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    target_vector: TargetVector = None,
    target_key: TargetKey = None,
    force: Force = False,
) -> Answer:
    """Say which stored items to embed anew first.

    Those whose translation is least to be trusted come first, weighed by how often they are retrieved. How far a
    translation is to be trusted is learned from the items of which NEW has true vectors.

    Examples:
      relatent backfill t.safetensors old.parquet new-sample.parquet -o order.parquet
      relatent backfill t.safetensors old.parquet new-sample.parquet --counts clicks -o order.parquet --json
    """
    from relatent import load
    from relatent.decide import plan_backfill

    source, target = two_spaces(old, new, vector, key, target_vector, target_key)
    found = plan_backfill(load(translator), source, target, out, counts=counts, left=left, overwrite=force, seed=seed)
    return Answer(f"{found}\nWrote the order to {out}.", {"out": out, **found.to_dict()})


@in_canary
def make(
    space: Annotated[str, typer.Argument(metavar="SPACE", help="Vectors of the model as it is now.")],
    out: Out,
    items: Annotated[int, typer.Option("-n", help="How many items to keep.")] = 32,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    force: Force = False,
) -> Answer:
    """Keep a handful of items that lie far apart, with their vectors.

    All columns are kept, so that a file with texts can be embedded again from the canary file alone.

    Examples:
      relatent canary make old.parquet -o canary.parquet
      relatent canary make old.parquet -n 100 -o canary.parquet --json
    """
    from relatent.monitor import make_canary
    from relatent.spaces import read_space

    kept = make_canary(read_space(space, vector=vector, key=key), out, items=items, overwrite=force, seed=seed)
    return Answer(f"Kept {len(kept)} items in {out}.", {"out": out, "items": len(kept), "keys": list(kept.keys)})


@in_canary
def check(
    kept: Annotated[str, typer.Argument(metavar="CANARY", help="What `relatent canary make` wrote.")],
    fresh: Annotated[str, typer.Argument(metavar="FRESH", help="The same items, embedded again.")],
    tolerance: Annotated[float, typer.Option("--tolerance", help="How far a cosine may fall below 1.")] = 1e-3,
    vector: Vector = None,
    key: Key = None,
    target_vector: TargetVector = None,
    target_key: TargetKey = None,
    by_row: ByRow = False,
) -> Answer:
    """Tell whether the model behind a name is still the same.

    Answers same, renamed (the same vectors under another name), rescaled or changed. Exits with 0 for same and
    renamed, and with 3 otherwise, for monitors.

    Examples:
      relatent canary check canary.parquet fresh.parquet
      relatent canary check canary.parquet fresh.parquet --tolerance 0.01 --json
    """
    from relatent.monitor import check_canary

    spaces = two_spaces(kept, fresh, vector, key, target_vector, target_key, by_row)
    found = check_canary(*spaces, tolerance=tolerance)
    return Answer(str(found), found.to_dict(), OK if found.ok else NO_GO)


@command
def watch(
    translator: TranslatorFile,
    batch: Annotated[str, typer.Argument(metavar="BATCH", help="New vectors of the source: a file, folder or glob.")],
    truth: Annotated[
        str | None, typer.Option("--truth", help="Vectors of the target for some of the keys, to measure by.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="File to append to, and to compare with its first line.")
    ] = None,
    vector: Vector = None,
    key: Key = None,
) -> Answer:
    """Say when a translator should be fitted again.

    New batches are compared with the space that it was fitted on: how far their mean moved, and with --truth how well
    they are translated. Exits with 0 for stable and drifting, and with 3 for refit and another space, for monitors.

    Examples:
      relatent watch t.safetensors monday.parquet --log drift.jsonl
      relatent watch t.safetensors monday.parquet --truth monday-new.parquet --log drift.jsonl --json
    """
    from relatent import load
    from relatent.monitor import check_drift
    from relatent.spaces import read_space
    from relatent.translate.files import check_translator

    fitted = load(translator)
    check_translator(fitted)
    true = None if truth is None else read_space(truth)
    found = check_drift(fitted, read_space(batch, vector=vector, key=key), true, log=log)
    return Answer(str(found), found.to_dict(), OK if found.ok or found.outcome == "too few" else NO_GO)
