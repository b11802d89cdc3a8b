"""Commands that decide: evaluate, report, thresholds, backfill."""

from __future__ import annotations

import sys
from typing import Annotated, Any, cast

from typer import BadParameter, Option

from relatent.cli import options as opt
from relatent.cli.embedding import PairOrModel, QueryTexts
from relatent.cli.frame import EXIT_CODES, NO_VERDICT, Answer, Done, command


@command
def evaluate(
    *,
    translator: opt.TranslatorFile,
    spaces: PairOrModel,
    role: Annotated[
        str | None,
        Option(
            "--role",
            metavar="documents|queries",
            callback=opt.one_of("documents", "queries"),
            help="What SOURCE holds; default: by the translator's goal.",
        ),
    ] = None,
    relevant: opt.Relevant = None,
    queries: opt.Queries = None,
    texts: QueryTexts,
    slices: opt.Slices = None,
    k: opt.K = 10,
    margin: opt.Margin = 0.01,
    min_overlap: opt.MinOverlap = None,
    rerank: Annotated[int, Option("--rerank", help="Candidates that reranking ranks, per query.")] = 200,
    index_rows: opt.IndexRows = None,
    reembed_rows: Annotated[int | None, Option("--reembed-rows", help="Rows to re-embed, to weigh its cost.")] = None,
    reembedding: opt.Reembedding,
    quantize: opt.Quantize = None,
    truncate: Annotated[str | None, Option("--truncate", help="First coordinates to keep, such as 256,128.")] = None,
    max_rows: opt.MaxRows = 10_000,
    seed: opt.Seed = 0,
    packed: opt.Packed = False,
    accept: opt.Accept = False,
    force: opt.Force = False,
    report: opt.Report,
    progress: bool | None = None,
) -> Answer:
    """Recommend to stay, translate, rerank or re-embed.

    Each option is tried on held-out items that are no near-copies of fitted ones: staying is the old model with the
    old index; reranking takes candidates from the translated search, or from the old model's (rerank-old), and ranks
    them by the new model's own vectors; re-embedding uses the new model throughout. With --relevant, nDCG@k decides, as
    expected in an index of all of SOURCE or of --index-rows, by 95 % intervals of paired differences; the rule is
    printed with the verdict. Without it, overlap@k tells how similar the results are to re-embedding, not how good:
    there is no verdict, unless --min-overlap makes it a gate. With --embed, TARGET is made as for fit, and queries may
    be texts: past ones (--query-texts), or made of the items' titles or first sentences (--queries-from), which are no
    judgments. Where the old model is gone, and cannot embed them (--embed-old), only what the new model finds is
    reported. There is no GO for a translator that does not know what
    it was fitted on, nor where much of SOURCE resembles nothing fitted or judged, unless --force is given. Files of
    several vectors per item are scored by MaxSim, without a verdict. Exits with 0 for GO (translate or rerank), 3 for
    NO-GO (stay, rerank-old or re-embed) and 4 for no verdict.

    Examples:
      relatent evaluate t.safetensors old.parquet new.parquet --relevant clicks.tsv
      relatent evaluate t.safetensors old.parquet --embed ollama:new --queries-from title
      relatent evaluate t.safetensors old.parquet --embed ollama:new --query-texts log.jsonl --relevant clicks.tsv
      relatent evaluate t.safetensors old.parquet new.parquet --relevant test.qrels --slices language
      relatent evaluate t.safetensors old.parquet new.parquet --relevant scifact --queries old-q.parquet new-q.parquet
      relatent evaluate t.safetensors old.parquet new.parquet --min-overlap 0.6 --quantize int8,binary --truncate 256
      relatent evaluate queries.safetensors new.parquet old.parquet --role queries --json
      relatent evaluate t.safetensors old.parquet new.parquet --relevant clicks.tsv --report verdict.html
    """
    from relatent import load
    from relatent.decide import Rule, evaluate_items, evaluate_queries, evaluate_spaces, storages
    from relatent.decide.evaluation import role_of
    from relatent.report import make_report
    from relatent.spaces import MultiSpace

    report.check(translator, spaces.source, spaces.target, relevant, *(queries or ()))
    fitted = load(translator)
    source, target, embedded = spaces.open(progress, translator=fitted, packed=packed)
    if isinstance(source, MultiSpace) and isinstance(target, MultiSpace):
        if report.report or relevant is not None or min_overlap is not None:
            raise ValueError(
                "Items of several vectors have scores only: leave out --report, --relevant, --min-overlap."
            )
        return Answer(evaluate_items(fitted, source, target, accept=accept), code=NO_VERDICT)
    asked, judgments = spaces.queries(queries), opt.judged(relevant)
    if texts.wanted(spaces, queries):
        new, old, judgments = texts.embedded(fitted, source, target, spaces, judgments, progress)
        if old is None and report.report:
            raise BadParameter("A report needs the queries of both models: add --embed-old, or leave --report out.")
        if old is None:
            scored = evaluate_queries(
                fitted,
                source,
                target,
                new,
                role=role,
                relevant=judgments,
                k=k,
                index_rows=index_rows,
                max_rows=max_rows,
                accept=accept,
                force=force,
                seed=seed,
            )
            return Answer(scored, code=NO_VERDICT, embedded=embedded)
        asked = (old, new) if role_of(fitted, role) == "documents" else (new, old)
    shared: dict[str, Any] = {"role": role, "queries": asked, "slices": slices, "seed": seed, "progress": progress}
    verdict = evaluate_spaces(
        fitted,
        source,
        target,
        relevant=judgments,
        k=k,
        candidates=rerank,
        index_rows=index_rows,
        max_rows=max_rows,
        rule=Rule(margin, min_overlap=min_overlap),
        cost=_cost(reembed_rows or _rows_known(source, embedded), reembedding.measured(embedded)),
        stored=storages(_listed(quantize), [_count(part) for part in _listed(truncate)]),
        accept=accept,
        force=force,
        **shared,
    )
    reports = report.write(lambda words: make_report(fitted, source, target, verdict=verdict, command=words, **shared))
    return Answer(verdict, reports=reports, code=EXIT_CODES[verdict.decision.verdict], embedded=embedded)


