"""Commands that judge: evaluate, and report, which looks at everything and writes it down."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from relatent.cli.frame import NO_GO, NO_VERDICT, OK, Answer, command
from relatent.cli.options import (
    Accept,
    ByRow,
    Force,
    Html,
    K,
    Key,
    Markdown,
    MinOverlap,
    Packed,
    Seed,
    Slices,
    SourceSpace,
    TargetKey,
    TargetSpace,
    TargetVector,
    TranslatorFile,
    Vector,
    write_pages,
)
from relatent.cli.options import spaces as two_spaces

EXIT_CODES = {"GO": OK, "NO-GO": NO_GO, "no verdict": NO_VERDICT}


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
        typer.Option(
            "--relevant", help="Judged pairs of held-out keys: a table of query, item and perhaps grade, or TREC qrels."
        ),
    ] = None,
    slices: Slices = None,
    k: K = 10,
    margin: Annotated[
        float, typer.Option("--margin", help="How much worse than staying a translation may be, in nDCG@k.")
    ] = 0.01,
    min_overlap: MinOverlap = None,
    candidates: Annotated[
        int, typer.Option("--candidates", "--rerank", help="Items that reranking ranks by the new model, per query.")
    ] = 200,
    reembed_rows: Annotated[
        int | None, typer.Option("--reembed-rows", help="Rows that re-embedding would encode, to weigh its cost.")
    ] = None,
    rows_per_second: Annotated[
        float | None, typer.Option("--rows-per-second", help="How fast the new model encodes.")
    ] = None,
    price: Annotated[float | None, typer.Option("--price", help="What a million rows cost to encode.")] = None,
    max_hours: Annotated[float, typer.Option("--max-hours", help="Hours that re-embedding may take.")] = 24.0,
    budget: Annotated[float, typer.Option("--budget", help="What re-embedding may cost.")] = 100.0,
    quantize: Annotated[
        str | None,
        typer.Option("--quantize", help="Storage of the index to try: float16, int8, uint8, binary, by commas."),
    ] = None,
    truncate: Annotated[
        str | None, typer.Option("--truncate", help="Numbers of first coordinates to try, such as 256,128.")
    ] = None,
    max_rows: Annotated[int, typer.Option("--rows", help="Held-out rows to search among at most.")] = 10_000,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    target_vector: TargetVector = None,
    target_key: TargetKey = None,
    by_row: ByRow = False,
    packed: Packed = False,
    accept: Accept = False,
    html: Html = None,
    markdown: Markdown = None,
    progress: bool | None = None,
) -> Answer:
    """Recommend to stay, translate, rerank or re-embed.

    Each is tried on held-out items: staying is the old model with the old index; reranking takes candidates from
    the translated search and ranks them by the new model's own vectors; re-embedding uses the new model throughout.
    With --relevant, nDCG@k decides by 95 % intervals of paired differences; the rule is printed with the verdict.
    Without it, overlap@k says how alike the results are to re-embedding, not how good: no verdict, unless
    --min-overlap makes it a gate. Exits with 0 for GO (translate or rerank), 3 for NO-GO (stay or re-embed) and 4 for
    no verdict.

    Examples:
      relatent evaluate t.safetensors old.parquet new.parquet --relevant clicks.tsv
      relatent evaluate t.safetensors old.parquet new.parquet --relevant test.qrels --slices language
      relatent evaluate t.safetensors old.parquet new.parquet --min-overlap 0.6 --quantize int8,binary --truncate 256
      relatent evaluate queries.safetensors new.parquet old.parquet --side queries --json
      relatent evaluate t.safetensors old.parquet new.parquet --relevant clicks.tsv --html verdict.html
    """
    from relatent import load
    from relatent.decide import Cost, Rule, evaluate_spaces, read_relevance, storages
    from relatent.report import make_report

    source, target = two_spaces(old, new, vector, key, target_vector, target_key, by_row, packed)
    cost = None if reembed_rows is None else Cost(reembed_rows, rows_per_second, price, max_hours, budget)
    fitted = load(translator)
    verdict = evaluate_spaces(
        fitted,
        source,
        target,
        role=side,
        relevant=None if relevant is None else read_relevance(relevant),
        slices=slices,
        k=k,
        candidates=candidates,
        max_rows=max_rows,
        rule=Rule(margin, min_overlap=min_overlap),
        cost=cost,
        stored=storages(_listed(quantize), [_count(part) for part in _listed(truncate)]),
        accept=accept,
        seed=seed,
        progress=progress,
    )
    pages = write_pages(
        (html, markdown),
        lambda words: make_report(
            fitted,
            source,
            target,
            verdict=verdict,
            side=side,
            slices=slices,
            seed=seed,
            command=words,
            progress=progress,
        ),
    )
    return Answer(f"{verdict}{pages}", verdict.to_dict(), EXIT_CODES[verdict.decision.verdict])


def _listed(text: str | None) -> list[str]:
    return [] if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _count(text: str) -> int:
    if not text.isdigit():
        raise typer.BadParameter(f"{text!r} is no number of coordinates.")
    return int(text)


@command
def report(
    old: SourceSpace,
    new: TargetSpace,
    out: Annotated[
        list[str], typer.Option("--out", "-o", help="Where to write: .html, .md or .json; repeat for several.")
    ],
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MORE]...", help="Further spaces of the same items, for the similarity matrix."),
    ] = None,
    translator: Annotated[
        Path | None, typer.Option("--translator", "-t", help="What `relatent fit` wrote; else one is fitted.")
    ] = None,
    goal: Annotated[str, typer.Option("--goal", help="Of the fit: vectors, retrieval or stitching.")] = "vectors",
    relevant: Annotated[
        Path | None, typer.Option("--relevant", help="Judged pairs of held-out keys, as in evaluate.")
    ] = None,
    min_overlap: MinOverlap = None,
    slices: Slices = None,
    with_texts: Annotated[
        str | None, typer.Option("--with-texts", help="Column to show of the worst items; else their keys only.")
    ] = None,
    k: K = 10,
    max_pairs: Annotated[int, typer.Option("--pairs", help="Pairs to fit on at most.")] = 20_000,
    max_rows: Annotated[int, typer.Option("--rows", help="Held-out rows to look at, at most.")] = 2_000,
    seed: Seed = 0,
    vector: Vector = None,
    key: Key = None,
    target_vector: TargetVector = None,
    target_key: TargetKey = None,
    by_row: ByRow = False,
    accept: Accept = False,
    force: Force = False,
    progress: bool | None = None,
) -> Answer:
    """Write a report that one can show around.

    What to do and by which rule, each option with its interval, whether more pairs are worth buying, cosines and
    thresholds, slices and the items that fare worst, anchors, similarity, provenance, and when a translation will not
    help. The HTML page is one file that needs no network and no script. It holds keys of the worst items, but no
    vectors, and no texts unless --with-texts asks for them.

    Examples:
      relatent report old.parquet new.parquet -o report.html
      relatent report old.parquet new.parquet -t t.safetensors --relevant clicks.tsv -o report.html -o report.json
      relatent report old.npy new.npy other.npy --slices language --with-texts title -o report.md
    """
    from relatent import Translator, load
    from relatent.decide import Rule, read_relevance
    from relatent.report import check_report_path, command_line, headline_of, make_report, write_report
    from relatent.spaces import check_new, read_space

    for path in out:
        check_report_path(path)
        check_new(path, old, new, *(more or ()), overwrite=force)
    source, target = two_spaces(old, new, vector, key, target_vector, target_key, by_row)
    others = [read_space(path, vector=target_vector or vector, key=target_key or key) for path in more or ()]
    found = make_report(
        Translator(goal, seed=seed) if translator is None else load(translator),
        source,
        target,
        *([space.without_keys() for space in others] if by_row else others),
        relevant=None if relevant is None else read_relevance(relevant),
        slices=slices,
        texts=with_texts,
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
        write_report(found, path, overwrite=force)
    return Answer(f"{headline_of(found)}\nWrote {' and '.join(out)}.", {"out": out, **found.to_dict()})
