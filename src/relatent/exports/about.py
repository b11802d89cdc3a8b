"""What an export tells about the spaces that it joins."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from relatent.exports.steps import map_of

__all__ = ["described", "space_id"]


def described(translator: Any, side: str = "source") -> dict[str, Any]:
    """Return what a reader of an export should know: spaces by fingerprint, dimensions, goal, how to compare."""
    fitted, ends = map_of(translator, side), getattr(translator, "endpoints_", None)
    about = {"translator": repr(translator), "side": side, "dims": [fitted.dims_in, fitted.width]}
    if ends is None:
        return about
    names = {"source": ends.source_name, "target": ends.target_name}
    spaces = {
        which: {"id": space_id(print_), "name": names[which], **_known(print_)}
        for which, print_ in (("source", ends.source), ("target", ends.target))
    }
    return about | spaces | {"metric": translator.metric_, "pairs": translator.n_pairs_}


def space_id(fingerprint: Any) -> str:
    """Return a short hash of a fingerprint, the same wherever it was recorded."""
    content = json.dumps(asdict(fingerprint), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _known(fingerprint: Any) -> dict[str, Any]:
    """Return what is recorded about a space, without the probe."""
    return {name: value for name, value in asdict(fingerprint.recorded()).items() if value is not None}
