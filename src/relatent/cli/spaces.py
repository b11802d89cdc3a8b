"""Commands that look at spaces and make them: info, mixed, encode, anchors, project, compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relatent.cli.frame import Answer, command
from relatent.cli.options import (
    ByRow,
    Force,
    Html,
    K,
    Key,
    Markdown,
    Out,
    Seed,
    SourceSpace,
    TargetKey,
    TargetSpace,
    TargetVector,
    Vector,
    write_pages,
)
from relatent.cli.options import spaces as two_spaces

Input = Annotated[str, typer.Argument(metavar="SPACE", help="Vectors: a file, folder or glob.")]


@command
def info(
    path: Annotated[str, typer.Argument(metavar="FILE", help="Vectors (file, folder, glob) or a translator.")],
    vector: Vector = None,
    key: Key = None,
    progress: bool | None = None,
) -> Answer:
    """Say what is in a file of vectors or a translator.

    Rows, dimension, norms, duplicates, NaN, fingerprint.

    Examples:
      relatent info old.parquet
      relatent info 'shards/*.parquet' --vector embedding --json
      relatent info t.safetensors
    """
    from relatent.translate import describe

    reading = {name: value for name, value in (("vector", vector), ("key", key)) if value is not None}
    found = describe(path, progress=progress, **reading)
    return Answer(str(found), found.to_dict())


@command
def mixed(
    space: Input,
    old: Annotated[str, typer.Option("--old", help="Vectors that are known to be of the old space.")],
    new: Annotated[str, typer.Option("--new", help="Vectors that are known to be of the new space.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="A .parquet or .csv to list every row in, with its space.")
    ] = None,
    vector: Vector = None,
    key: Key = None,
) -> Answer:
    """Tell which rows of a collection are of the old space and which of the new one.

    For a collection that was half migrated, where both have the same dimension. Each row is of the space under which
    it is more likely, by the mean and covariance of a sample of either.

    Examples:
      relatent mixed items.parquet --old old-sample.parquet --new new-sample.parquet
      relatent mixed items.parquet --old old-sample.parquet --new new-sample.parquet -o rows.csv
    """
    from relatent.monitor import tell_apart
    from relatent.spaces import read_space

    collection = read_space(space, vector=vector, key=key)
    found = tell_apart(collection, read_space(old), read_space(new), out)
    where = "" if out is None else f" Every row is listed in {out}."
    return Answer(f"{space} holds {found}.{where}", {"space": space, "out": out, **found.to_dict()})


@command
def encode(
    items: Annotated[
        Path, typer.Argument(metavar="ITEMS", help="Texts (.txt, .csv, .jsonl, …) or a folder of images.")
    ],
    out: Out,
    model: Annotated[str, typer.Option("--model", "-m", help="A folder, a file, or a name on a hub.")],
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            help="sentence-transformer, transformer, onnx, static, vision-transformer, timm, torchvision, clip-text "
            "or clip-image.",
        ),
    ] = "sentence-transformer",
    column: Annotated[str | None, typer.Option("--column", help="Column of the texts.")] = None,
    key: Key = None,
    pooling: Annotated[str | None, typer.Option("--pooling", help="mean, cls, max or last.")] = None,
    layer: Annotated[int | None, typer.Option("--layer", help="Hidden state of a transformer to read.")] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda, mps; the fastest by default.")] = None,
    normalize: Annotated[bool | None, typer.Option("--normalize", help="Scale vectors to unit norm.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the model to record.")] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Items at a time.")] = 64,
    cache: Annotated[Path | None, typer.Option("--cache", help="Folder of vectors to resume from.")] = None,
    force: Force = False,
    progress: bool | None = None,
) -> Answer:
    """Encode texts or images into vectors.

    The file records the model, its revision, pooling and normalization.

    Examples:
      relatent encode docs.jsonl --column text --key id -m ./all-MiniLM-L6-v2 -o new.parquet --cache cache/
      relatent encode lines.txt --kind onnx -m model.onnx --pooling mean --normalize -o new.npy
      relatent encode photos/ --kind timm -m resnet18 -o photos.parquet
    """
    from relatent.encode import encode_file, encoder_of

    options = {"pooling": pooling, "layer": layer, "device": device, "normalize": normalize, "name": name}
    space = encode_file(
        items,
        out,
        lambda: encoder_of(kind, model, **options),
        column=column,
        key=key,
        batch_size=batch_size,
        cache=cache,
        overwrite=force,
        progress=progress,
    )
    data = {"out": out, "rows": len(space), "dim": space.dim, "fingerprint": space.fingerprint.recorded()}
    return Answer(f"Wrote {len(space):,} × {space.dim} vectors of {space.fingerprint.model} to {out}.", data)


@command
def anchors(
    space: Input,
    out: Out,
    k: Annotated[int, typer.Option("-k", help="How many anchors.")] = 1000,
    strategy: Annotated[
        str,
        typer.Option("--strategy", help="kmeans, farthest_point, uniform, stratified or most_frequent."),
    ] = "kmeans",
    column: Annotated[str | None, typer.Option("--column", help="Labels to stratify by, or counts.")] = None,
    known: Annotated[
        str | None, typer.Option("--known", help="What the new model embedded already: say what to embed next.")
    ] = None,
    goal: Annotated[str, typer.Option("--goal", help="With --known: vectors, retrieval or stitching.")] = "vectors",
    rows_per_second: Annotated[
        float | None, typer.Option("--rows-per-second", help="With --known: how fast the new model encodes.")
    ] = None,
    price: Annotated[float | None, typer.Option("--price", help="With --known: what a million rows cost.")] = None,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    force: Force = False,
) -> Answer:
    """Choose anchors and write them as a space.

    Their keys serve in every space of the same items. kmeans and farthest_point choose among a random sample of a large
    file, whose size is said, so that memory does not grow with the file. With --known, the items that the known ones do
    not cover are chosen, and the learning curve tells what they will add, and when to stop.

    Examples:
      relatent anchors old.parquet -k 1000 -o anchors.parquet
      relatent anchors old.parquet -k 300 --strategy farthest_point -o anchors.parquet
      relatent anchors old.parquet -k 300 --strategy stratified --column label -o anchors.parquet
      relatent anchors old.parquet -k 2000 --known new.parquet --rows-per-second 10 -o next.parquet
    """
    from relatent.anchors import write_anchors
    from relatent.decide import plan_anchors
    from relatent.spaces import read_space

    source = read_space(space, vector=vector, key=key)
    if known is not None:
        planned = plan_anchors(
            source,
            read_space(known),
            out,
            k,
            goal=goal,
            rows_per_second=rows_per_second,
            price_per_million=price,
            overwrite=force,
            seed=seed,
        )
        return Answer(f"{planned}\nWrote them to {out}, in order.", {"out": out, **planned.to_dict()})
    chosen = write_anchors(source, out, k, strategy, column=column, seed=seed, overwrite=force)
    return Answer(str(chosen), chosen.to_dict())


@command
def project(
    space: Input,
    anchors: Annotated[str, typer.Option("--anchors", "-a", help="A space of anchors; its keys are looked up.")],
    out: Out,
    similarity: Annotated[str, typer.Option("--similarity", help="cosine, euclidean, angular, …")] = "cosine",
    normalize: Annotated[str, typer.Option("--normalize", help="Normalization by the anchors.")] = "center",
    output: Annotated[str, typer.Option("--output", help="Normalization of the new rows: none, l2 or layer.")] = "none",
    vector: Vector = None,
    key: Key = None,
    force: Force = False,
    progress: bool | None = None,
) -> Answer:
    """Write each vector as its similarities to anchors.

    Examples:
      relatent anchors old.parquet -k 300 -o anchors.parquet
      relatent project old.parquet -a anchors.parquet -o old-relative.parquet
      relatent project new.parquet -a anchors.parquet -o new-relative.parquet
    """
    from relatent.project import project_space
    from relatent.spaces import check_new, read_space

    check_new(out, anchors, overwrite=force)
    source, keys = read_space(space, vector=vector, key=key), read_space(anchors).keys
    known = project_space(
        source,
        keys,
        out,
        similarity=similarity,
        normalize=normalize,
        output=output,
        overwrite=force,
        progress=progress,
    )
    data = {"out": out, "rows": len(source), "dim": known.dim, "fingerprint": known}
    return Answer(f"Wrote {len(source):,} rows of {known.model} over {known.dim:,} anchors to {out}.", data)


@command
def compare(
    old: SourceSpace,
    new: TargetSpace,
    k: K = 10,
    max_rows: Annotated[int, typer.Option("--rows", help="Rows in common to use at most.")] = 5_000,
    permutations: Annotated[
        int, typer.Option("--permutations", help="Shuffled pairings; no p-value falls below 1 / (1 + N).")
    ] = 20,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    target_vector: TargetVector = None,
    target_key: TargetKey = None,
    by_row: ByRow = False,
    html: Html = None,
    markdown: Markdown = None,
    progress: bool | None = None,
) -> Answer:
    """Compare two spaces by every measure.

    Each measure stands beside what chance gives. The spaces are joined on keys and may differ in dimension.

    Examples:
      relatent compare old.parquet new.parquet
      relatent compare old.parquet new.parquet --permutations 999
      relatent compare old.npy new.npy --rows 2000 --json
      relatent compare old.parquet new.parquet --html compare.html
    """
    import relatent as rl
    from relatent.report import make_report

    first, second = two_spaces(old, new, vector, key, target_vector, target_key, by_row)
    found = rl.compare(first, second, max_rows=max_rows, k=k, permutations=permutations, seed=seed, progress=progress)
    pages = write_pages((html, markdown), lambda words: make_report(found, first, second, command=words))
    return Answer(f"{found}{pages}", found.to_dict())
