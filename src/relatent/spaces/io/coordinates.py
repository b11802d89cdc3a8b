"""Numbered columns, such as v0 … v383, that hold one coordinate each: which of them are one vector."""

from __future__ import annotations

import re

import pyarrow as pa

NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>0|[1-9]\d*)", re.DOTALL)
# Numbered columns with these stems are coordinates; with others, such as score1 and score2, only if there are many.
STEMS = ("", "v", "dim", "feature", "vector", "embedding", "emb", "x")
MIN_COORDINATES = 8


def numbered_columns(schema: pa.Schema) -> dict[str, list[str]]:
    """Return columns of numbers that share a stem and count up from 0 or 1 without a gap, under that stem.

    >>> schema = pa.schema({"id": pa.string()} | {f"v_{i}": pa.float32() for i in range(3)})
    >>> numbered_columns(schema)
    {'v': ['v_0', 'v_1', 'v_2']}
    """
    stems: dict[str, dict[int, str]] = {}
    for field in schema:
        match = NUMBERED.fullmatch(field.name)
        if match and (pa.types.is_floating(field.type) or pa.types.is_integer(field.type)):
            stems.setdefault(match["stem"].rstrip("_.- "), {})[int(match["number"])] = field.name
    return {
        stem: [names[i] for i in sorted(names)]
        for stem, names in stems.items()
        if sorted(names)[0] in (0, 1) and sorted(names)[-1] - sorted(names)[0] == len(names) - 1
    }


def are_coordinates(stem: str, columns: list[str]) -> bool:
    """Return whether numbered columns are surely a vector, so that nobody need ask for it."""
    return len(columns) >= MIN_COORDINATES or (len(columns) > 1 and stem.lower() in STEMS)


def listed_columns(schema: pa.Schema, max_listed: int = 8) -> str:
    """Name columns with their types for a message: numbered ones together, and not more than a few.

    >>> listed_columns(pa.schema({"id": pa.string(), "a": pa.int8()} | {f"v{i}": pa.float32() for i in range(384)}))
    'id (string), a (int8), v0 … v383 (384 columns of float)'
    """
    runs = {columns[0]: columns for columns in numbered_columns(schema).values() if len(columns) > 2}
    inside = {name for columns in runs.values() for name in columns[1:]}
    parts = [
        f"{f.name} … {runs[f.name][-1]} ({len(runs[f.name])} columns of {f.type})"
        if f.name in runs
        else f"{f.name} ({f.type})"
        for f in schema
        if f.name not in inside
    ]
    more = len(parts) - max_listed
    return ", ".join(parts[:max_listed]) + (f" and {more} more columns" if more > 0 else "")
