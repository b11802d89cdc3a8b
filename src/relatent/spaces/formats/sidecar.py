"""What a file of bare numbers cannot hold, kept beside it: the fingerprint, the dtype, the type of the keys."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from relatent._atomic import FileError
from relatent.spaces.chunks import Chunk
from relatent.spaces.fingerprint import Fingerprint

__all__ = ["SUFFIX", "Sidecar", "read_sidecar", "refuse_columns", "sidecar_path", "write_sidecar"]

SUFFIX = ".relatent.json"


@dataclass(frozen=True)
class Sidecar:
    """What is recorded beside a file."""

    fingerprint: Fingerprint | None = None
    dtype: str | None = None
    integer_keys: bool = False
    rows: int | None = None

    def check_rows(self, path: Path, found: int) -> None:
        """Refuse a file that has lost rows since it was written; a cut between two lines shows in no other way."""
        if self.rows is not None and found != self.rows:
            raise FileError(
                f"{path} has {found:,} rows and was written with {self.rows:,}: it is cut short or was changed. "
                f"Get a new copy, or delete {sidecar_path(path).name} if this is wanted."
            )


def sidecar_path(path: Path) -> Path:
    """Name the sidecar of a file."""
    return path.with_name(path.name + SUFFIX)


def read_sidecar(path: Path) -> Sidecar:
    """Read what is recorded beside a file; nothing when there is no sidecar."""
    beside = sidecar_path(path)
    if not beside.exists():
        return Sidecar()
    try:
        told = json.loads(beside.read_text("utf8"))
        fingerprint = Fingerprint.from_json(json.dumps(told["fingerprint"]))
        return Sidecar(
            fingerprint, str(np.dtype(told["dtype"])), bool(told.get("integer_keys", False)), told.get("rows")
        )
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"{beside} cannot be read ({error}): delete it, or get a new copy.") from error


def write_sidecar(path: Path, fingerprint: Fingerprint, first: Chunk, rows: int) -> None:
    """Record the fingerprint, the number of rows, the dtype and the type of the keys beside a file."""
    keys = first.keys
    told = {
        "fingerprint": json.loads(fingerprint.to_json()),
        "rows": rows,
        "dtype": str(first.vectors.dtype),
        "integer_keys": keys is not None and bool(pa.types.is_integer(keys.type)),
    }
    sidecar_path(path).write_text(json.dumps(told, indent=1), "utf8")


def refuse_columns(names: list[str], path: Path, holds: str) -> None:
    """Refuse to lose columns silently."""
    if names:
        raise FileError(
            f"{path.name} holds {holds} and cannot keep the columns {', '.join(names)}: "
            "write Parquet instead, or leave them out with others=False."
        )
