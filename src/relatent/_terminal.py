"""Output: tables as text, HTML, JSON and data frames; progress and stages on the error stream.

:func:`progress_bar` and :func:`stages` always note what is done now. On a terminal they show it themselves; elsewhere,
and in between, :func:`working` reports it, a line now and then.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from html import escape
from io import StringIO
from math import isfinite
from textwrap import fill
from typing import Any, TypeVar

WIDTH = 120
# Seconds after which work is reported first, and then again and again, where no bar shows it.
FIRST_REPORT, NEXT_REPORT = 2.0, 10.0

# A function that takes the name of the stage of work that begins.
Stage = Callable[[str], None]
Item = TypeVar("Item")


def render(header: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> str:
    """Return rows as text under a header; the columns listed in ``numbers`` are right-aligned.

    >>> print(render(("measure", "value"), [("cka", "0.9")], numbers=[1]))
    measure  value
    cka        0.9
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
    for i, name in enumerate(header):
        table.add_column(name, justify="right" if i in numbers else "left", no_wrap=i in numbers)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    out = StringIO()
    Console(file=out, width=WIDTH, color_system=None, highlight=False, markup=False, emoji=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def wrap(sentence: str) -> str:
    """Return a sentence in lines that fit, all but the first indented.

    >>> max(map(len, wrap("word " * 100).splitlines())) <= WIDTH
    True
    """
    return fill(sentence, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(5_400)
    'about 1.5 hours'
    """
    for unit, length in (("hours", 3_600), ("minutes", 60)):
        if seconds >= length:
            return f"about {seconds / length:,.3g} {unit}"
    return f"about {seconds:.2g} seconds"


class Result:
    """What a function found, as a frozen dataclass: print it to read it, ``to_dict`` for JSON."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values, for JSON."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]


class Tabular:
    """A result that is read as a table: its ``records`` become a data frame, and HTML in a notebook."""

    def records(self) -> list[dict[str, Any]]:
        """Return one record of plain values per line, all with the same names."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return a data frame with one row per record. Needs pandas."""
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "pandas is needed for a data frame and is not installed: pip install pandas. to_dict() does without.",
                name="pandas",
            ) from error
        return pd.DataFrame(self.records())

    def _repr_html_(self) -> str:
        records = self.records()
        head = "".join(f"<th>{escape(str(name))}</th>" for name in (records[0] if records else ()))
        body = "".join("<tr>" + "".join(map(_html_cell, record.values())) + "</tr>" for record in records)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@contextmanager
