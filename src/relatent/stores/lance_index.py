"""Indexes of Lance tables: what they were built with, for another one like them, and how they are searched."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relatent.stores.base import Effort

# Candidates that Lance examines for ten items, about; for more items, more.
DEFAULT_EF = 16
# Candidates beyond which an exact search is as fast.
MAX_EF = 10_000


def described(table: Any) -> dict[str, Any]:
    """Return the indexes of single columns."""
    return {index.field_names[0]: index for index in table.describe_indices() if len(index.field_names) == 1}


@dataclass(frozen=True)
class VectorIndex:
    """An index of vectors: its kind, the partitions of IVF, and what Lance says of its inner index."""

    kind: str
    partitions: int
    inner: Mapping[str, Any]

    def options(self, dim: int) -> dict[str, int]:
        """Return what builds such an index of vectors of a dimension, which sub-vectors must divide."""
        params, parts = self.inner.get("params") or {}, self.inner.get("num_sub_vectors")
        options = {"num_partitions": self.partitions, "num_bits": self.inner.get("nbits")}
        options |= {name: params.get(name) for name in ("m", "ef_construction", "max_level")}
        options["num_sub_vectors"] = None if parts is None else math.gcd(parts, dim)
        return {name: int(value) for name, value in options.items() if value is not None}

    def effort(self, column: str) -> Effort:
        """Return what to set: the partitions that are searched, or the candidates of HNSW where there is one only."""
        m, ef = (2 * self.options(1).get(name, default) for name, default in (("m", 20), ("ef_construction", 150)))
        create = f"table.create_index({column!r}, {self.kind!r}, replace=True"
        if self.partitions > 1:  # Lance searches about the square root of them by itself
            advice = "search with nprobes={n}"
            return Effort(
                "nprobes", math.isqrt(self.partitions), self.partitions, advice, f"{create}, num_partitions=1)"
            )
        return Effort(
            "ef", DEFAULT_EF, MAX_EF, "search with ef={n}", f"{create}, num_partitions=1, m={m}, ef_construction={ef})"
        )


def read_index(table: Any, column: str) -> VectorIndex | None:
    """Return the index of a column of vectors, if it has one."""
    index = described(table).get(column)
    if index is None:
        return None
    os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")  # else Lance warns that it reads them
    parts = table.stats.index_stats(index.name)["indices"]  # one whose rows were all rewritten tells nothing
    about: dict[str, Any] = next((one for one in reversed(parts) if "num_partitions" in one), {})
    return VectorIndex(index.index_type, int(about.get("num_partitions", 1)), about.get("sub_index") or {})
