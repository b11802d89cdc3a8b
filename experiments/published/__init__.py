"""Figures that the papers published, each with its source: one TOML file per paper, one section per item."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

MISSING = "not available"
READ: set[str] = set()  # the sections that were asked for so far: a record depends on them


def published(item: str, *where: str) -> Any:
    """Return a published figure, such as ``published("rr-table1", "relative, FT → W2V", "jaccard")``.

    Where the papers and what is left of their runs do not have it, that is said in words.
    """
    READ.add(item)
    found: Any = section(item)
    for key in where:
        found = found.get(key, MISSING) if isinstance(found, dict) else MISSING
    return found


def mean(item: str, *where: str) -> float:
    """Return a published figure without its deviation.

    >>> published("rr-table1", "relative, FT → W2V", "mrr"), mean("rr-table1", "relative, FT → W2V", "mrr")
    ('0.94 ± 0.00', 0.94)
    """
    return float(str(published(item, *where)).split(" ± ")[0])


def source(item: str) -> str:
    """Return where the figures of an item were published."""
    return str(section(item).get("source", MISSING))


def section(item: str) -> dict[str, Any]:
    """Return all that was published for an item."""
    return dict(_sections().get(item, {}))


@cache
def _sections() -> dict[str, Any]:
    sections: dict[str, Any] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        sections |= tomllib.loads(path.read_text(encoding="utf8"))
    return sections
