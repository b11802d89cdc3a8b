"""The command that looks at everything and writes it down: report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from relatent.cli.frame import Answer, command
from relatent.cli.options import (
    Accept,
    ByRow,
    Force,
    K,
    Key,
    MinOverlap,
    Seed,
    Slices,
    SourceSpace,
    TargetKey,
    TargetSpace,
    TargetVector,
    Vector,
)
from relatent.cli.options import spaces as two_spaces

__all__ = ["report"]


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
    cut-offs, slices and the items that fare worst, anchors, similarity, provenance, and when a translation will not
    help. The HTML page is one file that needs no network and no script. It holds keys of the worst items, but no
    vectors, and no texts unless --with-texts asks for them.

    Examples:
      relatent report old.parquet new.parquet -o report.html
      relatent report old.parquet new.parquet -t t.safetensors --relevant clicks.tsv -o report.html -o report.json
      relatent report old.npy new.npy other.npy --slices language --with-texts title -o report.md
    """
    from relatent.deliver import load, read_relevance, report_spaces, write_report
    from relatent.deliver.report import check_report_path, command_line, headline_of
    from relatent.evaluate import Rule
    from relatent.spaces import check_new, read_space

    for path in out:
        check_report_path(path)
        check_new(path, old, new, *(more or ()), overwrite=force)
    source, target = two_spaces(old, new, vector, key, target_vector, target_key, by_row)
    others = [read_space(path, vector=target_vector or vector, key=target_key or key) for path in more or ()]
    found = report_spaces(
        source,
        target,
        [space.without_keys() for space in others] if by_row else others,
        translator=None if translator is None else load(translator),
        goal=goal,
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
