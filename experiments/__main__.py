"""Run tables and figures of the papers, and see ours beside the published ones.

    python -m experiments --list
    python -m experiments rr-table1 [--full]
    python -m experiments --all            # what `make reproduce` runs; a second call resumes where it was stopped
    python -m experiments --all --source hub --hub FOLDER --words A.vec B.bin     # the papers' own encoders and data
    python -m experiments rr-table1 --confirm   # a quick run that gives the same digits keeps larger records current

Each run writes NAME.json, and NAME.png where there is a picture, into the folder of --out: NAME.full.json in the full
size, hub/NAME.json from a hub. A record names the commit and the sources it depends on, and is stale once they change.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from experiments.data import hub
from experiments.data.source import ORIGINS, SOURCE
from experiments.figures import save
from experiments.items import ITEMS, PAPERS, Item
from experiments.models.logs import LOGGER, find_logger
from experiments.models.training import KEEP
from experiments.results import (
    COMMITTED,
    HUB,
    PACKAGED,
    SIZES,
    SOURCES,
    Record,
    Setting,
    read_record,
    read_records,
    versions,
    write_record,
)
from experiments.show import print_record
from rich.console import Console
from rich.table import Table

from experiments import sources
from relatent._terminal import doing, progress_bar, working

OUT = Path("out/results")


def run_item(item: Item, setting: Setting, out: Path) -> Record:
    """Run an item, and write what it found and its picture."""
    commit, start = sources.commit(), time.process_time()
    sources.remember()
    module = item.load()
    result = module.run(setting)
    if setting.source == HUB:  # what stands in for what, and the notes, are about packages
        result = replace(result, data=(f"of each data set {hub.rows()}", *sorted(ORIGINS)), stand_ins={}, notes=())
    took, command = time.process_time() - start, " ".join([item.command, *_given(setting)])
    about = {"source": setting.source, "commit": commit, "sources": sources.used(), "origins": sorted(ORIGINS)}
    record = Record(item.name, setting.size, command, took, versions(), result, **about)
    write_record(out, record)
    if hasattr(module, "draw"):
        save(module.draw(result), out / f"{record.name}.png", photos=getattr(module, "PHOTOS", False))
    return record


def confirm(item: Item, setting: Setting, folder: Path) -> Record:
    """Run an item in the quick size; where it gives the record that is kept, larger records are current again."""
    before = read_record(folder, item.name, "quick", setting.source)
    larger = [one for one in read_records(folder, item.name) if one.source == setting.source and one.size == "full"]
    run_item(item, replace(setting, size="quick"), folder)
    now = read_record(folder, item.name, "quick", setting.source)
    assert now is not None
    for one in larger if before else []:
        write_record(folder, sources.confirmed(one, before, now))
    return now


def _given(setting: Setting) -> Iterator[str]:
    if setting.size != "quick":
        yield f"--{setting.size}"
    if setting.source != PACKAGED:
        yield f"--source {setting.source}"
    yield from (f"--collection {Path(one).name}" for one in setting.collections)
    if setting.hours is not None:
        yield f"--hours {setting.hours:g}"
    if setting.images is not None:
        yield f"--images {setting.images.name}"


def list_items(out: Path, console: Console) -> None:
    """Print every item, and each record of it, committed or run here: whether it is still what its sources give."""
    table = Table("item", "paper", "shows", "record", "source", "size", "commit", "state")
    for item in ITEMS.values():
        about = (item.name, item.paper, item.shows)
        kept = [(where, one) for where, folder in _folders(out) for one in read_records(folder, item.name)]
        for where, one in kept:
            table.add_row(*about, where, one.source, one.size, one.commit or sources.UNKNOWN, _state(one))
        if not kept:
            table.add_row(*about, "none")
    console.print(table)
    console.print("  ".join(f"{short}: {title}." for short, title in PAPERS.items()))


def _folders(out: Path) -> list[tuple[str, Path]]:
    committed = [("committed", COMMITTED)]
    return committed if out.resolve() == COMMITTED else [*committed, (str(out), out)]


def _state(record: Record) -> str:
    first, *others = sources.changed(record.sources) or [""]
    return f"stale: {first}{f' and {len(others)} more' if others else ''}" if first else "current"


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("items", nargs="*", metavar="ITEM", help="what --list lists")
    parser.add_argument("--list", action="store_true", help="list all items with their state")
    parser.add_argument(
        "--all", action="store_true", help="run all items that are missing or stale in the folder of --out"
    )
    size = parser.add_mutually_exclusive_group()
    for name in SIZES:
        size.add_argument(f"--{name}", dest="size", action="store_const", const=name)
    parser.add_argument("--jobs", type=int, default=1, help="how many items --all runs at a time (default: 1)")
    parser.add_argument("--again", action="store_true", help="run also what is current in the folder of --out")
    parser.add_argument("--confirm", action="store_true", help="run in the quick size, and judge larger records by it")
    parser.add_argument("--source", choices=SOURCES, default=PACKAGED, help="where spaces come from")
    parser.add_argument("--hub", type=Path, help="folder with what no hub has, or copies: models/NAME, datasets/NAME")
    parser.add_argument(
        "--words", type=Path, nargs=2, metavar=("A.vec", "B.bin"), help="fastText's and word2vec's file"
    )
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder of results (default: {OUT})")
    parser.add_argument(
        "--models",
        type=Path,
        default=Setting().models,
        help="folder of trained networks, which are read in place of training",
    )
    parser.add_argument("--keep-models", type=Path, help="folder to save trained networks to, for --models elsewhere")
    parser.add_argument("--collection", action="append", default=[], help="of `judged`: a BEIR folder, or a name")
    parser.add_argument("--images", type=Path, help="of `rr-table6`, `irp-reconstruction`: a folder of classes")
    parser.add_argument(
        "--hours", type=float, help="of `rr-figure3`: stop after this many hours and report what is trained"
    )
    parser.add_argument("--encoders", nargs="+", default=[], help="of `judged`: which encoders (default: five)")
    parser.add_argument("--logger", help="class of lightning.pytorch.loggers to log trainings to, e.g. CSVLogger")
    given = parser.parse_args()
    unknown = [name for name in given.items if name not in ITEMS]
    if unknown:
        parser.error(f"there is no item {', '.join(unknown)}: choose from {', '.join(ITEMS)}")
    if not (given.items or given.list or given.all):
        parser.error("name an item, or give --list or --all")
    return given


def run_apart(name: str, given: argparse.Namespace) -> subprocess.CompletedProcess[str]:
    """Run one item in a process of its own."""
    command = [sys.executable, "-m", "experiments", name, f"--{given.size or 'quick'}", "--source", given.source]
    command += ["--out", str(given.out), "--models", str(given.models)]
    command += ["--logger", given.logger] if given.logger else []
    command += ["--keep-models", str(given.keep_models)] if given.keep_models else []
    command += ["--hub", str(given.hub)] if given.hub else []
    command += ["--words", *map(str, given.words)] if given.words else []
    return subprocess.run(command, capture_output=True, text=True, check=False)


def run_all(names: list[str], given: argparse.Namespace, console: Console) -> list[str]:
    """Run items, several at a time; print each when it is done, and return what was said by those that failed."""
    failed = []
    with ThreadPoolExecutor(given.jobs) as pool, progress_bar(len(names), "items", False) as advance:
        running = {pool.submit(run_apart, name, given): name for name in names}
        for count, done in enumerate(as_completed(running), 1):
            name, ended = running[done], done.result()
            advance(1)
            console.rule(f"{count} of {len(names)}")
            record = read_record(given.out, name, given.size or "quick", given.source)
            if ended.returncode or record is None:
                failed.append(f"{name}: {ended.stderr.strip()}")
                console.print(failed[-1], markup=False)
            else:
                print_record(record, console)
    return failed


def run_missing(given: argparse.Namespace, console: Console) -> None:
    """Run all items whose record, in this size and from this source, is missing or stale."""
    size = given.size or "quick"
    kept = {name: read_record(given.out, name, size, given.source) for name in ITEMS}
    waiting = [name for name, one in kept.items() if given.again or one is None or sources.changed(one.sources)]
    console.print(f"{len(ITEMS) - len(waiting)} of {len(ITEMS)} items are current in {given.out}.")
    with working("experiments"):
        failed = run_all(waiting, given, console)
    if failed:
        sys.exit("\n".join(["Not run:", *failed]))


def run_here(given: argparse.Namespace, console: Console) -> None:
    """Run the items that are named, one after the other."""
    SOURCE.set(given.source)
    if given.logger:
        find_logger(given.logger)
        LOGGER.set(given.logger)
    collections, encoders = tuple(given.collection), tuple(given.encoders)
    size = given.size or "quick"
    hub.FOLDER.set(given.hub)
    hub.WORDS.set(tuple(given.words) if given.words else None)
    hub.ROWS.set(hub.ROWS_OF[size])
    # Networks of two sizes or sources have the same names.
    part = Path(given.source if given.source == HUB else "", size if size != "quick" else "")
    models = given.models / part
    KEEP.set(given.keep_models / part if given.keep_models else None)
    setting = Setting(size, given.source, models, collections, encoders, given.images, given.hours)
    out = given.out if given.images is None else given.out / given.images.name
    run = confirm if given.confirm else run_item
    for name in given.items:
        with working(name), doing(ITEMS[name].shows):
            record = run(ITEMS[name], setting, out)
        print_record(record, console)


def main() -> None:
    """List or run."""
    given, console = options(), Console(width=140)
    if given.list:
        list_items(given.out, console)
    elif given.all:
        run_missing(given, console)
    else:
        run_here(given, console)


if __name__ == "__main__":
    main()
