"""What every command shares: its switches, how it prints its result, and how it fails."""

from __future__ import annotations

import inspect
import json
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer
from typer import Option

from relatent._errors import message_for_command
from relatent._schemes import public_url, without_secrets
from relatent._terminal import plain, working

OK = 0
ERROR = 1
USAGE = 2
NO_GO = 3
NO_VERDICT = 4
EXIT_CODES = {"GO": OK, "NO-GO": NO_GO, "no verdict": NO_VERDICT}

ABOUT = """Translate vectors between independently trained models.

\b
From two files of the same items to a verdict and translated vectors:
  relatent fit SOURCE TARGET -o t.safetensors
  relatent evaluate t.safetensors SOURCE TARGET
  relatent translate t.safetensors SOURCE -o out.parquet

\b
SOURCE and TARGET are Parquet, .npy, .npz, Arrow, safetensors, HDF5, CSV, JSON lines
or word vectors; folders and globs of them; remote paths (s3://…, with the extra remote);
or stores (postgresql://…). A translator is always the first argument.

\b
Exit codes: 0 done, or GO; 1 error, reported in one line; 2 wrong usage;
3 NO-GO, or an alarm of monitor and migrate verify; 4 no verdict.
"""

# In the order of use, which help and reference follow.
SECTIONS = {
    "Start": ("demo", "fit", "evaluate", "translate"),
    "Look closer": ("info", "compare", "report", "explore", "thresholds"),
    "Prepare": ("encode", "anchors", "project"),
    "Deploy": ("migrate", "backfill", "export", "serve", "stitch", "monitor"),
}


class InOrder(typer.core.TyperGroup):
    """Lists commands in the order and under the titles of SECTIONS, whichever module was imported first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return [name for names in SECTIONS.values() for name in names]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one section of the help per title."""
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=100)) for name in names])


