"""Run tables and figures of the papers, and see ours beside the published ones.

    python -m experiments --list
    python -m experiments rr-table1 [--full]
    python -m experiments --all            # what `make reproduce` runs; a second call goes on where it was stopped

Each run writes NAME.json, and NAME.png where there is a picture, into the folder of --out.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from experiments.data.groups import SOURCE
from experiments.figures import save
from experiments.items import ITEMS, PAPERS, Item
from experiments.models.logs import LOGGER, find_logger
from experiments.results import SIZES, Record, Setting, path_of, read_record, versions, write_record
from experiments.show import print_record
from rich.console import Console
from rich.table import Table

OUT, COMMITTED = Path("out/results"), Path(__file__).parent / "results"


def run_item(item: Item, setting: Setting, out: Path) -> Record:
    """Run an item, and write what it found and its picture."""
    module, start = item.load(), time.process_time()
    result = module.run(setting)
    command = item.command + ("" if setting.size == "quick" else f" --{setting.size}")
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
    parser.add_argument("--again", action="store_true", help="run also what is in the folder of --out")
    parser.add_argument("--source", choices=("packages", "hub"), default="packages", help="where spaces come from")
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder of results (default: {OUT})")
    parser.add_argument("--models", type=Path, default=Setting().models, help="folder of trained models")
    parser.add_argument("--logger", help="class of lightning.pytorch.loggers to log trainings to, e.g. CSVLogger")
    given = parser.parse_args()
    unknown = [name for name in given.items if name not in ITEMS]
    if unknown:
        parser.error(f"there is no item {', '.join(unknown)}: choose from {', '.join(ITEMS)}")
    if not (given.items or given.list or given.all):
        parser.error("name an item, or give --list or --all")
    return given


def main() -> None:
    """List, or run what is asked for and not there yet."""
    given, console = options(), Console(width=140)
    if given.list:
        return list_items(given.out, console)
    SOURCE.set(given.source)
    if given.logger:
        find_logger(given.logger)
        LOGGER.set(given.logger)
    setting = Setting(given.size or "quick", given.source, given.models)
    failed = []
    for name in given.items or ITEMS:
        kept = read_record(given.out, name)
        if kept is not None and kept.size == setting.size and not given.again and given.all:
            console.print(f"{name}: kept from {path_of(given.out, name)}")
            continue
        try:
            print_record(run_item(ITEMS[name], setting, given.out), console)
        except SystemExit as stop:  # data that cannot be had: the other items still can
            failed.append(f"{name}: {stop}")
            console.print(failed[-1])
    sys.exit("\n".join(["Not run:", *failed]) if failed else 0)


if __name__ == "__main__":
    main()