def _rows_known(source: Any, took: Any) -> int | None:
    """Return how many rows would be re-embedded, where it is known what that takes."""
    return None if took is None or (took.rows_per_second, took.price_per_million) == (None, None) else len(source)


def _cost(rows: int | None, given: opt.Reembedding) -> Any:
    from relatent.decide import Cost

    speed, price = given.rows_per_second, given.price_per_million
    if rows is None and (speed, price) != (None, None):
        raise BadParameter("A speed or price of re-embedding needs the number of rows: add --reembed-rows.")
    return None if rows is None else Cost(rows, speed, price, given.max_hours, given.budget)


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _count(text: str) -> int:
    if not text.isdigit():
        raise BadParameter(f"{text!r} is no number of coordinates.")
    return int(text)


@command
def report(
    spaces: opt.Pair,
    out: Annotated[list[str], Option("--out", "-o", help=opt.OUT)],
    more: opt.More = None,
    translator: opt.SomeTranslator = None,
    goal: opt.Goal = "index",
    relevant: opt.Relevant = None,
    queries: opt.Queries = None,
    min_overlap: opt.MinOverlap = None,
    slices: opt.Slices = None,
    text: opt.Text = None,
    k: opt.K = 10,
    max_pairs: opt.MaxPairs = 20_000,
    max_rows: opt.MaxRows = 2_000,
    seed: opt.Seed = 0,
    accept: opt.Accept = False,
    overwrite: opt.Overwrite = False,
    progress: bool | None = None,
) -> Answer:
    """Write a report on a move from one space to another.

    As .html, .md or .json. What to do and by which rule, each option with its interval, whether more pairs are worth
    buying, cosines and thresholds, slices and the items that fare worst, anchors, similarity, provenance, and when a
    translation will not help. The HTML page is one file that needs no network and no script. It shows keys of the worst
    items, no vectors, and no texts unless --text names their column.

    Examples:
      relatent report old.parquet new.parquet -o report.html
      relatent report old.parquet new.parquet --translator t.safetensors --relevant clicks.tsv -o report.html
      relatent report old.npy new.npy other.npy --slices language --text title -o report.md -o report.json
    """
    from relatent import Translator, load
    from relatent.decide import Rule
    from relatent.report import command_line, headline_of, make_report, write_report

    opt.Report(report=out, overwrite=overwrite).check(spaces.source, spaces.target, *(more or ()), translator)
    source, target = spaces.pair()
    found = make_report(
        Translator(cast(Any, goal), seed=seed) if translator is None else load(translator),
        source,
        target,
        *spaces.others(more),
        relevant=opt.judged(relevant),
        queries=spaces.queries(queries),
        slices=slices,
        texts=text,
        k=k,
        rule=Rule(min_overlap=min_overlap),
        max_pairs=max_pairs,
        max_rows=max_rows,
        accept=accept,
        seed=seed,
        command=command_line(sys.argv[1:]),
        progress=progress,
    )
    for path in out:
        write_report(found, path, overwrite=overwrite)
    return Answer(Done(str(headline_of(found)), found.to_dict()), out)


