"""Commands that move a store to another model, one for each step: migrate plan, rehearse, apply and so on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, BadParameter, Option

from relatent.cli import options as opt
from relatent.cli.embedding import Embedding
from relatent.cli.frame import ERROR, EXIT_CODES, NO_GO, OK, Answer, Done, command, group

ABOUT = """Move a store of vectors to another model, a step at a time.

\b
  relatent migrate plan t.safetensors STORE SOURCE TARGET
  relatent migrate rehearse t.safetensors STORE
  relatent migrate apply t.safetensors STORE
  relatent migrate verify STORE
  relatent migrate cutover STORE
  relatent migrate rollback STORE
  relatent migrate finish STORE

\b
STORE is a URL: postgresql://user@host/database/table, qdrant://host:6333/collection,
lance:///folder/table.lance, chroma://host:8000/collection, faiss:///folder/index.faiss.
Keep a password in the environment (PGPASSWORD, QDRANT_API_KEY) rather than in the URL.

The old vectors are never modified: new ones go into a new field, which is served from the cutover on, until a rollback.
Only finish drops what was served before.
"""

step = partial(command, group=group("migrate", ABOUT))

StoreUrl = Annotated[str, Argument(metavar="STORE", help="The store: a URL, or a path to a .faiss or .lance.")]
WorkFolder = Annotated[Path | None, Option("--work", help="Folder for progress; default: .relatent/NAME-HASH.")]
Dtype = Annotated[
    str | None,
    Option("--dtype", help="float32, float16, int8, uint8, bit, if the store has it; default: as before."),
]
MaxPasses = Annotated[int, Option("--max-passes", help="Times to read the source again for changes, at most.")]
Metric = Annotated[str | None, Option("--metric", help="cosine, inner or l2; default: that of the translator.")]


@step
def plan(
    *,
    translator: opt.TranslatorFile,
    store: StoreUrl,
    source: Annotated[str | None, Argument(metavar="SOURCE", help="Held-out items in the source space.")] = None,
    target: opt.SomeTarget = None,
    relevant: opt.Relevant = None,
    queries: opt.Queries = None,
    min_overlap: opt.MinOverlap = None,
    dtype: Dtype = None,
    metric: Metric = None,
    embedding: Embedding,
    reembedding: opt.Reembedding,
    no_texts: Annotated[bool, Option("--no-texts", help="The texts are lost: nothing can be re-embedded.")] = False,
    read_only: Annotated[bool, Option("--read-only", help="Do not measure how fast the store writes.")] = False,
    max_rows: opt.MaxRows = 10_000,
    accept: opt.Accept = False,
    force: opt.Force = False,
    report: opt.Report,
    progress: bool | None = None,
) -> Answer:
    """Estimate what a migration takes, and decide whether to do it.

    Rows, sizes and time, from a trial on a few rows that leaves nothing behind; the cost of re-embedding; and the
    verdict of evaluate on SOURCE and TARGET, vectors of held-out items, for an index of the store's rows. With --embed,
    they are those of the store and of texts in it, as for fit, and the speed and price of re-embedding are those
    measured (--token-price). Exits with 0
    for GO (translate or rerank), 3 for NO-GO (stay, rerank-old or re-embed) and 4 for no verdict.

    Examples:
      relatent migrate plan t.safetensors postgresql://ann@db/shop/items old.parquet new.parquet
      relatent migrate plan t.safetensors postgresql://ann@db/shop/items --embed ollama:nomic-embed-text --text body
      relatent migrate plan t.safetensors items.faiss --rows-per-second 500 --price-per-million 20 --read-only --json
    """
    from relatent import load
    from relatent.migrate import plan_migration
    from relatent.report import make_report
    from relatent.spaces import read_space

    report.check(translator, source, target, *(queries or ()))
    if source is not None and target is None:
        raise BadParameter("SOURCE was given without TARGET: give the vectors of the same items in both spaces.")
    pair = None if source is None or target is None else (read_space(source), read_space(target))
    embedded = None
    if embedding.embed is not None:
        if pair is not None:
            raise BadParameter("Vectors in SOURCE and TARGET were given, and --embed too: expected one of them.")
        stored = read_space(store)
        made, embedded = embedding.target_of(stored, progress, load(translator))
        pair = stored, made
    found = plan_migration(
        translator,
        store,
        sample=pair,
        relevant=opt.judged(relevant),
        queries=None if queries is None else (read_space(queries[0]), read_space(queries[1])),
        min_overlap=min_overlap,
        dtype=dtype,
        metric=metric,
        **vars(reembedding.measured(embedded)),
        texts=not no_texts,
        trial=not read_only,
        trial_rows=max_rows,
        accept=accept,
        force=force,
        progress=progress,
    )
    reports = report.write(lambda words: make_report(found, *(pair or ()), command=words))
    return Answer(found, reports=reports, code=EXIT_CODES[found.decision], embedded=embedded)


@step
def apply(
    *,
    translator: opt.TranslatorFile,
    store: StoreUrl,
    work: WorkFolder = None,
    into: Annotated[str | None, Option("--into", help="Name of the new field.")] = None,
    dtype: Dtype = None,
    metric: Metric = None,
    max_rate: Annotated[float | None, Option("--max-rate", help="Rows per second at most, to spare the store.")] = None,
    shard_rows: Annotated[int, Option("--shard-rows", help="Rows after which progress is recorded.")] = 50_000,
    max_passes: MaxPasses = 5,
    postpone: Annotated[bool, Option("--postpone", help="Wait before the last pass, until a file is removed.")] = False,
    skip_unreadable: Annotated[bool, Option("--skip-unreadable", help="Skip, name and count unreadable rows.")] = False,
    workers: opt.Workers,
    canary: Annotated[str | None, Option("--canary", metavar="SPACE", help="Items of the store, to check by.")] = None,
    accept: opt.Accept = False,
    progress: bool | None = None,
) -> Any:
    """Translate the vectors of a store into a new field.

    Shard by shard, while searches read the old field. After a crash, run it again to resume from the last finished
    shard. PostgreSQL translates what is written meanwhile by itself, with triggers. Other stores are read again, until
    rows that were added, changed or deleted meanwhile are copied.

    Rows that look like those of another model stop it, unless a --canary of items of the store (monitor make-canary)
    tells that they are not, or --accept is given.

    While it runs, a number in the file max-rate of its work folder replaces --max-rate (0 for a pause). With
    --postpone, it keeps catching up until the file that status names is removed.

    Examples:
      relatent migrate apply t.safetensors postgresql://ann@db/shop/items
      relatent migrate apply t.safetensors qdrant://db:6333/items --max-rate 2000 --workers 4
      relatent migrate apply t.safetensors items.faiss --dtype int8
    """
    from relatent.migrate import apply_migration
    from relatent.spaces import read_space

    with workers.open() as engine:
        return apply_migration(
            translator,
            store,
            work=work,
            into=into,
            dtype=dtype,
            metric=metric,
            rate=max_rate,
            shard_rows=shard_rows,
            max_passes=max_passes,
            postpone=postpone,
            skip_unreadable=skip_unreadable,
            canary=None if canary is None else read_space(canary),
            accept=accept,
            engine=engine,
            progress=progress,
        )


@step
def status(store: StoreUrl, work: WorkFolder = None) -> Any:
    """Show how far a migration is, also while it runs and while the store is down.

    Examples:
      relatent migrate status postgresql://ann@db/shop/items
      relatent migrate status items.faiss --json
    """
    from relatent.migrate import migration_status

    return migration_status(store, work=work)


@step
def verify(
    *,
    store: StoreUrl,
    work: WorkFolder = None,
    queries: Annotated[str | None, Option("--queries", metavar="SPACE", help=opt.QUERIES)] = None,
    shards: Annotated[int, Option("--shards", help="Shards to compare row by row.")] = 8,
    max_rows: opt.MaxRows = 100,
    k: opt.K = 10,
    margin: opt.Margin = 0.02,
    effort: Annotated[int | None, Option("--effort", help="Setting to search the new index with (ef, probes).")] = None,
    seed: opt.Seed = 0,
    report: opt.Report,
    progress: bool | None = None,
) -> Answer:
    """Check that the new field may be served.

    Counts, rows of some shards against the translation of the old ones, and searches of the index against exact ones,
    beside those of the old index: over other vectors an approximate index can lose recall. --max-rows is the number of
    queries. Where the new index finds less, the setting of the store that makes up for it is named: give it as --effort
    once your application searches with it. Exits with 3 if a check fails.

    Examples:
      relatent migrate verify postgresql://ann@db/shop/items
      relatent migrate verify qdrant://db:6333/items --queries new-queries.parquet --json
    """
    from relatent.migrate import verify_migration
    from relatent.report import make_report
    from relatent.spaces import read_space

    report.check(queries)
    found = verify_migration(
        store,
        work=work,
        queries=None if queries is None else read_space(queries),
        shards=shards,
        sample=max_rows,
        k=k,
        margin=margin,
        effort=effort,
        seed=seed,
        progress=progress,
    )
    reports = report.write(lambda words: make_report(found, command=words))
    return Answer(found, reports=reports, code=OK if found.passed else NO_GO)


@step
def rehearse(
    *,
    translator: opt.TranslatorFile,
    store: StoreUrl,
    max_rows: opt.MaxRows = 2_000,
    accept: opt.Accept = False,
    report: opt.Report,
    progress: bool | None = None,
) -> Answer:
    """Try a migration on a small copy of a store.

    Copies the first rows beside the store, runs apply, verify, cutover, searches and rollback on the copy, and removes
    it. Exits with 3 if a step fails.

    Examples:
      relatent migrate rehearse t.safetensors postgresql://ann@db/shop/items
      relatent migrate rehearse t.safetensors qdrant://db:6333/items --max-rows 10000 --report rehearsal.html
    """
    from relatent.migrate import rehearse_migration
    from relatent.report import make_report

    report.check(translator)
    found = rehearse_migration(translator, store, rows=max_rows, accept=accept, progress=progress)
    reports = report.write(lambda words: make_report(found, command=words))
    return Answer(found, reports=reports, code=OK if found.passed else NO_GO)


@step
def cutover(
    *,
    store: StoreUrl,
    work: WorkFolder = None,
    allow_missing: Annotated[int, Option("--allow-missing", help="Rows that may lack a new vector.")] = 0,
    max_passes: MaxPasses = 5,
    force: opt.Force = False,
    progress: bool | None = None,
) -> Any:
    """Serve the new field.

    Atomic for every reader; the old field is kept. What has changed since it was translated is translated first.
    Refused unless verify has passed since the last apply, and if rows would not be found any more.

    Examples:
      relatent migrate cutover postgresql://ann@db/shop/items
      relatent migrate cutover items.faiss --allow-missing 12
    """
    from relatent.migrate import cut_over

    return cut_over(
        store, work=work, allow_missing=allow_missing, max_passes=max_passes, force=force, progress=progress
    )


@step
def rollback(
    store: StoreUrl,
    work: WorkFolder = None,
    drop: Annotated[bool, Option("--drop", help="Remove the new field too.")] = False,
    force: opt.Force = False,
) -> Any:
    """Serve the old field again.

    Atomic for every reader, at any time after the cutover. Items that only have a new vector are named. With --drop the
    new field is removed as well, also before a cutover; refused if some items have no other vector.

    Examples:
      relatent migrate rollback postgresql://ann@db/shop/items
      relatent migrate rollback items.faiss --drop
    """
    from relatent.migrate import roll_back

    return roll_back(store, work=work, drop=drop, force=force)


@step
def finish(
    *,
    store: StoreUrl,
    work: WorkFolder = None,
    into_table: Annotated[
        bool, Option("--into-table", help="PostgreSQL, SQLite: put the new vectors into the table, under the old name.")
    ] = False,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
    force: opt.Force = False,
    progress: bool | None = None,
) -> Any:
    """Drop what was served before the cutover.

    From then on there is no rollback, and the store can be migrated again. Asks first, unless --yes is given. Refused
    if items have no other vector, or were written to the old field since. If it is killed, run it again.

    Examples:
      relatent migrate finish postgresql://ann@db/shop/items --into-table
      relatent migrate finish items.faiss --yes --json
    """
    from relatent.migrate import finish_migration, old_field

    found = None if yes else old_field(store)
    if found is not None and not _agreed(f"{found}\nDrop {found.old.name!r}?"):
        return Answer(Done(f"{found.old.name!r} is kept.", {"dropped": None}), code=ERROR)
    return finish_migration(store, work=work, into_table=into_table, force=force, progress=progress)


def _agreed(question: str) -> bool:
    """Ask a person, on the standard error."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        raise ValueError("Nobody could be asked whether to drop the old field: add --yes to do so.") from None
