"""Commands that move a store to another model: migrate plan, apply, status, verify, cutover, rollback, finish."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from relatent.cli.frame import ERROR, NO_GO, NO_VERDICT, OK, Answer, command, group
from relatent.cli.options import Accept, EngineName, Html, K, Markdown, Scheduler, Seed, Workers, write_pages

ABOUT = """Move a store of vectors to another model, a step at a time.

\b
  relatent migrate plan STORE -t t.safetensors --sample OLD NEW
  relatent migrate apply STORE -t t.safetensors
  relatent migrate verify STORE
  relatent migrate cutover STORE
  relatent migrate rollback STORE
  relatent migrate finish STORE

\b
STORE is a URL: postgresql://user@host/database/table, qdrant://host:6333/collection,
lance:///folder/table.lance, chroma://host:8000/collection, faiss:///folder/index.faiss.
Better than in the URL, a password stands in the environment (PGPASSWORD, QDRANT_API_KEY).

The old vectors are never modified: new ones go into a new field, which is served from the cutover on, until a rollback.
Only finish drops what was served before.
"""

step = partial(command, group=group("migrate", ABOUT))

EXIT_CODES = {"GO": OK, "NO-GO": NO_GO, "no verdict": NO_VERDICT}

StoreUrl = Annotated[str, typer.Argument(metavar="STORE", help="The store: a URL, or a path to a .faiss or .lance.")]
Translator = Annotated[Path, typer.Option("--translator", "-t", help="What `relatent fit` wrote.")]
WorkFolder = Annotated[
    Path | None,
    typer.Option("--work", help="Folder to remember progress in; .relatent/NAME-HASH if not said."),
]

Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype", help="float32, float16, int8, uint8 or bit, where the store has it; like the old field if not said."
    ),
]
Metric = Annotated[
    str | None, typer.Option("--metric", help="cosine, inner or l2; what the translator was made for if not said.")
]


@step
def plan(
    store: StoreUrl,
    translator: Translator,
    sample: Annotated[
        tuple[str, str] | None,
        typer.Option("--sample", metavar="OLD NEW", help="Both models' vectors of some items, for the verdict."),
    ] = None,
    relevant: Annotated[
        Path | None, typer.Option("--relevant", help="Judged pairs of held-out keys, as in evaluate.")
    ] = None,
    min_overlap: Annotated[
        float | None, typer.Option("--min-overlap", help="Without --relevant: lower bound of overlap@10 that GO takes.")
    ] = None,
    dtype: Dtype = None,
    metric: Metric = None,
    embed_rate: Annotated[
        float | None, typer.Option("--embed-rate", help="Rows per second that the new model encodes.")
    ] = None,
    embed_cost: Annotated[
        float | None, typer.Option("--embed-cost", help="What a thousand rows cost to encode.")
    ] = None,
    max_hours: Annotated[float, typer.Option("--max-hours", help="Hours that re-embedding may take.")] = 24.0,
    budget: Annotated[float, typer.Option("--budget", help="What re-embedding may cost.")] = 100.0,
    no_texts: Annotated[
        bool, typer.Option("--no-texts", help="The texts are lost: nothing can be re-embedded.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Do not measure how fast the store writes.")] = False,
    trial_rows: Annotated[int, typer.Option("--trial-rows", help="Rows to measure on.")] = 10_000,
    accept: Accept = False,
    html: Html = None,
    markdown: Markdown = None,
    progress: bool | None = None,
) -> Answer:
    """Say what a migration would take, and whether to do it.

    Rows, sizes and time, from a trial on a few rows that leaves nothing behind; the cost of re-embedding; and the
    verdict of evaluate on held-out pairs. Exits with 0 for GO (translate or rerank), 3 for NO-GO (stay or re-embed)
    and 4 for no verdict.

    Examples:
      relatent migrate plan postgresql://ann@db/shop/items -t t.safetensors --sample old.parquet new.parquet
      relatent migrate plan items.faiss -t t.safetensors --embed-rate 500 --embed-cost 0.02 --read-only --json
    """
    from relatent.decide import read_relevance
    from relatent.migrate import plan_migration
    from relatent.report import make_report
    from relatent.spaces import read_space

    pair = None if sample is None else (read_space(sample[0]), read_space(sample[1]))
    found = plan_migration(
        store,
        translator,
        sample=pair,
        relevant=None if relevant is None else read_relevance(relevant),
        min_overlap=min_overlap,
        dtype=dtype,
        metric=metric,
        embed_rate=embed_rate,
        embed_cost=embed_cost,
        max_hours=max_hours,
        budget=budget,
        texts=not no_texts,
        trial=not read_only,
        trial_rows=trial_rows,
        accept=accept,
        progress=progress,
    )
    pages = write_pages((html, markdown), lambda words: make_report(found, *(pair or ()), command=words))
    return Answer(f"{found}{pages}", found.to_dict(), EXIT_CODES[found.decision])


@step
def apply(
    store: StoreUrl,
    translator: Translator,
    work: WorkFolder = None,
    into: Annotated[str | None, typer.Option("--into", help="Name of the new field.")] = None,
    dtype: Dtype = None,
    metric: Metric = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Rows per second at most, to spare the store.")] = None,
    shard_rows: Annotated[int, typer.Option("--shard-rows", help="Rows after which progress is remembered.")] = 50_000,
    max_passes: Annotated[
        int, typer.Option("--max-passes", help="Maximum of passes over the source to check for changes.")
    ] = 5,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="Leave out, name and count rows that cannot be read.")
    ] = False,
    engine: EngineName = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    accept: Accept = False,
    progress: bool | None = None,
) -> Answer:
    """Translate the vectors of a store into a new field.

    Shard by shard; searches go on reading the old field. Run it again after a crash, and it goes on from the last
    shard that was done. Then the source is looked at again: rows that were added, changed or deleted meanwhile are
    followed.

    Examples:
      relatent migrate apply postgresql://ann@db/shop/items -t t.safetensors
      relatent migrate apply qdrant://db:6333/items -t t.safetensors --rate 2000 --workers 4
      relatent migrate apply items.faiss -t t.safetensors --dtype int8
    """
    from relatent.engines import open_engine
    from relatent.migrate import apply_migration

    with open_engine(engine, workers, scheduler) as runner:
        done = apply_migration(
            store,
            translator,
            work=work,
            into=into,
            dtype=dtype,
            metric=metric,
            rate=rate,
            shard_rows=shard_rows,
            max_passes=max_passes,
            skip_unreadable=skip_unreadable,
            accept=accept,
            engine=runner,
            progress=progress,
        )
    return Answer(str(done), done.to_dict())


@step
def status(store: StoreUrl, work: WorkFolder = None) -> Answer:
    """Say how far a migration is.

    Also while it runs, and while the store is down.

    Examples:
      relatent migrate status postgresql://ann@db/shop/items
      relatent migrate status items.faiss --json
    """
    from relatent.migrate import migration_status

    found = migration_status(store, work=work)
    return Answer(str(found), found.to_dict())


@step
def verify(
    store: StoreUrl,
    work: WorkFolder = None,
    queries: Annotated[
        str | None, typer.Option("--queries", help="Vectors of the new model to ask with: a file.")
    ] = None,
    shards: Annotated[int, typer.Option("--shards", help="Shards to compare row by row.")] = 8,
    sample: Annotated[int, typer.Option("--sample", help="Queries to ask.")] = 100,
    k: K = 10,
    margin: Annotated[
        float, typer.Option("--margin", help="How much less than the old index the new one may find.")
    ] = 0.02,
    seed: Seed = 0,
    html: Html = None,
    markdown: Markdown = None,
    progress: bool | None = None,
) -> Answer:
    """Check that the new field may be served.

    Counts, rows of some shards against the translation of the old ones, and searches of the index against exact ones,
    beside those of the old index: over other vectors an approximate index can lose recall. Exits with 3 if a check
    fails.

    Examples:
      relatent migrate verify postgresql://ann@db/shop/items
      relatent migrate verify qdrant://db:6333/items --queries new-queries.parquet --json
    """
    from relatent.migrate import verify_migration
    from relatent.report import make_report
    from relatent.spaces import read_space

    found = verify_migration(
        store,
        work=work,
        queries=None if queries is None else read_space(queries),
        shards=shards,
        sample=sample,
        k=k,
        margin=margin,
        seed=seed,
        progress=progress,
    )
    pages = write_pages((html, markdown), lambda words: make_report(found, command=words))
    return Answer(f"{found}{pages}", found.to_dict(), OK if found.passed else NO_GO)


@step
def cutover(
    store: StoreUrl,
    work: WorkFolder = None,
    force: Annotated[bool, typer.Option("--force", help="Cut over although it was not verified.")] = False,
) -> Answer:
    """Serve the new field.

    In one step for every reader; the old field is kept. Refused unless verify has passed since the last write.

    Examples:
      relatent migrate cutover postgresql://ann@db/shop/items
      relatent migrate cutover items.faiss --force
    """
    from relatent.migrate import cut_over

    done = cut_over(store, work=work, force=force)
    return Answer(str(done), done.to_dict())


@step
def rollback(
    store: StoreUrl,
    work: WorkFolder = None,
    drop: Annotated[bool, typer.Option("--drop", help="Remove the new field too.")] = False,
) -> Answer:
    """Serve the old field again.

    In one step for every reader, at any time after the cutover. With --drop the new field is removed as well, also
    before a cutover.

    Examples:
      relatent migrate rollback postgresql://ann@db/shop/items
      relatent migrate rollback items.faiss --drop
    """
    from relatent.migrate import roll_back

    done = roll_back(store, work=work, drop=drop)
    return Answer(str(done), done.to_dict())


@step
def finish(
    store: StoreUrl,
    work: WorkFolder = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Drop the old field although it has more vectors than the new one.")
    ] = False,
    progress: bool | None = None,
) -> Answer:
    """Drop what was served before the cutover.

    From then on there is no rollback, and the store can be migrated again. Asks first, unless told --yes. Killed in the
    middle, run it again to end it.

    Examples:
      relatent migrate finish postgresql://ann@db/shop/items
      relatent migrate finish items.faiss --yes --json
    """
    from relatent.migrate import finish_migration, old_field

    found = None if yes else old_field(store)
    if found is not None and not _agreed(f"{found}\nDrop {found.old.name!r}?"):
        return Answer(f"{found.old.name!r} is kept.", {"dropped": None}, ERROR)
    done = finish_migration(store, work=work, force=force)
    return Answer(str(done), done.to_dict())


def _agreed(question: str) -> bool:
    """Ask a person, on the standard error."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        raise ValueError("Nobody could be asked whether to drop the old field: add --yes to do so.") from None
