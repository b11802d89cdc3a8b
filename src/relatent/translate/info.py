"""`relatent info`: what a file holds, a space or a fitted object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relatent._saved import is_saved, load
from relatent._terminal import Result
from relatent.spaces.inspect import Inspection, inspect_space
from relatent.spaces.io.files import AnyPath, read_space
from relatent.translate.overview import Overview
from relatent.translate.translator import Translator


@dataclass(frozen=True)
class Fitted(Result):
    """A fitted object other than a translator: its kind, and itself in a line."""

    kind: str
    description: str

    def __str__(self) -> str:
        return self.description


def describe(path: AnyPath, *, progress: bool | None = None, **reading: Any) -> Inspection | Overview | Fitted:
    """Return what a file holds, to be printed; ``reading`` as in :func:`relatent.read_space`."""
    if not (str(path).endswith(".safetensors") and Path(path).is_file() and is_saved(path)):
        return inspect_space(read_space(path, **reading), progress=progress)
    fitted = load(path)
    return fitted.summary() if isinstance(fitted, Translator) else Fitted(fitted.kind, repr(fitted))
