"""Load whatever was saved."""

from __future__ import annotations

import os
from typing import Any

from relatent._atomic import FileError
from relatent._saved import read_saved
from relatent.project import RelativeDecoder, RelativeEncoder, RelativeTranslator
from relatent.translate import ASIF, Hub, Translator

__all__ = ["load"]

KINDS: dict[str, Any] = {
    c.kind: c for c in (RelativeEncoder, RelativeDecoder, RelativeTranslator, Translator, Hub, ASIF)
}


def load(path: str | os.PathLike[str]) -> Any:
    """Return the fitted object in a file, whichever kind it is. No code in the file is run."""
    kind = read_saved(path).kind
    if kind not in KINDS:
        raise FileError(f"{path} holds a {kind!r}, which this version of relatent does not know: update relatent.")
    return KINDS[kind].load(path)
