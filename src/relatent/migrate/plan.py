"""Plan a migration: its size, its duration from a trial on a few rows, and the verdict on its quality."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from relatent._saved import load
from relatent._terminal import duration, render, stages, wrap
from relatent.decide.evaluation import evaluate_spaces
from relatent.decide.options import Option
from relatent.decide.relevance import Relevance
from relatent.decide.rule import Cost, Outcome, Rule, outcome_of
from relatent.decide.verdict import Verdict
from relatent.migrate.copy import Job, ShardWork
from relatent.migrate.side import StoredSide, check_fingerprint, sample_vectors, stored_side
from relatent.migrate.state import Plan
from relatent.spaces.quantize import NUMBER_BYTES
from relatent.spaces.space import Space
from relatent.stores import Field, Shard, Store, StoreError, open_store

# Chunks of a trial, so that reading and writing overlap as they do in apply.
CHUNKS = 8


@dataclass(frozen=True)
class Rates:
    """Rows per second of a migration, measured on ``rows`` of the store. None: not measured."""

    rows: int
    scan: float
    translate: float
    copy: float | None
    """Read, translated and written as apply does it: at once, where the store can be read and written at once."""
    read_again: bool = True
    """Whether noticing changes takes reading all rows again."""

    def seconds(self, rows: int) -> float:
        """Return how long a number of rows takes, without building an index."""
        each = 1 / self.scan + 1 / self.translate if self.copy is None else 1 / self.copy
        return rows * (each + (1 / self.scan if self.read_again else 0.0))


def drop_trial(store: Store) -> None:
    """Remove the field of a trial whose process was killed."""
    new = store.new
    if new is not None and new.provenance.get("trial"):
        store.drop_new()


def measure(store: Store, side: StoredSide, new: Field, rows: int, *, write: bool) -> Rates:
    """Time the steps on a few rows from the beginning of the store.

    With ``write``, they are also copied, into a field that is removed again.
    """
    began = time.perf_counter()
    chunk = next(iter(store.scan(store.served, rows=rows, unreadable=lambda *_: None)), None)
    read = time.perf_counter()
    if chunk is None or not len(chunk):
        raise StoreError(f"{store.address} has no row that can be read: there is nothing to migrate.")
    side(chunk.vectors)
    done = time.perf_counter()
    count = len(chunk)
    shard = Shard(None, pa.chunked_array(chunk.keys)[-1].as_py())
    copied = _copy_rate(store, side, new, shard, max(1, count // CHUNKS)) if write else None
    read_again = store.state(shard) is None
    return Rates(count, _rate(count, read - began), _rate(count, done - read), copied, read_again)


def _copy_rate(store: Store, side: StoredSide, new: Field, shard: Shard, chunk_rows: int) -> float | None:
    """Return the rate of copying a shard as apply does it; None where a migration is under way."""
    with store.lock():
        drop_trial(store)
        if store.new is not None:
            return None
        field = replace(new, name=f"{new.name}_trial", provenance={"trial": True})
        plan = Plan("trial", str(store.address), "", side.name, store.served, field, (shard,), chunk_rows)
        store.add(field)
        try:
            began = time.perf_counter()
            done = ShardWork(plan.store, store, plan, side.translate, skip=True).copy(Job(0))
            return _rate(done.read.rows, time.perf_counter() - began) if done.read.rows else None
        finally:
            store.drop_new()


def _rate(rows: int, seconds: float) -> float:
    return rows / max(seconds, 1e-9)


# Below about this many rows, with the texts at hand and a cheap embedder, re-embedding is right.
FEW_ROWS = 10_000_000
TRIAL_ROWS = 10_000
# Links of an HNSW graph per row: twice M = 16 at the lowest layer, in four bytes each.
GRAPH_BYTES = 2 * 16 * 4
NO_PAIRS = (
    "No held-out pairs were given as a sample, so nothing is known about how well translated vectors are found. "
    "Embed a few thousand items with the new model, and give both."
)

RERANK = (
    "Reranking takes candidates from the migrated store and ranks them by the new model: your application embeds the "
    "texts of the candidates of each query, or keeps what it has embedded."
)


@dataclass(frozen=True)
class MigrationPlan:
    """What a migration would take, the verdict on its quality, and what is recommended."""

    store: str
    rows: int
    served: Field
    new: Field
    translator: str
    rates: Rates
    advice: str
    verdict: Verdict | None
    cost: Cost | None
    texts: bool
    """Whether the texts are at hand, without which nothing can be re-embedded."""
    rows_estimated: bool = False
    """Whether the rows were not counted, because that takes long: the store's own estimate is used."""

    @property
    def seconds(self) -> float:
        """How long apply takes, without building an index."""
        return self.rates.seconds(self.rows)

    @property
    def recommended(self) -> Option | None:
        """What to do: translate, rerank, stay or re-embed; None if nothing is known."""
        if self.verdict is not None and self.verdict.decision.recommended:
            return self.verdict.decision.recommended
        cheap = self.texts and self.rows < FEW_ROWS and self.cost is not None and self.cost.allowed
        return "re-embed" if cheap else None

    @property
    def decision(self) -> Outcome:
        """GO to migrate, NO-GO, or no verdict."""
        return outcome_of(self.recommended)

    def bytes(self, field: Field) -> tuple[int, int]:
        """Return the size of a field: its vectors alone, and with the graph of an HNSW index over a copy of them."""
        vectors = self.rows * field.dim * NUMBER_BYTES["binary" if field.dtype == "bit" else field.dtype]
        return int(vectors), int(2 * vectors + self.rows * GRAPH_BYTES)

    def __str__(self) -> str:
        end = f"{self.decision}: {self.recommended}." if self.recommended else f"{self.decision}."
        verdict = wrap(NO_PAIRS) if self.verdict is None else f"On held-out pairs:\n\n{self.verdict}\n"
        sizes = render(("", "now", "after"), self.sizes(), (1, 2))
        return "\n".join([sizes, *map(wrap, self.sentences()), verdict, end])

    def sizes(self) -> list[tuple[str, str, str]]:
        """Return what the store holds now and what it would hold after, by name."""
        (now, indexed), (then, indexed_then) = self.bytes(self.served), self.bytes(self.new)
        rows = "rows, estimated" if self.rows_estimated else "rows"
        return [
            ("field", self.served.name, self.new.name),
            (rows, f"{self.rows:,}", f"{self.rows:,}"),
            ("dimension", f"{self.served.dim:,}", f"{self.new.dim:,}"),
            ("numbers", self.served.dtype, self.new.dtype),
            ("compared by", self.served.metric, self.new.metric),
            ("vectors", _size(now), _size(then)),
            ("with an HNSW index, about", _size(indexed), _size(indexed_then)),
        ]

    def sentences(self) -> list[str]:
        """Return how long it takes, and the alternatives."""
        said = [f"Both are kept until the old field is dropped. {self.advice}", self._time(), *self._alternatives()]
        return [*said, RERANK] if self.recommended == "rerank" else said

    def _time(self) -> str:
        rates = self.rates
        steps = {"read": rates.scan, "translate": rates.translate, "all with writing": rates.copy}
        measured = ", ".join(f"{name} {rate:,.0f}" for name, rate in steps.items() if rate is not None)
        unknown = " Writing was not measured." if rates.copy is None else ""
        again = " The source is read a second time, to notice changes." if rates.read_again else ""
        return (
            f"Time: {duration(self.seconds)}, and the time to build an index. Rows per second, measured on "
            f"{rates.rows:,} rows: {measured}.{again}{unknown}"
        )

    def _alternatives(self) -> list[str]:
        if not self.texts:
            return ["Re-embedding is not possible without the texts."]
        few = f"With fewer than {FEW_ROWS:,} rows, the texts at hand and a cheap embedder, re-embedding is right"
        if self.cost is None:
            price = "Give the speed or the price of embedding to weigh re-embedding."
            return [f"{few}. {price}" if self.rows < FEW_ROWS else price]
        said = f"To re-embed, {self.cost}."
        return [f"{said} {few}."] if self.rows < FEW_ROWS and self.cost.allowed else [said]

    def _described(self, field: Field) -> dict[str, Any]:
        sizes = dict(zip(("bytes", "indexed_bytes"), self.bytes(field), strict=True))
        return {name: getattr(field, name) for name in ("name", "dim", "dtype", "metric")} | sizes

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            "store": self.store,
            "rows": self.rows,
            "rows_estimated": self.rows_estimated,
            "translator": self.translator,
            "served": self._described(self.served),
            "new": self._described(self.new),
            "rates": {name: getattr(self.rates, name) for name in ("rows", "scan", "translate", "copy")},
            "seconds": self.seconds,
            "reembed": None if self.cost is None else {"hours": self.cost.hours, "cost": self.cost.total},
            "evaluation": None if self.verdict is None else self.verdict.to_dict(),
            "verdict": self.decision,
            "recommended": self.recommended,
            "advice": self.advice,
        }


