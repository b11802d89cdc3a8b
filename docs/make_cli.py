"""Write docs/cli.md from the commands themselves: ``python docs/make_cli.py``."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import typer

from relatent.cli import app

PAGE = Path(__file__).parent / "cli.md"
HEAD = """# The command line

This page is made from the commands by `python docs/make_cli.py`; a test fails when it is out of date.
`relatent --install-completion` lets the shell complete commands and options.

| exit code | meaning |
|---|---|
| 0 | done; from `evaluate`: GO |
| 1 | an error, said in one line on the error stream; nothing half-written is left |
| 2 | wrong usage |
| 3 | NO-GO, from `evaluate` |

`fit` holds out a fifth of the keys that both files share. Which ones follows from a hash of each key alone, so the same
keys are held out in every run and however the rows are ordered. The translator's file remembers hashes of the keys that
it was fitted on, and `evaluate` leaves those out, whichever files it is given.
"""


def page() -> str:
    """Put the page together."""
    commands = typer.main.get_command(app).commands
    return "\n".join([HEAD, *(section(name, command) for name, command in commands.items())])


def section(name: str, command: Any) -> str:
    """Describe one command: its help, its examples, its arguments and its options."""
    words, _, examples = inspect.cleandoc(command.help).partition("\b\nExamples:\n")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join(["relatent", name, *(argument(p) for p in arguments)])
    rows = [(f"`{argument(p)}`", words_of(p)) for p in arguments]
    rows += [(", ".join(f"`{flag}`" for flag in [*p.opts, *p.secondary_opts]), words_of(p)) for p in options]
    table = ["| | |", "|---|---|", *(f"| {left} | {right} |" for left, right in rows)]
    code = ["```console", *(f"$ {line.strip()}" for line in examples.splitlines() if line.strip()), "```"]
    return "\n".join([f"## `{usage}`", "", words.strip(), "", *code, "", *table, ""])


def argument(parameter: Any) -> str:
    """Name an argument as in the help."""
    return str(parameter.metavar or parameter.name.upper())


def words_of(parameter: Any) -> str:
    """Return the help of a parameter and its default."""
    if parameter.required and parameter.param_type_name == "option":
        return f"{parameter.help} Required."
    default = parameter.default
    shown = default is not None and not isinstance(default, bool) and not callable(default) and not parameter.required
    return f"{parameter.help} Default: {default}." if shown else str(parameter.help)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf8")
