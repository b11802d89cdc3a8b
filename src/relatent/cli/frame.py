"""What every command shares: its switches, how it answers, and how it fails."""

from __future__ import annotations

import inspect
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from relatent._errors import message_for_command
from relatent._terminal import plain

OK = 0
ERROR = 1
USAGE = 2
NO_GO = 3
NO_VERDICT = 4

ABOUT = """Let independently trained models understand each other's vectors.

\b
From two files of the same items to a verdict and translated vectors:
  relatent fit OLD NEW -o t.safetensors
  relatent evaluate t.safetensors OLD NEW
  relatent translate t.safetensors OLD -o out.parquet

\b
Files: Parquet, .npy, .npz, Arrow, safetensors, HDF5, word vectors, .jsonl,
folders and globs of them, and remote paths (s3://…, with the extra remote).

\b
A store of vectors (PostgreSQL, Qdrant, Lance, Chroma, FAISS) in place:
  relatent migrate --help

\b
Exit codes: 0 done, or GO; 1 an error, said in one line; 2 wrong usage;
3 NO-GO and 4 no verdict, from evaluate and migrate plan.
"""

# In the order in which one comes to need them; help and reference follow it.
ORDER = (
    *("demo", "fit", "evaluate", "translate", "report", "explore"),
    *("info", "compare", "encode", "anchors", "project", "stitch", "tokens"),
    *("export", "serve", "thresholds", "canary", "watch"),
    *("migrate", "mixed", "backfill"),
)


class InOrder(typer.core.TyperGroup):
    """Commands in the order of ORDER, whichever module was imported first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return their names."""
        return sorted(self.commands, key=ORDER.index)


app = typer.Typer(
    name="relatent",
    cls=InOrder,
    help=ABOUT,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help starts faster and reads the same in a file
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def group(name: str, about: str) -> typer.Typer:
    """Return a new group of commands, shown as the commands of relatent itself are."""
    made = typer.Typer(
        name=name,
        help=about,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.add_typer(made)
    return made


Json = Annotated[bool, typer.Option("--json", help="Answer in JSON on the standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors: no answer, notes or progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show stages of work, and the traceback of an error.")]
NoVerify = Annotated[bool, typer.Option("--no-verify", help="Read our own files without comparing checksums.")]
MaxMemory = Annotated[
    int | None, typer.Option("--max-memory", help="Bytes that a file may ask for at once.", show_default=False)
]
SWITCHES: dict[str, tuple[Any, Any]] = {
    "json_": (Json, False),
    "quiet": (Quiet, False),
    "verbose": (Verbose, False),
    "no_verify": (NoVerify, False),
    "max_memory": (MaxMemory, None),
}

# What a person can do something about. Anything else is a mistake of ours and keeps its traceback.
EXPECTED = (OSError, ValueError, LookupError, ImportError, MemoryError, RuntimeError)


@dataclass(frozen=True)
class Answer:
    """What a command has to say: for people, for programs, and as an exit code."""

    text: str
    data: dict[str, Any] = field(default_factory=dict)
    code: int = OK


def command(function: Callable[..., Answer], group: typer.Typer = app) -> Callable[..., None]:
    """Make a command of a function that returns an answer. A parameter ``progress`` is filled in, not asked for."""
    hints = get_type_hints(function, include_extras=True)
    asked = [p.replace(annotation=hints[p.name]) for p in inspect.signature(function).parameters.values()]
    bar = any(p.name == "progress" for p in asked)
    asked = [p for p in asked if p.name != "progress"]
    asked += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=switch)
        for name, (switch, default) in SWITCHES.items()
    ]

    @wraps(function)
    def run(json_: bool, quiet: bool, verbose: bool, no_verify: bool, max_memory: int | None, **given: Any) -> None:
        if bar:
            given["progress"] = False if quiet else verbose or None  # None: on a terminal only
        with _at_work(function.__name__, not bar and not quiet), _reading(no_verify, max_memory):
            answer = _answered(function, given, quiet, verbose)
        if json_:
            typer.echo(json.dumps(plain(answer.data), ensure_ascii=False, indent=2))
        elif not quiet:
            typer.echo(answer.text)
        if answer.code != OK:
            raise typer.Exit(answer.code)

    run.__signature__ = inspect.Signature(asked)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in asked}
    # \b keeps the lines of the examples as they are written.
    said = inspect.cleandoc(function.__doc__ or "").replace("Examples:", "\b\nExamples:")
    group.command(name=function.__name__, help=said)(run)
    return run


@contextmanager
def _at_work(name: str, wanted: bool) -> Iterator[None]:
    """Show a spinner on a terminal while a command without a progress bar of its own is at work."""
    if not (wanted and sys.stderr.isatty()):
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"relatent {name} …"):
        yield


@contextmanager
def _reading(no_verify: bool, max_memory: int | None) -> Iterator[None]:
    """Hand the options on reading to whatever the command reads; without them nothing is imported."""
    if not no_verify and max_memory is None:
        yield
        return
    from relatent.spaces.io.files import read_defaults

    with read_defaults(verify=not no_verify, max_memory=max_memory):
        yield


def _answered(function: Callable[..., Answer], given: dict[str, Any], quiet: bool, verbose: bool) -> Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "default")
        warnings.showwarning = lambda message, *_, **__: typer.echo(f"note: {message}", err=True)
        try:
            return function(**given)
        except EXPECTED as error:
            if verbose:
                typer.echo(traceback.format_exc(), err=True)
            typer.echo(f"error: {_one_line(error)}", err=True)
            raise typer.Exit(ERROR) from None


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there was not enough memory: give fewer rows, or use a larger machine."
    notes = getattr(error, "__notes__", ())
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"There is no file {error.filename}: check the path."
    if isinstance(error, OSError) and error.strerror:
        return " ".join([f"{error.strerror}: {error.filename}" if error.filename else f"{error.strerror}.", *notes])
    said = error.args[0] if isinstance(error, KeyError) and error.args else message_for_command(error)
    return " ".join(" ".join([str(said), *notes]).split()) or type(error).__name__


def version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        from relatent import __version__

        typer.echo(f"relatent {__version__}, Python {sys.version.split()[0]}")
        raise typer.Exit


@app.callback()
def relatent(
    _version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Hold the options that go before a command."""


relatent.__doc__ = ABOUT