@command
def thresholds(
    spaces: opt.Pair,
    threshold: Annotated[
        list[float] | None, Option("--threshold", help="A threshold in SOURCE; repeat for more.")
    ] = None,
    purpose: Annotated[
        str, Option("--for", help="link (every two items), dedup or cache (item and nearest).")
    ] = "link",
    relevant: opt.Relevant = None,
    max_rows: opt.MaxRows = 5_000,
    seed: opt.Seed = 0,
) -> Any:
    """Find the similarity threshold that does in TARGET what another did in SOURCE.

    SOURCE are vectors of the old model; TARGET those of the new model, or translated ones. The cosine similarities of
    two models are not on one scale: a threshold that found duplicates in one may link everything in the other. The new
    threshold passes as many pairs; with --relevant, the pairs that belong together, it has the same precision.

    Examples:
      relatent thresholds old.parquet new.parquet --threshold 0.7 --threshold 0.9
      relatent thresholds old.parquet translated.parquet --for dedup --relevant duplicates.csv --json
    """
    from relatent import thresholds
    from relatent.decide.threshold import THRESHOLDS

    old, same = threshold or THRESHOLDS, opt.judged(relevant)
    return thresholds(*spaces.pair(), old, purpose=purpose, same=same, max_rows=max_rows, seed=seed)


@command
def backfill(
    *,
    translator: opt.TranslatorFile,
    spaces: PairOrModel,
    out: opt.SomeOut = None,
    overwrite: opt.Overwrite = False,
    count: opt.Count = None,
    left: Annotated[float, Option("--left", help="Share of the gain that may be left where you stop.")] = 0.05,
    run: Annotated[
        str | None, Option("--run", metavar="ORDER", help="Embed the items that ORDER lists, into the store SOURCE.")
    ] = None,
    most: Annotated[int | None, Option("--limit", help="With --run: items to embed at most.")] = None,
    seed: opt.Seed = 0,
    progress: bool | None = None,
) -> Answer:
    """Order stored items by how much re-embedding them helps, and re-embed them.

    Items whose translation is least likely to be found come first, weighted by how often they are requested. How likely
    each is, its confidence, is calibrated on the items for which TARGET has true vectors; with --embed these are made,
    as for fit. The order is written to --out, and nothing else is changed.

    With --run, the store SOURCE serves translated vectors (after migrate cutover): those of the items in ORDER are
    replaced by what --embed makes of their texts, in this order. The old field is not touched. What was embedded is
    kept in --cache: if the command is killed, run it again to resume.

    Examples:
      relatent backfill t.safetensors old.parquet new-sample.parquet -o order.parquet
      relatent backfill t.safetensors old.parquet new-sample.parquet --count clicks -o order.parquet --json
      relatent backfill t.safetensors postgresql://ann@db/shop/items --embed ollama:new -o order.parquet
      relatent backfill t.safetensors postgresql://ann@db/shop/items --embed ollama:new --run order.parquet --limit 5000
    """
    from relatent import load
    from relatent.decide import plan_backfill

    fitted = load(translator)
    if run is not None:
        return _run_backfill(fitted, spaces, run, most, progress)
    if out is None:
        raise BadParameter("Name the file to write the order to (--out), or one to embed by (--run).")
    source, target, took = spaces.open(progress, translator=fitted)
    found = plan_backfill(fitted, source, target, out, counts=count, left=left, overwrite=overwrite, seed=seed)
    return Answer(found, str(out), embedded=took)


def _run_backfill(translator: Any, spaces: PairOrModel, order: str, most: int | None, progress: bool | None) -> Answer:
    from relatent.encode import text_encoder
    from relatent.migrate import run_backfill
    from relatent.spaces import read_space

    if spaces.embed is None or spaces.target is not None:
        raise BadParameter("--run embeds texts of the store SOURCE: name the model with --embed, and no TARGET.")
    return Answer(
        run_backfill(
            translator,
            spaces.source,
            read_space(order, key=spaces.key),
            text_encoder(spaces.embed).prefixed(spaces.prefix),
            text=spaces.text,
            most=most,
            max_chars=spaces.max_chars,
            cache=spaces.cache,
            token_price=spaces.token_price,
            tell=spaces.teller(progress),
            progress=progress,
        )
    )
