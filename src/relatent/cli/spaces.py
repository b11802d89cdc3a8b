"""Commands that inspect spaces and make them: info, compare, encode, anchors, project."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

from typer import Argument, Option

from relatent.cli import options as opt
from relatent.cli.frame import Answer, Done, command

KIND = "sentence-transformer, transformer, onnx, static, vision-transformer, timm, torchvision, clip-text, clip-image."


@command
def info(
    path: Annotated[str, Argument(metavar="FILE", help="Vectors (file, folder, glob, store) or a translator.")],
    vector: opt.Vector = None,
    key: opt.Key = None,
    progress: bool | None = None,
) -> Any:
    """Describe a file of vectors or a translator.

    Rows, dimension, norms, duplicates, NaN, fingerprint.

    Examples:
      relatent info old.parquet
      relatent info 'shards/*.parquet' --vector embedding --json
      relatent info t.safetensors
    """
    from relatent.translate import describe

    reading = {name: value for name, value in (("vector", vector), ("key", key)) if value is not None}
    return describe(path, progress=progress, **reading)


@command
def compare(
    *,
    spaces: opt.Pair,
    k: opt.K = 10,
    max_rows: opt.MaxRows = 5_000,
    permutations: Annotated[int, Option("--permutations", help="Shuffled pairings; every p-value ≥ 1 / (1 + N).")] = 20,
    seed: opt.Seed = 0,
    more: opt.More = None,
    report: opt.Report,
    progress: bool | None = None,
) -> Answer:
    """Compare two or more spaces by every similarity measure.

    Each measure is shown beside its value by chance. The spaces are joined on keys and may differ in dimension. With
    more than two, every two are compared, on the rows that all of them share.

    Examples:
      relatent compare old.parquet new.parquet
      relatent compare old.parquet new.parquet --permutations 999
      relatent compare old.npy new.npy --max-rows 2000 --json
      relatent compare old.parquet new.parquet other.parquet
      relatent compare old.parquet new.parquet --report compare.html
    """
    import relatent as rl
    from relatent.report import make_report

    report.check(spaces.source, spaces.target, *(more or ()))
    given = (*spaces.pair(), *spaces.others(more))
    settings: dict[str, Any] = {"max_rows": max_rows, "k": k, "permutations": permutations, "seed": seed}
    found: Any
    if len(given) == 2:
        found = rl.compare(*given, **settings, progress=progress)
    else:
        found = rl.evaluate.compare_all(given, **settings, progress=progress)
    return Answer(found, reports=report.write(lambda words: make_report(found, *given, command=words)))


@command
def encode(
    items: Annotated[Path, Argument(metavar="ITEMS", help="Texts (.txt, .csv, .jsonl, …) or a folder of images.")],
    to: opt.Out,
    model: opt.Model,
    kind: Annotated[str, Option("--kind", help=KIND)] = "sentence-transformer",
    text: opt.Text = None,
    key: opt.Key = None,
    pooling: Annotated[str | None, Option("--pooling", help="mean, cls, max or last.")] = None,
    layer: Annotated[int | None, Option("--layer", help="Hidden state of a transformer to read.")] = None,
    device: Annotated[str | None, Option("--device", help="cpu, cuda, mps; the fastest by default.")] = None,
    unit_norm: opt.UnitNorm = False,
    name: opt.Name = None,
    batch_size: Annotated[int, Option("--batch-size", help="Items at a time.")] = 64,
    cache: Annotated[Path | None, Option("--cache", help=opt.CACHE)] = None,
    progress: bool | None = None,
) -> Done:
    """Encode texts or images into vectors.

    The file records the model, its revision, pooling and normalization.

    Examples:
      relatent encode docs.jsonl --text body --key id --model ./all-MiniLM-L6-v2 -o new.parquet --cache cache/
      relatent encode lines.txt --kind onnx --model model.onnx --pooling mean --unit-norm -o new.npy
      relatent encode photos/ --kind timm --model resnet18 -o photos.parquet
    """
    from relatent.encode import encode_file, encoder_of

    options = {"pooling": pooling, "layer": layer, "device": device, "normalize": unit_norm or None, "name": name}
    space = encode_file(
        items,
        to.out,
        lambda: encoder_of(kind, str(model), **options),
        column=text,
        key=key,
        batch_size=batch_size,
        cache=cache,
        overwrite=to.overwrite,
        progress=progress,
    )
    data = {"out": to.out, "rows": len(space), "dim": space.dim, "fingerprint": space.fingerprint.recorded()}
    return Done(f"Wrote {len(space):,} × {space.dim} vectors of {space.fingerprint.model} to {to.out}.", data)


@command
def anchors(
    spaces: opt.WithTarget,
    to: opt.Out,
    n: opt.N = 1000,
    strategy: Annotated[
        str, Option("--strategy", help="kmeans, farthest_point, uniform, stratified or most_frequent.")
    ] = "kmeans",
    label: opt.Label = None,
    count: opt.Count = None,
    goal: opt.Goal = "index",
    rows_per_second: opt.RowsPerSecond = None,
    price_per_million: opt.PricePerMillion = None,
    seed: opt.Seed = 0,
) -> Any:
    """Choose anchors, or the items to embed next.

    They are written as a space; their keys serve in every space of the same items. From a large file, kmeans and
    farthest_point choose among a random sample, so that memory does not grow with the file. With TARGET, which holds
    the items that its model has embedded so far, the items that these do not cover are chosen, and the learning curve
    tells what they will add and when to stop.

    Examples:
      relatent anchors old.parquet -n 1000 -o anchors.parquet
      relatent anchors old.parquet -n 300 --strategy farthest_point -o anchors.parquet
      relatent anchors old.parquet -n 300 --strategy stratified --label topic -o anchors.parquet
      relatent anchors old.parquet new.parquet -n 2000 --rows-per-second 10 -o next.parquet
    """
    from relatent.anchors import write_anchors
    from relatent.decide import plan_anchors

    source, target = spaces.read(), spaces.read_target()
    if target is not None:
        price = {"rows_per_second": rows_per_second, "price_per_million": price_per_million}
        planned = plan_anchors(
            source, target, to.out, n, goal=cast(Any, goal), overwrite=to.overwrite, seed=seed, **price
        )
        return Answer(planned, to.out)
    return write_anchors(source, to.out, n, strategy, column=label or count, seed=seed, overwrite=to.overwrite)


@command
def project(
    space: opt.One,
    to: opt.Out,
    anchors: opt.Anchors,
    similarity: Annotated[str, Option("--similarity", help="cosine, euclidean, angular, …")] = "cosine",
    normalize: opt.Normalize = "center",
    normalize_output: Annotated[
        str, Option("--normalize-output", help="Normalization of the new rows: none, l2 or layer.")
    ] = "none",
    progress: bool | None = None,
) -> Done:
    """Write each vector as its similarities to anchors.

    Examples:
      relatent anchors old.parquet -n 300 -o anchors.parquet
      relatent project old.parquet --anchors anchors.parquet -o old-relative.parquet
      relatent project new.parquet --anchors anchors.parquet -o new-relative.parquet
    """
    from relatent.project import project_space
    from relatent.spaces import read_space

    to.check(anchors)
    source, keys = space.read(), read_space(str(anchors)).keys
    known = project_space(
        source,
        keys,
        to.out,
        similarity=similarity,
        normalize=normalize,
        output=normalize_output,
        overwrite=to.overwrite,
        progress=progress,
    )
    data = {"out": to.out, "rows": len(source), "dim": known.dim, "fingerprint": known}
    return Done(f"Wrote {len(source):,} rows of {known.model} over {known.dim:,} anchors to {to.out}.", data)
