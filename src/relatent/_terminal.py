"""What a person sees in a terminal: tables as text, and a progress bar on the error stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO

__all__ = ["progress_bar", "render"]

WIDTH = 120


def render(header: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> str:
    """Lay rows out under a header; the columns listed in ``numbers`` are set to the right.

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


@contextmanager
def progress_bar(total: int, title: str, wanted: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Give a function that moves the bar on; it does nothing when no bar is wanted. None: on a terminal only."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, advance=done)
