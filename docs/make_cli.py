"""Write docs/cli.md from the commands themselves, and count them: ``python docs/make_cli.py``."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import typer

from relatent.cli import app
from relatent.cli.frame import SWITCHES
from relatent.spaces.io.columns import KEY_NAMES

PAGE = Path(__file__).parent / "cli.md"
HEAD = """# The command line

This page is made from the commands by `python docs/make_cli.py`; a test fails when it is out of date.
`relatent --install-completion` lets the shell complete commands and options.

A translator is always the first argument. SOURCE is the space that it translates from, TARGET the one that it
translates into. An option means the same in every command.

| exit code | meaning |
|---|---|
| 0 | done; from `evaluate` and `migrate plan`: GO, to translate or to rerank |
| 1 | an error, reported in one line on the error stream; nothing half-written is left |
| 2 | wrong usage |
| 3 | NO-GO of `evaluate` and `migrate plan`: stay, rerank-old or re-embed; alarms of `migrate verify` and `monitor` |
| 4 | no verdict, from `evaluate` and `migrate plan`: too few judged pairs, or items that may not be held out |

Options of every command:

SWITCHES

`fit` holds out a fifth of the keys that both files share. Which ones follows from a hash of each key alone, so the same
keys are held out in every run and however the rows are ordered. The translator's file remembers hashes of the keys that
it was fitted on, and `evaluate` leaves those out, whichever files it is given.

A Parquet column of lists of vectors holds several vectors per item, as models of late interaction (ColBERT, ColPali)
give. `fit` joins such files on their keys, pairs the vectors of an item in order and holds out whole items; `translate`
writes the same kind of file; `evaluate` reports the mean reciprocal rank by MaxSim and gives no verdict.

Two files are joined on their key columns. A column is taken for the keys only if its name is one of KEY_NAMES, in any
case (the first of these wins), and its values are unique; `--key` names any other. Keys are compared by their text: 7
and "7" are the same, and so are two spellings of one accent. Rows are paired by their order only where neither file has
such a column and both have equally many rows, or with `--by-row`. `fit` prints what it joined on.

`evaluate --relevant` reads judged pairs from a table (`.csv`, `.tsv`, `.jsonl`, Parquet) or from TREC qrels. A table
has the key of a query and that of an item in its first two columns, or in columns named `query` and `item` (or
`document`; also `query-id` and `corpus-id`, as in BEIR), and may have a `grade` (or `relevance`, `score`). A line of
qrels is `query 0 document grade`. Where no query is an item, as in qrels, queries are not searched among.

It scores four options on items that the translator was not fitted on: **stay** (old model, old index), **translate**,
**rerank** (the translated search finds 200 candidates, the new model's own vectors rank them) and **re-embed** (new
model, new index). The rule recommends one of them:

- **re-embed** where it is clearly better than staying and than translating, and its cost is known and allowed
  (`--reembed-rows` with `--rows-per-second` and `--max-hours`, or `--price-per-million` and `--budget`);
- **translate** where it is not worse than staying by more than `--margin`: the whole interval of the difference lies
  above -0.01, and no slice of 50 queries or more is clearly worse by more than that;
- **rerank** where it is clearly better than staying;
- **stay** otherwise.

nDCG@k decides. "Clearly" means that the 95 % interval of paired differences, from a bootstrap over queries, lies on one
side of 0. Translating beats staying when ARR × (new/old) > 1, where ARR is the share of re-embedding's score that
translating keeps. Fewer than 100 judged queries give no verdict.
"""


def page() -> str:
    """Put the page together."""
    commands = leaves(typer.main.get_command(app))
    shared = [p for p in next(iter(commands.values())).params if p.name in SWITCHES]
    head = HEAD.replace("KEY_NAMES", ", ".join(f"`{name}`" for name in KEY_NAMES))
    head = head.replace("SWITCHES", "\n".join(table([option(p) for p in shared])))
    return "\n".join([head, *(section(name, command) for name, command in commands.items())])


def count() -> str:
    """Count the commands and the spellings of their options."""
    commands = leaves(typer.main.get_command(app))
    spellings = {name for command in commands.values() for p in command.params for name in (*p.opts, *p.secondary_opts)}
    options = {name for name in spellings if name.startswith("-")}
    long = sum(name.startswith("--") for name in options)
    return f"{len(commands)} commands, {len(options)} spellings of options, {long} of them long"


def leaves(group: Any, prefix: str = "") -> dict[str, Any]:
    """Return every command by its full name, those of groups after the name of their group."""
    found: dict[str, Any] = {}
    for name in group.list_commands(None):
        command = group.commands[name]
        found |= leaves(command, f"{prefix}{name} ") if hasattr(command, "commands") else {f"{prefix}{name}": command}
    return found


def section(name: str, command: Any) -> str:
    """Describe one command: its help, its examples, its arguments and its options."""
    words, _, examples = inspect.cleandoc(command.help).partition("\b\nExamples:\n")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name not in (*SWITCHES, "help")]
    usage = " ".join(["relatent", name, *(argument(p) for p in arguments)])
    rows = [*((f"`{argument(p)}`", words_of(p)) for p in arguments), *map(option, options)]
    code = ["```console", *(f"$ {line.strip()}" for line in examples.splitlines() if line.strip()), "```"]
    return "\n".join([f"## `{usage}`", "", words.strip(), "", *code, "", *table(rows), ""])


def table(rows: list[tuple[str, str]]) -> list[str]:
    """Return the lines of a table without a header."""
    return ["| | |", "|---|---|", *(f"| {left} | {right} |" for left, right in rows)]


def option(parameter: Any) -> tuple[str, str]:
    """Return the spellings of an option and its help."""
    return ", ".join(f"`{flag}`" for flag in [*parameter.opts, *parameter.secondary_opts]), words_of(parameter)


def argument(parameter: Any) -> str:
    """Name an argument as in the help."""
    name = f"{parameter.metavar}{'...' if parameter.nargs == -1 and ' ' not in parameter.metavar else ''}"
    return name if parameter.required else f"[{name}]"


def words_of(parameter: Any) -> str:
    """Return the help of a parameter and its default."""
    if parameter.required and parameter.param_type_name == "option":
        return f"{parameter.help} Required."
    default = parameter.default
    shown = default is not None and not isinstance(default, bool) and not callable(default) and not parameter.required
    return f"{parameter.help} Default: {default}." if shown else str(parameter.help)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf8")
    sys.stdout.write(f"{count()}\n")
