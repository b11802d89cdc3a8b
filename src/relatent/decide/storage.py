"""What it costs to store an index smaller: fewer bits per coordinate, or fewer coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent._array import suggest, to_numpy
from relatent._terminal import Tabular, render, wrap
from relatent.decide.options import Search, score_search
from relatent.evaluate.interval import Estimate, bootstrap, column, difference
from relatent.evaluate.retrieval import Relevant
from relatent.spaces.quantize import NUMBER_BYTES, Quantizer


@dataclass(frozen=True)
class Storage:
    """How vectors are stored: float32, float16, int8, uint8 or binary, of all coordinates or the first ``dims``.

    >>> Storage("int8", 256).name, Storage("int8", 256).nbytes(768), Storage().nbytes(768)
    ('int8, first 256', 256, 3072)
    """

    kind: str = "float32"
    dims: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in NUMBER_BYTES:
            raise ValueError(f"There is no storage {self.kind!r}.{suggest(self.kind, NUMBER_BYTES)}")
        if self.dims is not None and self.dims < 1:
            raise ValueError(f"The first {self.dims} coordinates were asked for: expected at least 1.")

    @property
    def name(self) -> str:
        """Its name in a table."""
        return self.kind if self.dims is None else f"{self.kind}, first {self.dims}"

    def nbytes(self, dim: int) -> int:
        """Return the bytes of a vector of ``dim`` coordinates."""
        return int(np.ceil(NUMBER_BYTES[self.kind] * min(dim, self.dims or dim)))

    def stored(self, search: Search) -> Search:
        """Return a search in which the gallery went through this storage; queries lose coordinates, no bits."""
        queries, gallery = (to_numpy(side)[:, : self.dims] for side in (search.queries, search.gallery))
        return replace(search, queries=queries, gallery=self._round_trip(gallery))

    def _round_trip(self, vectors: np.ndarray) -> np.ndarray:
        if self.kind == "float32":
            return vectors
        if self.kind == "float16":
            return vectors.astype(np.float16).astype(np.float32)
        bits = self.kind == "binary"
        padded = np.pad(vectors, ((0, 0), (0, -vectors.shape[1] % 8))) if bits else vectors  # bits fill whole bytes
        quantizer = Quantizer.fit(padded, self.kind)
        return quantizer.decode(quantizer.encode(padded))[:, : vectors.shape[1]]


@dataclass(frozen=True)
class StorageCost:
    """An option under one storage: its score, and how that differs from storing all of it in float32."""

    option: str
    storage: str
    nbytes: int
    score: Estimate
    change: Estimate


@dataclass(frozen=True)
class StorageReport(Tabular):
    """What each storage costs each option. Print it for a table."""

    measure: str
    lines: tuple[StorageCost, ...]

    def records(self) -> list[dict[str, Any]]:
        """Return one record of plain values per option and storage."""
        return [
            {
                "option": line.option,
                "storage": line.storage,
                "bytes": line.nbytes,
                self.measure: line.score.value,
                **{f"change_{name}": value for name, value in line.change.to_dict().items()},
            }
            for line in self.lines
        ]

    def __str__(self) -> str:
        changes = [(f"{c.change.value:+.3f}", f"{c.change.low:+.3f} – {c.change.high:+.3f}") for c in self.lines]
        cells = [
            (line.option, line.storage, f"{line.nbytes:,}", f"{line.score.value:.3f}", *change)
            for line, change in zip(self.lines, changes, strict=True)
        ]
        header = ("index", "stored as", "bytes", self.measure, "change", "95 % interval")
        note = "The index is stored so and queries stay float32; the change is against float32 with all coordinates."
        return "\n".join([render(header, cells, (2, 3, 4, 5)), wrap(note)])


def storages(kinds: Sequence[str] = (), dims: Sequence[int] = ()) -> list[Storage]:
    """Return every kind with all coordinates, every prefix in float32, and every kind of every prefix.

    >>> [one.name for one in storages(["int8"], [64])]
    ['int8', 'float32, first 64', 'int8, first 64']
    """
    whole = [Storage(kind) for kind in kinds if kind != "float32"]
    return whole + [Storage(kind, first) for first in dims for kind in dict.fromkeys(["float32", *kinds])]


def storage_costs(
    searches: Mapping[str, Search],
    stored: Sequence[Storage],
    *,
    truth: Search,
    own: np.ndarray | None = None,
    relevant: Relevant | None = None,
    k: int = 10,
    seed: int = 0,
) -> StorageReport:
    """Return what storing an index smaller costs, for each search by the name of its option.

    The score is nDCG@k where it is known what is ``relevant``, and otherwise the overlap@k with the search ``truth``.
    Intervals are of paired differences over the same queries.
    """
    widest = max((search.gallery.shape[1] for search in searches.values()), default=0)
    for one in stored:
        if one.dims is not None and one.dims > widest:
            raise ValueError(f"The first {one.dims} coordinates were asked for of {widest}: expected no more.")
    lines = []
    for option, search in searches.items():
        dim = search.gallery.shape[1]
        scored = {one: score_search(one.stored(search), truth, own, relevant, k) for one in (Storage(), *stored)}
        for one, scores in scored.items():
            if one.dims is None or one.dims < dim:
                both = np.stack([scores, scored[Storage()]], axis=1)
                change = bootstrap(both, difference(0, 1), seed=seed)
                score = bootstrap(both, column(0), seed=seed)
                lines.append(StorageCost(option, one.name, one.nbytes(dim), score, change))
    return StorageReport(f"overlap@{k}" if relevant is None else f"nDCG@{k}", tuple(lines))
