"""A record in words: on the terminal, and as Markdown for the page of results."""

from __future__ import annotations

from experiments.results import Cell, Finding, Record
from rich.console import Console
from rich.table import Table

from experiments import results


def cell_text(cell: Cell) -> str:
    """Return a cell as it is printed.

    >>> cell_text({"mean": 0.51234, "std": 0.01, "n": 5}), cell_text(0.5), cell_text(None)
    ('0.512 ± 0.010', '0.500', '')
    """
    if isinstance(cell, dict):
        return number(cell["mean"]) if cell["n"] == 1 else f"{number(cell['mean'])} ± {number(cell['std'])}"
    if cell is None:
        return ""
    return number(cell) if isinstance(cell, float) else str(cell)


def number(value: float) -> str:
    """Return a number with three digits behind the point, fewer where it is large.

    >>> number(0.1234), number(12.345), number(12345.6)
    ('0.123', '12.35', '12,346')
    """
    size = abs(value)
    return f"{value:,.0f}" if size >= 1_000 else f"{value:.2f}" if size >= 10 else f"{value:.3f}"


def print_record(record: Record, console: Console) -> None:
    """Print the tables, the findings and the notes of a record."""
    for found in record.result.tables:
        table = Table(title=found.title)
        for i, column in enumerate(found.columns):
            table.add_column(column, justify="left" if _is_text(found, i) else "right")
        for row in found.rows:
            table.add_row(*map(cell_text, row))
        console.print(table)
    for finding in record.result.findings:
        console.print(f"{verdict(finding)}: {finding.claim} ({finding.evidence})")
    for note in record.result.notes:
        console.print(note)
    console.print(f"{record.item}, {record.size}: {record.seconds:.0f} s of CPU time")


def verdict(finding: Finding) -> str:
    """Return whether a finding held, in a word."""
    return "Held" if finding.held else "Did not hold"


def markdown_table(table: results.Table) -> str:
    """Return a table as Markdown."""
    head = "| " + " | ".join(table.columns) + " |"
    rule = "|" + "|".join("---" if _is_text(table, i) else "--:" for i in range(len(table.columns))) + "|"
    rows = ("| " + " | ".join(cell_text(cell).replace("|", "\\|") for cell in row) + " |" for row in table.rows)
    return "\n".join([head, rule, *rows])


def _is_text(table: results.Table, column: int) -> bool:
    """Return whether a column is of texts, which stand on the left."""
    return all(isinstance(row[column], str) for row in table.rows)