def progress_bar(total: int, title: str, wanted: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Return a function that advances the bar; it does nothing when no bar is wanted. None: on a terminal only."""
    with _task(title, total, wanted) as task:
        if not _shown(wanted):
            yield task.advance
            return
        with _bar(total, title) as advance:

            def both(done: int) -> None:
                task.advance(done)
                advance(done)

            yield both


@contextmanager
def _bar(total: int, title: str) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, advance=done)


@contextmanager
def stages(wanted: bool | None = None) -> Iterator[Stage]:
    """Return a function that begins the next stage of work by its name; each is shown with the time it took.

    The stage at work has a spinner. Nothing is shown when it is not wanted. None: on a terminal only.

    >>> with stages(wanted=False) as stage:
    ...     stage("joining keys")
    """
    with _task("", 0, wanted) as task:
        if not _shown(wanted):
            yield task.rename
            return
        with _spinners() as begin:

            def both(name: str) -> None:
                task.rename(name)
                begin(name)

            yield both


@contextmanager
def _spinners() -> Iterator[Stage]:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(finished_text="✓"), TextColumn("{task.description}"), TextColumn("{task.elapsed:.1f} s"))
    with Progress(*columns, console=Console(stderr=True)) as shown:

        def finish() -> None:
            for task in shown.tasks:
                if not task.finished:
                    shown.update(task.id, completed=1)
                    shown.stop_task(task.id)

        def begin(name: str) -> None:
            finish()
            shown.add_task(name, total=1)

        yield begin
        finish()


@contextmanager
def doing(title: str) -> Iterator[None]:
    """Note what is done in this block, for reports; a terminal shows it only there."""
    with _task(title, 0, wanted=False):
        yield


def tracked(items: Iterable[Item], title: str, wanted: bool | None = None) -> Iterator[Item]:
    """Yield items, and advance a bar after each."""
    every = list(items)
    with progress_bar(len(every), title, wanted) as advance:
        for item in every:
            yield item
            advance(1)


@dataclass(eq=False)
class _Task:
    """Something that is being done: how far it is, and whether a bar on a terminal shows it."""

    title: str
    total: int = 0
    shown: bool = False
    done: int = 0

    def advance(self, done: int) -> None:
        self.done += done

    def rename(self, title: str) -> None:
        self.title = title

    def __str__(self) -> str:
        return f"{self.title} {self.done:,} of {self.total:,}" if self.total else self.title


# What is being done in this process, the innermost last.
_TASKS: list[_Task] = []


@contextmanager
def _task(title: str, total: int, wanted: bool | None) -> Iterator[_Task]:
    task = _Task(title, total, _shown(wanted) and sys.stderr.isatty())
    _TASKS.append(task)
    try:
        yield task
    finally:
        _TASKS.remove(task)


class Reporter:
    """Decides when to report what is being done, and in which words.

    >>> reporter = Reporter("relatent fit", now=0.0)
    >>> reporter.line(1.0), reporter.line(2.5), reporter.line(11.0), reporter.line(12.5)
    (None, 'relatent fit: at work (2 s)', None, 'relatent fit: at work (12 s)')
    """

    def __init__(self, name: str, now: float) -> None:
        self._name, self._start, self._next = name, now, now + FIRST_REPORT

    def line(self, now: float) -> str | None:
        """Return the line that is due now; None if none is, or where a bar shows the work, or there is none."""
        tasks = list(_TASKS)
        if _RESTING or any(task.shown for task in tasks):
            self._next = now + FIRST_REPORT
            return None
        if now < self._next:
            return None
        self._next = now + NEXT_REPORT
        what = ", ".join(str(task) for task in tasks if task.title) or "at work"
        return f"{self._name}: {what} ({_elapsed(now - self._start)})"


def _elapsed(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def working(name: str, wanted: bool = True) -> Iterator[None]:
    """Report on the error stream what is being done in this block, where no bar shows it: first after two seconds."""
    if not wanted:
        yield
        return
    stop = threading.Event()
    reporting = Reporter(name, time.monotonic())
    thread = threading.Thread(target=print_reports, args=(reporting, stop), name="reports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def print_reports(reporter: Reporter, stop: Any, clock: Callable[[], float] = time.monotonic) -> None:
    """Print the lines of a reporter on the error stream until the event ``stop`` is set."""
    while not stop.wait(0.5):
        line = reporter.line(clock())
        if line is not None:
            print(line, file=sys.stderr, flush=True)  # noqa: T201


_RESTING: list[str] = []


@contextmanager
def resting(why: str) -> Iterator[None]:
    """Report nothing in this block, in which a process waits for what it is told, as a server does."""
    _RESTING.append(why)
    try:
        yield
    finally:
        _RESTING.remove(why)


def plain(value: Any) -> Any:
    """Return arrays, mappings and records as JSON can hold them; a number that is not finite is null.

    >>> plain({"low": float("nan"), "rows": (1, 2)})
    {'low': None, 'rows': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    return plain(value.tolist()) if hasattr(value, "tolist") else str(value)


def _shown(wanted: bool | None) -> bool:
    return sys.stderr.isatty() if wanted is None else wanted


def _html_cell(value: object) -> str:
    if isinstance(value, float):
        return f'<td style="text-align: right">{value:.4f}</td>'
    return f"<td>{escape('' if value is None else str(value))}</td>"
