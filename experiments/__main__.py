"""Run tables and figures of the papers, and see ours beside the published ones.

    python -m experiments --list
    python -m experiments rr-table1 [--full]
    python -m experiments --all            # what `make reproduce` runs; a second call resumes where it was stopped

Each run writes NAME.json, and NAME.png where there is a picture, into the folder of --out.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from experiments.data.groups import SOURCE
from experiments.figures import save
from experiments.items import ITEMS, PAPERS, Item
from experiments.models.logs import LOGGER, find_logger
from experiments.results import SIZES, Record, Setting, read_record, versions, write_record
from experiments.show import print_record
from rich.console import Console
from rich.table import Table

from relatent._terminal import progress_bar, working

OUT, COMMITTED = Path("out/results"), Path(__file__).parent / "results"


def run_item(item: Item, setting: Setting, out: Path) -> Record:
    """Run an item, and write what it found and its picture."""
    module, start = item.load(), time.process_time()
    result = module.run(setting)
    command = item.command + ("" if setting.size == "quick" else f" --{setting.size}")
    command += "".join(f" --collection {Path(one).name}" for one in setting.collections)
    record = Record(item.name, setting.size, command, time.process_time() - start, versions(), result)
    write_record(out, record)
    if hasattr(module, "draw"):
        save(module.draw(result), out / f"{item.name}.png")
    return record


def list_items(out: Path, console: Console) -> None:
    """Print every item, what is committed of it and what was run here."""
    table = Table("item", "paper", "shows", "committed", "run here")
    for item in ITEMS.values():
        found = (read_record(folder, item.name) for folder in (COMMITTED, out))
        cells = ("–" if one is None else one.size for one in found)
        table.add_row(item.name, item.paper, item.shows, *cells)
    console.print(table)
    console.print("  ".join(f"{short}: {title}." for short, title in PAPERS.items()))


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("items", nargs="*", metavar="ITEM", help="what --list lists")
    parser.add_argument("--list", action="store_true", help="list all items with their state")
    parser.add_argument("--all", action="store_true", help="run all items that are not in the folder of --out yet")
    size = parser.add_mutually_exclusive_group()
    for name in SIZES:
        size.add_argument(f"--{name}", dest="size", action="store_const", const=name)
    parser.add_argument("--jobs", type=int, default=1, help="how many items --all runs at a time (default: 1)")
    parser.add_argument("--again", action="store_true", help="run also what is in the folder of --out")
    parser.add_argument("--source", choices=("packages", "hub"), default="packages", help="where spaces come from")
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder of results (default: {OUT})")
    parser.add_argument("--models", type=Path, default=Setting().models, help="folder of trained models")
    parser.add_argument("--collection", action="append", default=[], help="of `judged`: a BEIR folder, or a name")
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
            record = read_record(given.out, name)
            if ended.returncode or record is None:
                failed.append(f"{name}: {ended.stderr.strip()}")
                console.print(failed[-1], markup=False)
            else:
                print_record(record, console)
    return failed


def run_missing(given: argparse.Namespace, console: Console) -> None:
    """Run all items that the folder of results does not hold in this size."""
    size, kept = given.size or "quick", {name: read_record(given.out, name) for name in ITEMS}
    waiting = [name for name, record in kept.items() if given.again or record is None or record.size != size]
    console.print(f"{len(ITEMS) - len(waiting)} of {len(ITEMS)} items are kept in {given.out}.")
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
    setting = Setting(given.size or "quick", given.source, given.models, collections, encoders)
    for name in given.items:
        with working(name):
            record = run_item(ITEMS[name], setting, given.out)
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
