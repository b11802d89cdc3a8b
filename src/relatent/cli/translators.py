"""Commands that translate: fit, evaluate, translate, stitch, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relatent.cli.frame import NO_GO, OK, Answer, command
from relatent.cli.options import (
    Accept,
    Force,
    K,
    Key,
    Out,
    Seed,
    SourceSpace,
    TargetKey,
    TargetSpace,
    TargetVector,
    TranslatorFile,
    TranslatorOut,
    Vector,
)
from relatent.cli.options import spaces as two_spaces

__all__ = ["demo", "evaluate", "fit", "stitch", "translate"]


@command
def fit(
    old: SourceSpace,
    new: TargetSpace,
    out: TranslatorOut,
    goal: Annotated[str, typer.Option("--goal", help="vectors, retrieval (moves queries) or stitching.")] = "vectors",
    map_: Annotated[str, typer.Option("--map", help="auto, or a map by name: orthogonal, ridge, …")] = "auto",
    normalize: Annotated[str, typer.Option("--normalize", help="Normalization of both sides.")] = "iso",
    frozen_target: Annotated[bool, typer.Option(help="For retrieval in an index that cannot be touched.")] = False,
    held_out: Annotated[float, typer.Option("--held-out", help="Share of keys kept for evaluate.")] = 0.2,
    max_pairs: Annotated[int, typer.Option("--pairs", help="Pairs to fit on at most.")] = 100_000,
    anchors: Annotated[str | None, typer.Option("--anchors", "-a", help="Fit on the keys of this space only.")] = None,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    target_vector: TargetVector = None,
    target_key: TargetKey = None,
    force: Force = False,
) -> Answer:
    """Fit a translator on the keys that two spaces share.

    Part of the keys is held out for evaluate. Which ones follows from the keys alone, so every run holds out the
    same. The file remembers hashes of the keys that it was fitted on; evaluate leaves them out.

    Examples:
      relatent fit old.parquet new.parquet -o t.safetensors
      relatent fit old/ new/ -o t.safetensors --pairs 20000 --target-vector embedding
      relatent fit new.parquet old.parquet --goal retrieval --frozen-target -o queries.safetensors
    """
    from relatent.deliver import fit_spaces
    from relatent.spaces import check_new, read_space
    from relatent.translate import Translator

    check_new(out, overwrite=force)
    source, target = two_spaces(old, new, vector, key, target_vector, target_key)
    keys = None if anchors is None else read_space(anchors).keys
    translator = Translator(goal, map_, normalize, frozen_target=frozen_target, seed=seed)
    done = fit_spaces(
        translator, source, target, held_out=held_out, max_pairs=max_pairs, anchors=None if keys is None else list(keys)
    )
    translator.save(out)
    return Answer(f"{done}\nWrote {out}.", {"out": out, **done.to_dict()})


@command
def evaluate(
    translator: TranslatorFile,
    old: SourceSpace,
    new: TargetSpace,
    side: Annotated[
        str | None,
        typer.Option(
            "--side", help="documents (OLD becomes the index) or queries (OLD asks); by the goal if not said."
        ),
    ] = None,
    relevant: Annotated[
        Path | None,
        typer.Option("--relevant", help="Table of a query's and an item's key; pairs of held-out keys count."),
    ] = None,
    slices: Annotated[str | None, typer.Option("--slices", help="Column to give figures per value of.")] = None,
    k: K = 10,
    arr: Annotated[float, typer.Option("--arr", help="Lower bound of ARR@k that GO takes.")] = 0.95,
    max_rows: Annotated[int, typer.Option("--rows", help="Held-out rows to search among at most.")] = 10_000,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    target_vector: TargetVector = None,
    target_key: TargetKey = None,
    accept: Accept = False,
) -> Answer:
    """Search three ways among held-out items: GO or NO-GO.

    The three are the old model as it is, translated vectors, and re-embedding everything with the new model.
    Without --relevant, the relevant items are the k nearest under the new model: the figure then says how alike the
    results are, which is far stricter than whether they are good. With your own pairs it says what your users see.
    Exits with 0 for GO and 3 for NO-GO; the rule is printed with the verdict.

    Examples:
      relatent evaluate t.safetensors old.parquet new.parquet
      relatent evaluate t.safetensors old.parquet new.parquet --relevant clicks.tsv --slices language
      relatent evaluate queries.safetensors new.parquet old.parquet --side queries --json
    """
    from relatent.deliver import judge, load, read_relevance
    from relatent.evaluate import Rule

    source, target = two_spaces(old, new, vector, key, target_vector, target_key)
    verdict = judge(
        load(translator),
        source,
        target,
        side=side,
        relevant=None if relevant is None else read_relevance(relevant),
        slices=slices,
        k=k,
        max_rows=max_rows,
        rule=Rule(arr=arr),
        accept=accept,
        seed=seed,
    )
    return Answer(str(verdict), verdict.to_dict(), OK if verdict.go else NO_GO)


@command
def translate(
    translator: TranslatorFile,
    old: SourceSpace,
    out: Out,
    side: Annotated[str, typer.Option("--side", help="source, or target of a two-sided retrieval map.")] = "source",
    vector: Vector = None,
    key: Key = None,
    accept: Accept = False,
    force: Force = False,
    progress: bool | None = None,
) -> Answer:
    """Translate a file or folder of vectors into a new one.

    Chunk by chunk; keys and other columns are kept. Memory does not grow with the file. Nothing is written in place,
    and what is written is whole or absent.

    Examples:
      relatent translate t.safetensors old.parquet -o translated.parquet
      relatent translate t.safetensors 'old/*.parquet' -o translated/
      relatent translate t.safetensors old.npy -o translated.npy --force
    """
    from relatent.deliver import load, translate_space
    from relatent.spaces import read_space

    source = read_space(old, vector=vector, key=key)
    known = translate_space(load(translator), source, out, side=side, accept=accept, overwrite=force, progress=progress)
    data = {"out": out, "rows": len(source), "dim": known.dim, "fingerprint": known.recorded()}
    return Answer(f"Wrote {len(source):,} × {known.dim} translated vectors to {out}.", data)


@command
def stitch(
    translator: TranslatorFile,
    old: SourceSpace,
    head: Annotated[
        Path, typer.Argument(metavar="HEAD", help="A linear head: .safetensors or .npz with weight, bias.")
    ],
    out: Out,
    truth: Annotated[str | None, typer.Option("--truth", help="Column of true classes, to measure accuracy.")] = None,
    new: Annotated[str | None, typer.Option("--new", help="The head's own space, for the ceiling.")] = None,
    vector: Vector = None,
    key: Key = None,
    force: Force = False,
    progress: bool | None = None,
) -> Answer:
    """Let a classifier read translated vectors.

    HEAD was trained on the space that OLD is translated into. Writes its scores and a column `prediction`.

    Examples:
      relatent stitch t.safetensors old.parquet head.safetensors -o predictions.parquet
      relatent stitch t.safetensors old.parquet head.npz -o predictions.parquet --truth label --new new.parquet
    """
    from relatent.deliver import load, stitch_space
    from relatent.spaces import read_space
    from relatent.stitching import read_head

    source, target = read_space(old, vector=vector, key=key), None if new is None else read_space(new)
    done = stitch_space(
        load(translator), source, read_head(head), out, truth=truth, target=target, overwrite=force, progress=progress
    )
    return Answer(f"{done}\nWrote {out}.", {"out": out, **done.to_dict()})


@command
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the files and the picture.")] = Path("out"),
) -> Answer:
    """Show a migration on digits, in under a minute.

    A new network reads the vectors of an old one. Fits, evaluates and translates, and leaves the files and a picture.

    Examples:
      relatent demo
      relatent demo --out digits
    """
    from relatent.demo import run_demo

    done = run_demo(out)
    return Answer(done.text, done.to_dict())