STYLE: dict[str, Any] = {
    "no_args_is_help": True,
    "rich_markup_mode": None,  # plain help starts faster and reads the same in a file
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
app = typer.Typer(name="relatent", cls=InOrder, help=ABOUT, pretty_exceptions_enable=False, **STYLE)


def group(name: str, about: str) -> typer.Typer:
    """Return a new group of commands."""
    made = typer.Typer(name=name, help=about, **STYLE)
    app.add_typer(made)
    return made


SWITCHES: dict[str, tuple[Any, Any]] = {
    "json_": (Annotated[bool, Option("--json", help="Print the result as JSON.")], False),
    "quiet": (Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")], False),
    "verbose": (
        Annotated[bool, Option("--verbose", "-v", help="Show progress, requests (serve), tracebacks.")],
        False,
    ),
    "no_verify": (Annotated[bool, Option("--no-verify", help="Do not verify the checksums of files.")], False),
    "max_memory": (Annotated[int | None, Option("--max-memory", help="Bytes that a file may ask for at once.")], None),
}

# What a person can do something about. Anything else is a bug and keeps its traceback.
EXPECTED = (OSError, ValueError, LookupError, ImportError, MemoryError, RuntimeError)


@dataclass(frozen=True)
class Answer:
    """A result, the files that were written beside it, and the exit code."""

    found: Any
    out: str | list[str] | None = None
    reports: tuple[str, ...] = ()
    code: int = OK
    embedded: Any = None
    """What embedding texts for it took, if any were."""

    def __str__(self) -> str:
        wrote = ([self.out] if isinstance(self.out, str) else self.out or [], self.reports)
        embedded = [] if self.embedded is None else [str(self.embedded)]
        return "\n".join([*embedded, str(self.found), *(f"Wrote {' and '.join(paths)}." for paths in wrote if paths)])

    def to_dict(self) -> dict[str, Any]:
        """Return the result as JSON, with the path that it was written to."""
        embedded = {} if self.embedded is None else {"embedded": self.embedded.to_dict()}
        return {**({} if self.out is None else {"out": self.out}), **self.found.to_dict(), **embedded}


@dataclass(frozen=True)
class Done:
    """The result of a command whose library function returns no result of its own."""

    text: str
    data: dict[str, Any]

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return the data."""
        return self.data


def command(function: Callable[..., Any], group: typer.Typer = app) -> Callable[..., None]:
    """Make a command of a function that returns a result: an object with ``to_dict`` that prints itself.

    A parameter whose type is a dataclass of options is asked for field by field. A parameter ``progress`` is filled in.
    """
    asked, groups = _parameters(function)
    bar = "progress" in inspect.signature(function).parameters
    name = " ".join(
        ["relatent", *([] if group is app else [str(group.info.name)]), function.__name__.replace("_", "-")]
    )

    @wraps(function)
    def run(json_: bool, quiet: bool, verbose: bool, no_verify: bool, max_memory: int | None, **given: Any) -> None:
        own = {name: value for name, value in given.items() if name in inspect.signature(function).parameters}
        own |= {name: kind(**{f.name: given[f.name] for f in fields(kind)}) for name, kind in groups.items()}
        if bar:
            own["progress"] = False if quiet else verbose or None  # None: on a terminal only
        with _terminable(), _at_work(name, bar, quiet), _reading(no_verify, max_memory):
            result = _result(function, own, quiet, verbose)
        if json_:
            typer.echo(_public(json.dumps(plain(result.to_dict()), ensure_ascii=False, indent=2), given))
        elif not quiet:
            typer.echo(_public(str(result), given))
        if getattr(result, "code", OK) != OK:
            raise typer.Exit(result.code)

    run.__signature__ = inspect.Signature(asked)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in asked}
    # \b keeps the lines of the examples as they are written.
    said = inspect.cleandoc(function.__doc__ or "").replace("Examples:", "\b\nExamples:")
    group.command(name=function.__name__.replace("_", "-"), help=said)(run)
    return run


def _public(text: str, given: dict[str, Any]) -> str:
    """Show the URLs that the command was given without their secrets. Others, such as keys, are data."""
    words = [word for value in given.values() for word in (value if isinstance(value, list) else [value])]
    for word in words:
        if isinstance(word, str) and public_url(word) != word:
            text = text.replace(word, public_url(word))
    return text


def _parameters(function: Callable[..., Any]) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    """Return what the command line asks for, each once, and the parameters that are groups of options."""
    hints = get_type_hints(function, include_extras=True)
    asked: dict[str, tuple[Any, Any]] = {}
    groups = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
            of_group = get_type_hints(hints[name], include_extras=True)
            asked |= {f.name: (of_group[f.name], f.default) for f in fields(hints[name])}
        elif name != "progress":
            asked[name] = (hints[name], parameter.default)
    made = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hint,
            default=inspect.Parameter.empty if default is MISSING else default,
        )
        for name, (hint, default) in (asked | SWITCHES).items()
    ]
    return made, groups


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end a command as an error does, so that no temporary file is left; a second one is ignored."""
    if threading.current_thread() is not threading.main_thread():  # where no handler can be set
        yield
        return

    def stop(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    former = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


@contextmanager
def _at_work(name: str, bar: bool, quiet: bool) -> Iterator[None]:
    """Show a spinner on a terminal for a command without a progress bar of its own; else report now and then."""
    if quiet or bar or not sys.stderr.isatty():
        with working(name, wanted=not quiet):
            yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{name} …"):
        yield


@contextmanager
def _reading(no_verify: bool, max_memory: int | None) -> Iterator[None]:
    """Pass the options on reading to whatever the command reads; without them nothing is imported."""
    if not no_verify and max_memory is None:
        yield
        return
    from relatent.spaces.io.files import read_defaults

    with read_defaults(verify=not no_verify, max_memory=max_memory):
        yield


def _result(function: Callable[..., Any], given: dict[str, Any], quiet: bool, verbose: bool) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "default")
        warnings.showwarning = lambda message, *_, **__: _tell(
            f"note: {message_for_command(message) if isinstance(message, Warning) else message}"
        )
        try:
            return function(**given)
        except EXPECTED as error:
            if verbose:
                _tell(traceback.format_exc())
            _tell(f"error: {_one_line(error)}")
            raise typer.Exit(ERROR) from None


def _tell(text: str) -> None:
    typer.echo(without_secrets(text), err=True)


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
        bool, Option("--version", callback=version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Hold the options that go before a command."""


relatent.__doc__ = ABOUT
