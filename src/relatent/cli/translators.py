"""Commands that translate: demo, fit, translate, export, stitch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

from typer import Argument, Option

from relatent.cli import options as opt
from relatent.cli.embedding import PairOrModel
from relatent.cli.frame import Answer, Done, command


@command
def fit(
    *,
    spaces: PairOrModel,
    out: Annotated[str, Option("--out", "-o", callback=opt.translator_path, help=opt.OUT)],
    goal: opt.Goal = None,
    map_: Annotated[str, Option("--map", help="auto, or a map by name: orthogonal, ridge, …")] = "auto",
    normalize: opt.Normalize = "iso",
    frozen_target: Annotated[
        bool, Option("--frozen-target", help="For retrieval in an index that stays as is.")
    ] = False,
    max_cost: Annotated[str | None, Option("--max-cost", help="affine: no kernel maps (slower, keep anchors).")] = None,
    held_out: Annotated[float, Option("--held-out", help="Share of keys kept for evaluate.")] = 0.2,
    max_pairs: opt.MaxPairs = 1_000_000,
    anchors: opt.Anchors = None,
    queries: opt.Queries = None,
    relevant: opt.Relevant = None,
    confidence: Annotated[
        bool, Option("--confidence", help="Calibrate confidence per row; takes about as long as the fit.")
    ] = False,
    seed: opt.Seed = 0,
    packed: opt.Packed = False,
    workers: opt.Workers,
    report: opt.Report,
    force: opt.Force = False,
    progress: bool | None = None,
) -> Answer:
    """Fit a translator on the keys that two spaces share, or on texts that a new model embeds.

    With --embed, TARGET is made: the texts of --pairs items of SOURCE (column --text, or such as payload.data in a
    column of JSON) are embedded by the new model.
    They are the same items in every run, and what was embedded is kept in --cache, so that evaluate and migrate plan
    with the same options embed nothing again, and a run that was stopped resumes. Keys are read from the environment:
    OPENAI_API_KEY (with OPENAI_BASE_URL, if set), or RELATENT_EMBED_KEY for an address.

    The default goal is that of a migration: documents of SOURCE are rewritten once, and searched by queries of TARGET's
    model as they are. Vectors of past queries (--queries) and what they should find (--relevant) make it better.
    Part of the keys is held out for evaluate: which ones depends on the keys alone, so every run holds out the same.
    The file records hashes of the keys that it was fitted on, which evaluate leaves out. Pairs that show no relation
    are refused, unless --force is given. A Parquet column of lists of vectors (ColBERT, ColPali) holds several vectors
    per item: items are joined on their keys and paired vector by vector. With --confidence the file also tells how far
    to trust the translation of each row, which serve answers with.

    Examples:
      relatent fit postgresql://ann@db/shop/items --embed openai:text-embedding-3-small --text body -o t.safetensors
      relatent fit old.parquet --embed ollama:nomic-embed-text --prefix "search_document: " -o t.safetensors
      relatent fit old.parquet new.parquet -o t.safetensors
      relatent fit old/ new/ -o t.safetensors --max-pairs 20000 --target-vector embedding
      relatent fit old/ new/ -o t.safetensors --max-pairs 100000000 --engine dask --workers 4
      relatent fit old.parquet new.parquet -o t.safetensors --queries old-queries.parquet new-queries.parquet
      relatent fit new.parquet old.parquet --goal retrieval --frozen-target -o queries.safetensors
      relatent fit old.parquet new.parquet -o t.safetensors --report fit.html
    """
    from relatent.decide import read_relevance
    from relatent.report import make_report
    from relatent.spaces import check_new, read_space
    from relatent.translate import Translator

    inputs = spaces.source, spaces.target, anchors, relevant, *(queries or ())
    check_new(out, *inputs, overwrite=report.overwrite)
    report.check(*inputs)
    source, target, embedded = spaces.open(progress, packed=packed)
    goal = goal or ("index" if map_ == "auto" else "vectors")
    settings: dict[str, Any] = {"goal": goal, "map": map_, "normalize": normalize, "max_cost": max_cost, "seed": seed}
    translator = Translator(**settings, frozen_target=frozen_target)
    with workers.open() as engine:
        translator.fit(
            source,
            target,
            held_out=held_out,
            max_pairs=max_pairs,
            anchors=None if anchors is None else list(read_space(anchors).keys),
            queries=spaces.queries(queries),
            relevant=None if relevant is None else read_relevance(relevant),
            force=force,
            engine=engine,
            progress=progress,
        )
    done = translator.fit_report_
    if confidence:
        translator.calibrate()
    translator.save(out, overwrite=report.overwrite)
    reports = report.write(
        lambda words: make_report(translator, source, target, fit=done, seed=seed, command=words, progress=progress)
    )
    return Answer(done, out, reports, embedded=embedded)


@command
def translate(
    *,
    translator: opt.TranslatorFile,
    space: opt.One,
    to: opt.Out,
    side: opt.Side = "source",
    quantize: opt.Quantize = None,
    packed: opt.Packed = False,
    accept: opt.Accept = False,
    workers: opt.Workers,
    progress: bool | None = None,
) -> Done:
    """Translate a file or folder of vectors into a new one.

    Chunk by chunk, so that memory does not grow with the file; keys and other columns are kept. Nothing is written in
    place, and writes are atomic. A path without a suffix becomes a folder of Parquet files, which several workers can
    write; if the command is killed, run it again to resume. A single file starts over.

    Examples:
      relatent translate t.safetensors old.parquet -o translated.parquet
      relatent translate t.safetensors 'old/*.parquet' -o translated/
      relatent translate t.safetensors old/ -o translated --engine processes --workers 4
      relatent translate t.safetensors old/ -o translated --engine tcp://scheduler:8786
      relatent translate t.safetensors old.npy -o translated.npy --overwrite
    """
    from relatent import load
    from relatent.spaces import MultiSpace
    from relatent.translate import translate_space

    to.check(translator)
    source, fitted = space.read(packed=packed), load(translator)
    with workers.open() as engine:
        known = translate_space(
            fitted,
            source,
            to.out,
            side=cast(Any, side),
            accept=accept,
            quantize=quantize,
            overwrite=to.overwrite,
            engine=engine,
            progress=progress,
        )
    data = {"out": to.out, "dim": known.dim, "fingerprint": known.recorded()}
    if isinstance(source, MultiSpace):
        text = f"Wrote the translated vectors of {source.n_items:,} items to {to.out}."
        return Done(text, data | {"items": source.n_items})
    data["rows"] = len(source)
    return Done(f"Wrote {len(source):,} × {known.dim} translated vectors to {to.out}.", data)


@command
def export(
    translator: opt.TranslatorFile,
    files: opt.Out,
    to: Annotated[str, Option("--to", help="onnx, sentence-transformers, faiss, huggingface, numpy, sql, atlas.")],
    source: Annotated[str | None, Argument(metavar="SOURCE", help="For atlas: vectors to translate.")] = None,
    target: opt.SomeTarget = None,
    side: opt.Side = "source",
    unit_norm: opt.UnitNorm = False,
    model: opt.Model = None,
    index: Annotated[Path | None, Option("--index", help="FAISS index to put the translator in front of.")] = None,
    scores: Annotated[Path | None, Option("--scores", help="What evaluate --json printed, for the model card.")] = None,
    dialect: Annotated[
        str | None, Option("--dialect", help="Of sql: postgresql (the default), duckdb or sqlite.")
    ] = None,
) -> Any:
    """Write a translator in the form of another library.

    onnx, faiss and sql are files, the others folders; each gives what translate gives. With --model,
    sentence-transformers is that model followed by the translator. sql is a script that makes a function named like the
    file. The model card of huggingface tells scores, limits, fingerprints and what the file discloses. atlas is a
    Parquet file of translated items: Embedding Atlas opens it (embedding-atlas FILE --x x --y y --neighbors neighbors).

    Examples:
      relatent export t.safetensors --to onnx -o t.onnx
      relatent export t.safetensors --to sentence-transformers --model ./all-MiniLM-L6-v2 -o translated-minilm
      relatent export queries.safetensors --to faiss --index old.faiss -o new.faiss
      relatent export t.safetensors --to huggingface --scores verdict.json -o card/
      relatent export queries.safetensors --to sql --dialect duckdb -o to_old.sql
      relatent export t.safetensors old.parquet new.parquet --to atlas -o atlas.parquet
    """
    import json

    from relatent import load
    from relatent._files import readable
    from relatent.exports import export as write
    from relatent.spaces import check_new, check_output

    check = check_output if to == "faiss" else check_new  # the other formats are no stores
    check(files.out, translator, index, source, target, overwrite=files.overwrite)
    with readable(scores):
        told = None if scores is None else json.loads(scores.read_text(encoding="utf8"))
    return write(
        load(translator),
        files.out,
        to,
        side=cast(Any, side),
        normalize=unit_norm,
        encoder=None if model is None else Path(model),
        index=index,
        scores=told,
        dialect=dialect,
        space=source,
        target=target,
        overwrite=files.overwrite,
    )


@command
def stitch(
    translator: opt.TranslatorFile,
    head: Annotated[Path, Argument(metavar="HEAD", help="A linear head: .safetensors or .npz with weight, bias.")],
    spaces: opt.WithTarget,
    to: opt.Out,
    label: opt.Label = None,
    accept: opt.Accept = False,
    progress: bool | None = None,
) -> Answer:
    """Let a classifier read translated vectors.

    HEAD was trained on the space that SOURCE is translated into. Writes its scores and a column `prediction`. With
    --label, the accuracy is measured on rows that the translator was not fitted on; TARGET, the head's own space, adds
    the ceiling.

    Examples:
      relatent stitch t.safetensors head.safetensors old.parquet -o predictions.parquet
      relatent stitch t.safetensors head.npz old.parquet new.parquet --label topic -o predictions.parquet
    """
    from relatent import load
    from relatent.stitching import read_head, stitch_space

    to.check(translator, head, spaces.target)
    done = stitch_space(
        load(translator),
        spaces.read(),
        read_head(head),
        to.out,
        truth=label,
        target=spaces.read_target(),
        accept=accept,
        overwrite=to.overwrite,
        progress=progress,
    )
    return Answer(done, to.out)


@command
def demo(out: Annotated[str, Option("--out", "-o", help=opt.OUT)] = "out") -> Any:
    """Migrate a search over digits from one network to another.

    Takes less than a minute. Fits, evaluates and translates, and writes the files and a picture to a folder.

    Examples:
      relatent demo
      relatent demo --out digits
    """
    from relatent.demo import run_demo

    return run_demo(Path(out))