def plan_migration(
    translator: str | os.PathLike[str],
    url: str | os.PathLike[str],
    *,
    sample: tuple[Space, Space] | None = None,
    relevant: Relevance | None = None,
    queries: tuple[Space, Space] | None = None,
    min_overlap: float | None = None,
    dtype: str | None = None,
    metric: str | None = None,
    rows_per_second: float | None = None,
    price_per_million: float | None = None,
    max_hours: float = 24.0,
    budget: float = 100.0,
    texts: bool = True,
    trial: bool = True,
    trial_rows: int = TRIAL_ROWS,
    accept: bool = False,
    force: bool = False,
    progress: bool | None = None,
) -> MigrationPlan:
    """Return what a migration would take: rows, sizes, time from a trial, the cost of re-embedding, and a verdict.

    ``sample`` are vectors of the translator's source and target for the same items, of which it has not seen all:
    :func:`relatent.decide.evaluate_spaces`, which takes ``queries`` and ``force`` too, decides by them, and by the
    judged pairs in ``relevant``, for an index of the store's rows. ``dtype`` and ``metric`` are those of the new field,
    as :func:`apply_migration` takes them. ``rows_per_second`` and ``price_per_million`` rows are those of re-embedding.
    The trial writes a few rows to a field that is removed again; without ``trial`` the store is only read.
    """
    fitted, digest = load(translator), hashlib.sha256(Path(translator).read_bytes()).hexdigest()
    side = stored_side(fitted)
    with open_store(url) as store, stages(progress) as stage:
        stage("reading the store")
        check_fingerprint(side, store, accept=accept)
        served = store.served
        size = store.size(served)
        rows = size.rows
        new = side.new_field(store, digest, {}, dtype=dtype, metric=metric)
        advice = side.advice(store, new)
        stage("measuring")
        rates = measure(store, side, new, trial_rows, write=trial)
        migrated = sample_vectors(store) if sample is not None and side.name == "source" else None
    cost, verdict = None, None
    if texts and rows and (rows_per_second, price_per_million) != (None, None):
        cost = Cost(rows, rows_per_second, price_per_million, max_hours, budget)
    if sample is not None:
        judging: dict[str, Any] = {
            "relevant": relevant,
            "queries": queries,
            "index_rows": rows or None,
            "migrated": migrated,
        }
        judging |= {"rule": Rule(min_overlap=min_overlap, texts=texts), "cost": cost, "accept": accept, "force": force}
        verdict = _verdict(side, sample, **judging, progress=progress)
    about = (str(store.address), rows, served, new, digest, rates, advice, verdict, cost, texts)
    return MigrationPlan(*about, rows_estimated=not size.is_exact)


def _verdict(side: StoredSide, sample: tuple[Space, Space], **options: Any) -> Verdict:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This translator")  # the advice of the plan covers its two sides
        role = "documents" if side.name == "source" else "queries"
        return evaluate_spaces(side.translator, *sample, role=role, **options)


def _size(count: float) -> str:
    """Return a number of bytes in words.

    >>> _size(1_536_000_000)
    '1.54 GB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1_000:
            return f"{count:.3g} {unit}"
        count /= 1_000
    return f"{count:,.3g} TB"
