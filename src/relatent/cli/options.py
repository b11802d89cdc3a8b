"""Arguments and options that several commands take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from relatent.report import Findings


SourceSpace = Annotated[str, typer.Argument(metavar="OLD", help="Vectors to translate: a file, folder, glob or store.")]
TargetSpace = Annotated[str, typer.Argument(metavar="NEW", help="Vectors of the same items in the other space.")]
TranslatorFile = Annotated[Path, typer.Argument(metavar="TRANSLATOR", help="What `relatent fit` wrote.")]
Out = Annotated[str, typer.Option("--out", "-o", help="Where to write; the suffix tells the format.")]


def _translator_path(path: str) -> str:
    if not path.endswith(".safetensors"):
        raise typer.BadParameter(f"{path} does not end in .safetensors, which is how a translator is saved.")
    return path


TranslatorOut = Annotated[
    str, typer.Option("--out", "-o", callback=_translator_path, help="Where to write: a .safetensors file.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace what is there.")]
Vector = Annotated[str | None, typer.Option("--vector", help="Column of the vectors, where the guess is wrong.")]
Key = Annotated[str | None, typer.Option("--key", help="Column of the keys, where the guess is wrong.")]
TargetVector = Annotated[str | None, typer.Option("--target-vector", help="Column of NEW's vectors, if it differs.")]
TargetKey = Annotated[str | None, typer.Option("--target-key", help="Column of NEW's keys, if it differs.")]
ByRow = Annotated[bool, typer.Option("--by-row", help="Pair row i of OLD with row i of NEW, whatever their keys.")]
Packed = Annotated[bool, typer.Option("--packed", help="OLD holds bytes of eight coordinates of one bit each.")]
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same result.")]
K = Annotated[int, typer.Option("-k", help="How many neighbors to look at.")]
Accept = Annotated[bool, typer.Option("--accept", help="Accept spaces that look like another model's.")]
MinOverlap = Annotated[
    float | None, typer.Option("--min-overlap", help="Without --relevant: lower bound of overlap@k that GO takes.")
]
Slices = Annotated[str | None, typer.Option("--slices", help="Column to give figures per value of.")]
EngineName = Annotated[
    str | None, typer.Option("--engine", help="Where to run: serial, processes or dask (extra: dask).")
]
Workers = Annotated[int | None, typer.Option("--workers", help="How many processes; as many as cores if not said.")]
Scheduler = Annotated[str | None, typer.Option("--scheduler", help="Address of a Dask scheduler to run on.")]


def spaces(
    old: str,
    new: str,
    vector: str | None = None,
    key: str | None = None,
    target_vector: str | None = None,
    target_key: str | None = None,
    by_row: bool = False,
    packed: bool = False,
) -> tuple[Any, Any]:
    """Open two spaces; the columns of the second are named like those of the first unless told otherwise.

    With ``by_row`` both are opened without their keys, so that everything that joins them pairs them by row order.
    ``packed`` is said of the first.
    """
    from relatent.spaces import read_space

    first = read_space(old, vector=vector, key=key, packed=packed)
    second = read_space(new, vector=target_vector or vector, key=target_key or key)
    return (first.without_keys(), second.without_keys()) if by_row else (first, second)


def _ends_in(suffix: str) -> Callable[[str | None], str | None]:
    """Return a check that a path has a suffix: what is there is replaced, so that it must be no file of vectors."""

    def check(path: str | None) -> str | None:
        if path is not None and not path.lower().endswith(suffix):
            raise typer.BadParameter(f"{path} does not end in {suffix}.")
        return path

    return check


Html = Annotated[
    str | None,
    typer.Option("--html", callback=_ends_in(".html"), help="Write a report too: one page; replaced if it is there."),
]
Markdown = Annotated[
    str | None,
    typer.Option("--markdown", callback=_ends_in(".md"), help="Write the same as markdown; replaced if it is there."),
]


def write_pages(paths: Sequence[str | None], make: Callable[[str], Findings]) -> str:
    """Write a report to the paths that were given and say so; where none was, nothing is made.

    ``make`` is given the command that runs, as it may be shown.
    """
    import sys

    from relatent.report import command_line, write_report

    wanted = [path for path in paths if path is not None]
    if not wanted:
        return ""
    findings = make(command_line(sys.argv[1:]))
    for path in wanted:
        write_report(findings, path, overwrite=True)
    return f"\nWrote {' and '.join(wanted)}."
