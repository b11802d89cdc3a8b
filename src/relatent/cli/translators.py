"""Commands that translate: fit, translate, export, stitch, demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from relatent.cli.frame import Answer, command
from relatent.cli.options import (
    Accept,
    ByRow,
    EngineName,
    Force,
    Html,
    Key,
    Markdown,
    Out,
    Packed,
    Scheduler,
    Seed,
    SourceSpace,
    TargetKey,
    TargetSpace,
    TargetVector,
    TranslatorFile,
    TranslatorOut,
    Vector,
    Workers,
    write_pages,
)
from relatent.cli.options import spaces as two_spaces


@command
def fit(
    old: SourceSpace,
    new: TargetSpace,
    out: TranslatorOut,
    goal: Annotated[str, typer.Option("--goal", help="vectors, retrieval (moves queries) or stitching.")] = "vectors",
    map_: Annotated[str, typer.Option("--map", help="auto, or a map by name: orthogonal, ridge, …")] = "auto",
    normalize: Annotated[str, typer.Option("--normalize", help="Normalization of both sides.")] = "iso",
    frozen_target: Annotated[bool, typer.Option(help="For retrieval in an index that cannot be touched.")] = False,
    max_cost: Annotated[
        str | None, typer.Option("--max-cost", help="affine forbids kernel maps, which are slower and keep anchors.")
    ] = None,
    held_out: Annotated[float, typer.Option("--held-out", help="Share of keys kept for evaluate.")] = 0.2,
    max_pairs: Annotated[int, typer.Option("--pairs", help="Pairs to fit on at most.")] = 1_000_000,
    anchors: Annotated[str | None, typer.Option("--anchors", "-a", help="Fit on the keys of this space only.")] = None,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    target_vector: TargetVector = None,
    target_key: TargetKey = None,
    by_row: ByRow = False,
    packed: Packed = False,
    engine: EngineName = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    html: Html = None,
    markdown: Markdown = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what is there; fit even if no relation shows.")
    ] = False,
    progress: bool | None = None,
) -> Answer:
    """Fit a translator on the keys that two spaces share.

    Part of the keys is held out for evaluate. Which ones follows from the keys alone, so every run holds out the
    same. The file remembers hashes of the keys that it was fitted on; evaluate leaves them out.

    Examples:
      relatent fit old.parquet new.parquet -o t.safetensors
      relatent fit old/ new/ -o t.safetensors --pairs 20000 --target-vector embedding
      relatent fit old/ new/ -o t.safetensors --pairs 100000000 --engine dask --workers 4
      relatent fit new.parquet old.parquet --goal retrieval --frozen-target -o queries.safetensors
      relatent fit old.parquet new.parquet -o t.safetensors --html fit.html
    """
    from relatent._saved import check_suffix
    from relatent.engines import open_engine
    from relatent.report import make_report
    from relatent.spaces import check_new, read_space
    from relatent.translate import Translator

    check_suffix(out)
    check_new(out, old, new, anchors, overwrite=force)
    source, target = two_spaces(old, new, vector, key, target_vector, target_key, by_row, packed)
    keys = None if anchors is None else read_space(anchors).keys
    settings: dict[str, Any] = {"goal": goal, "map": map_, "normalize": normalize, "max_cost": max_cost, "seed": seed}
    translator = Translator(**settings, frozen_target=frozen_target)
    with open_engine(engine, workers, scheduler) as where:
        translator.fit(
            source,
            target,
            held_out=held_out,
            max_pairs=max_pairs,
            anchors=None if keys is None else list(keys),
            force=force,
            engine=where,
            progress=progress,
        )
    done = translator.fit_report_
    assert done is not None
    translator.save(out, overwrite=force)
    pages = write_pages(
        (html, markdown),
        lambda words: make_report(translator, source, target, fit=done, seed=seed, command=words, progress=progress),
    )
    return Answer(f"{done}\nWrote {out}.{pages}", {"out": out, **done.to_dict()})


@command
def translate(
    translator: TranslatorFile,
    old: SourceSpace,
    out: Out,
    side: Annotated[str, typer.Option("--side", help="source, or target of a two-sided retrieval map.")] = "source",
    quantize: Annotated[
        str | None, typer.Option("--quantize", help="Write int8, uint8 or binary codes with their scale.")
    ] = None,
    vector: Vector = None,
    key: Key = None,
    packed: Packed = False,
    accept: Accept = False,
    engine: EngineName = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    force: Force = False,
    progress: bool | None = None,
) -> Answer:
    """Translate a file or folder of vectors into a new one.

    Chunk by chunk; keys and other columns are kept. Memory does not grow with the file. Nothing is written in place,
    and what is written is whole or absent. A path without a suffix becomes a folder of Parquet files, which several
    workers can write; if the command is killed, run it again and it goes on where it stopped. A single file is begun
    again.

    Examples:
      relatent translate t.safetensors old.parquet -o translated.parquet
      relatent translate t.safetensors 'old/*.parquet' -o translated/
      relatent translate t.safetensors old/ -o translated --engine processes --workers 4
      relatent translate t.safetensors old/ -o translated --scheduler tcp://scheduler:8786
      relatent translate t.safetensors old.npy -o translated.npy --force
    """
    from relatent import load
    from relatent.engines import open_engine
    from relatent.spaces import check_new, read_space
    from relatent.translate import translate_space

    check_new(out, translator, overwrite=force)
    source, fitted = read_space(old, vector=vector, key=key, packed=packed), load(translator)
    with open_engine(engine, workers, scheduler) as where:
        known = translate_space(
            fitted,
            source,
            out,
            side=cast(Any, side),
            accept=accept,
            quantize=quantize,
            overwrite=force,
            engine=where,
            progress=progress,
        )
    data = {"out": out, "rows": len(source), "dim": known.dim, "fingerprint": known.recorded()}
    return Answer(f"Wrote {len(source):,} × {known.dim} translated vectors to {out}.", data)


@command
def export(
    translator: TranslatorFile,
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write: a file, or a folder for folder formats.")],
    to: Annotated[str, typer.Option("--to", help="onnx, sentence-transformers, faiss, huggingface, numpy, atlas.")],
    side: Annotated[str, typer.Option("--side", help="source, or target of a two-sided retrieval map.")] = "source",
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale what comes out to unit norm.")] = False,
    encoder: Annotated[
        Path | None, typer.Option("--encoder", help="SentenceTransformer folder to translate behind.")
    ] = None,
    index: Annotated[Path | None, typer.Option("--index", help="FAISS index to translate in front of.")] = None,
    scores: Annotated[
        Path | None, typer.Option("--scores", help="What evaluate --json printed, for the model card.")
    ] = None,
    space: Annotated[str | None, typer.Option("--space", help="Vectors to translate, for an atlas.")] = None,
    target: Annotated[str | None, typer.Option("--target", help="Vectors to draw beside them, for an atlas.")] = None,
    force: Force = False,
) -> Answer:
    """Write a translator in the form of another library.

    onnx and faiss are files, the others folders; each gives what translate gives. The model card of huggingface tells
    scores, limits, fingerprints and what the file gives away. atlas is a Parquet of translated items, not of the
    translator: Embedding Atlas opens it (embedding-atlas FILE --x x --y y --neighbors neighbors).

    Examples:
      relatent export t.safetensors --to onnx -o t.onnx
      relatent export t.safetensors --to sentence-transformers --encoder ./all-MiniLM-L6-v2 -o translated-minilm
      relatent export queries.safetensors --to faiss --index old.faiss -o new.faiss
      relatent export t.safetensors --to huggingface --scores verdict.json -o card/
      relatent export t.safetensors --to atlas --space old.parquet --target new.parquet -o atlas.parquet
    """
    import json

    from relatent import load
    from relatent.exports import export as write
    from relatent.spaces import check_new, check_output
    from relatent.spaces.io.checksums import readable

    check = check_output if to == "faiss" else check_new  # the other formats are no stores
    check(out, translator, index, space, target, overwrite=force)
    with readable(scores):
        told = None if scores is None else json.loads(scores.read_text(encoding="utf8"))
    done = write(
        load(translator),
        out,
        to,
        side=cast(Any, side),
        normalize=normalize,
        encoder=encoder,
        index=index,
        scores=told,
        space=space,
        target=target,
        overwrite=force,
    )
    return Answer(str(done), done.to_dict())


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
    accept: Accept = False,
    force: Force = False,
    progress: bool | None = None,
) -> Answer:
    """Let a classifier read translated vectors.

    HEAD was trained on the space that OLD is translated into. Writes its scores and a column `prediction`. The accuracy
    with --truth leaves out the rows that the translator was fitted on.

    Examples:
      relatent stitch t.safetensors old.parquet head.safetensors -o predictions.parquet
      relatent stitch t.safetensors old.parquet head.npz -o predictions.parquet --truth label --new new.parquet
    """
    from relatent import load
    from relatent.spaces import check_new, read_space
    from relatent.stitching import read_head, stitch_space

    check_new(out, translator, head, new, overwrite=force)
    source, target = read_space(old, vector=vector, key=key), None if new is None else read_space(new)
    done = stitch_space(
        load(translator),
        source,
        read_head(head),
        out,
        truth=truth,
        target=target,
        accept=accept,
        overwrite=force,
        progress=progress,
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
