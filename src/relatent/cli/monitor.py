"""Commands that watch a running system: monitor make-canary, check-canary, drift, origin."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from relatent.cli import options as opt
from relatent.cli.frame import NO_GO, OK, Answer, Done, command, group

ABOUT = """Detect changed models, drifting data and mixed collections.

\b
  relatent monitor make-canary old.parquet -o canary.parquet
  relatent encode canary.parquet --text body --key id --model MODEL -o fresh.parquet
  relatent monitor check-canary canary.parquet fresh.parquet
  relatent monitor drift t.safetensors batch.parquet
  relatent monitor origin collection.parquet old.parquet new.parquet

Exits with 3 on an alarm.
"""
monitor = partial(command, group=group("monitor", ABOUT))


@monitor
def make_canary(
    space: opt.AnySpace, to: opt.Out, n: opt.N = 32, seed: opt.Seed = 0, vector: opt.Vector = None, key: opt.Key = None
) -> Done:
    """Keep a few items that lie far apart, with their vectors.

    All columns are kept, so that a file with texts can be encoded again from the canary file alone.

    Examples:
      relatent monitor make-canary old.parquet -o canary.parquet
      relatent monitor make-canary old.parquet -n 100 -o canary.parquet --json
    """
    from relatent.monitor import make_canary
    from relatent.spaces import read_space

    source = read_space(space, vector=vector, key=key)
    kept = make_canary(source, to.out, items=n, overwrite=to.overwrite, seed=seed)
    return Done(f"Kept {len(kept)} items in {to.out}.", {"out": to.out, "items": len(kept), "keys": list(kept.keys)})


@dataclass(frozen=True, kw_only=True)
class Canary(opt.Pair):
    """A canary, and its items encoded again."""

    source: Annotated[str, Argument(metavar="CANARY", help="Written by `relatent monitor make-canary`.")]
    target: Annotated[str, Argument(metavar="SPACE", help="The same items, encoded again.")] = field()


@monitor
def check_canary(
    canary: Canary, tolerance: Annotated[float, Option("--tolerance", help="How far a cosine may fall below 1.")] = 1e-3
) -> Answer:
    """Check whether the model behind a name is still the same.

    Answers same, renamed (the same vectors under another name), rescaled or changed. Exits with 0 for same and renamed,
    and with 3 otherwise.

    Examples:
      relatent monitor check-canary canary.parquet fresh.parquet
      relatent monitor check-canary canary.parquet fresh.parquet --tolerance 0.01 --json
    """
    from relatent.monitor import check_canary

    found = check_canary(*canary.pair(), tolerance=tolerance)
    return Answer(found, code=OK if found.ok else NO_GO)


@monitor
def drift(
    translator: opt.TranslatorFile,
    spaces: opt.WithTarget,
    log: Annotated[Path | None, Option("--log", help="File to append to; its first line is compared with.")] = None,
) -> Answer:
    """Check whether a translator should be fitted again.

    SOURCE, a batch of new vectors, is compared with the space that the translator was fitted on: how far the mean moved
    and, with TARGET, how well the batch is translated. Exits with 0 for stable and drifting, and with 3 for refit and
    another space.

    Examples:
      relatent monitor drift t.safetensors monday.parquet --log drift.jsonl
      relatent monitor drift t.safetensors monday.parquet monday-new.parquet --log drift.jsonl --json
    """
    from relatent import load
    from relatent.monitor import check_drift
    from relatent.translate.files import check_translator

    fitted = load(translator)
    check_translator(fitted)
    found = check_drift(fitted, spaces.read(), spaces.read_target(), log=log)
    return Answer(found, code=OK if found.ok or found.outcome == "too few" else NO_GO)


@monitor
def origin(
    space: opt.AnySpace,
    source: opt.SourceSpace,
    target: opt.TargetSpace,
    out: opt.SomeOut = None,
    overwrite: opt.Overwrite = False,
    vector: opt.Vector = None,
    key: opt.Key = None,
) -> Done:
    """Tell which rows of a collection come from which space.

    For a collection that was half migrated. SOURCE and TARGET are samples of the two spaces, which have the same
    dimension. Each row is assigned to the space under which it is more likely, by the mean and covariance of the
    samples. --out lists every row (.parquet or .csv).

    Examples:
      relatent monitor origin items.parquet old-sample.parquet new-sample.parquet
      relatent monitor origin items.parquet old-sample.parquet new-sample.parquet -o rows.csv
    """
    from relatent.monitor import tell_apart
    from relatent.spaces import read_space

    collection = read_space(space, vector=vector, key=key)
    found = tell_apart(collection, read_space(source), read_space(target), out, overwrite=overwrite)
    where = "" if out is None else f" Every row is listed in {out}."
    return Done(f"{space} holds {found}.{where}", {"space": space, "out": out, **found.to_dict()})
