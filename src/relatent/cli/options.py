"""Arguments and options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "Accept",
    "ByRow",
    "Force",
    "K",
    "Key",
    "Out",
    "Seed",
    "SourceSpace",
    "TargetKey",
    "TargetSpace",
    "TargetVector",
    "TranslatorFile",
    "TranslatorOut",
    "Vector",
    "spaces",
]

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
Seed = Annotated[int, typer.Option("--seed", help="The same seed gives the same result.")]
K = Annotated[int, typer.Option("-k", help="How many neighbors to look at.")]
Accept = Annotated[bool, typer.Option("--accept", help="Accept spaces that look like another model's.")]


def spaces(
    old: str,
    new: str,
    vector: str | None = None,
    key: str | None = None,
    target_vector: str | None = None,
    target_key: str | None = None,
    by_row: bool = False,
) -> tuple[Any, Any]:
    """Open two spaces; the columns of the second are named like those of the first unless told otherwise.

    With ``by_row`` both are opened without their keys, so that everything that joins them pairs them by row order.
    """
    from relatent.spaces import read_space

    first = read_space(old, vector=vector, key=key)
    second = read_space(new, vector=target_vector or vector, key=target_key or key)
    return (first.without_keys(), second.without_keys()) if by_row else (first, second)
