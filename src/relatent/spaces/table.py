"""Tables without vectors: texts to encode, pairs of keys."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa

from relatent._atomic import FileError
from relatent.spaces.formats.errors import readable

__all__ = ["SUFFIXES", "read_table"]

SUFFIXES = (".parquet", ".jsonl", ".csv", ".tsv")


def read_table(path: Path) -> pa.Table:
    """Read a table by its suffix. Columns of .csv and .tsv, which must have a header, are texts throughout."""
    if path.suffix not in SUFFIXES:
        raise FileError(f"{path} ends in {path.suffix!r}: expected a table in {', '.join(SUFFIXES)}.")
    with readable(path):
        if path.suffix == ".parquet":
            from pyarrow import parquet

            return parquet.read_table(path)
        if path.suffix == ".jsonl":
            from pyarrow import json

            return json.read_json(path)
        return _separated(path)


def _separated(path: Path) -> pa.Table:
    """Read lines of values; in a .tsv, quotes are characters like others."""
    options: dict[str, Any] = {"delimiter": ","}
    if path.suffix == ".tsv":
        options = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    with path.open(encoding="utf8", newline="") as file:
        rows = [row for row in csv.reader(file, **options) if row]
    if not rows:
        raise FileError(f"{path} is empty: expected a header and lines of values.")
    for line, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise FileError(f"Line {line} of {path} has {len(row)} values and the header {len(rows[0])}: correct it.")
    return pa.table({name: pa.array(list(column), pa.string()) for name, *column in zip(*rows, strict=True)})
