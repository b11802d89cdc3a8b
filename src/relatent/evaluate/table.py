"""Tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

__all__ = ["render"]

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
