"""Arguments and options that several commands take. Each is defined once, so that it means the same everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Option

from relatent._schemes import public_url

if TYPE_CHECKING:
    from relatent.encode import Embedded
    from relatent.engines import Engine
    from relatent.report import Findings
    from relatent.spaces import Space


def one_of(*allowed: str) -> Callable[[str | None], str | None]:
    """Return a check that a value is one of these."""

    def check(value: str | None) -> str | None:
        if value not in (None, *allowed):
            raise BadParameter(f"{value!r} is not one of {', '.join(allowed)}.")
        return value

    return check


def translator_path(path: Any) -> Any:
    """Refuse a path that cannot be a translator's, such as that of a space in the wrong place."""
    if path is not None and not str(path).endswith(".safetensors"):
        raise BadParameter(f"{public_url(str(path))} does not end in .safetensors, which is how a translator is saved.")
    return path


TranslatorFile = Annotated[
    Path, Argument(metavar="TRANSLATOR", callback=translator_path, help="A translator, written by `relatent fit`.")
]
SourceSpace = Annotated[str, Argument(metavar="SOURCE", help="Vectors to translate: a file, folder, glob or store.")]
TargetSpace = Annotated[str, Argument(metavar="TARGET", help="Vectors of the same items in the other space.")]
SomeTarget = Annotated[str | None, Argument(metavar="TARGET", help="Vectors of some items in the other space.")]
AnySpace = Annotated[str, Argument(metavar="SPACE", help="Vectors: a file, folder, glob or store.")]

OUT = "File or folder to write; the suffix tells the format."
OutPath = Annotated[str, Option("--out", "-o", help=OUT)]
SomeOut = Annotated[Path | None, Option("--out", "-o", help=OUT)]
More = Annotated[list[str] | None, Argument(metavar="MORE", help="Further spaces of the same items to compare.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace files that exist.")]
Force = Annotated[bool, Option("--force", help="Continue although a check failed.")]
ReportPaths = Annotated[
    list[str] | None,
    Option("--report", metavar="FILE", help="Write a report too: .html, .md or .json; repeat for more."),
]

Vector = Annotated[str | None, Option("--vector", metavar="COLUMN", help="Column of the vectors.")]
Key = Annotated[str | None, Option("--key", metavar="COLUMN", help="Column of the keys.")]
TargetVector = Annotated[
    str | None, Option("--target-vector", metavar="COLUMN", help="Column of TARGET's vectors, if it differs.")
]
TargetKey = Annotated[
    str | None, Option("--target-key", metavar="COLUMN", help="Column of TARGET's keys, if it differs.")
]
Label = Annotated[str | None, Option("--label", metavar="COLUMN", help="Column to stratify, color or score by.")]
Text = Annotated[str | None, Option("--text", metavar="COLUMN", help="Column of the texts, to encode or to show.")]
Count = Annotated[str | None, Option("--count", metavar="COLUMN", help="Column of how often an item is requested.")]
Slices = Annotated[str | None, Option("--slices", metavar="COLUMN", help="Column to report per value of.")]
ByRow = Annotated[bool, Option("--by-row", help="Pair rows by their order and ignore keys.")]
Packed = Annotated[bool, Option("--packed", help="SOURCE holds bytes of eight one-bit coordinates each.")]

Seed = Annotated[int, Option("--seed", help="Seed of the random numbers.")]
K = Annotated[int, Option("-k", help="Number of neighbors.")]
N = Annotated[int, Option("-n", help="Number of items to choose.")]
MaxRows = Annotated[int, Option("--max-rows", help="Rows to use at most.")]
MaxPairs = Annotated[int, Option("--max-pairs", help="Pairs to fit on at most.")]

Goal = Annotated[
    str | None, Option("--goal", help="index (default), vectors (default with --map), retrieval or stitching.")
]
Normalize = Annotated[str, Option("--normalize", help="none, center, iso, standard, whiten, l2 or center+l2.")]
UnitNorm = Annotated[bool, Option("--unit-norm", help="Scale the vectors to unit norm.")]
Side = Annotated[
    str,
    Option(
        "--side",
        metavar="source|target",
        callback=one_of("source", "target"),
        help="Side of the translator; target only for two-sided retrieval translators.",
    ),
]
Anchors = Annotated[str | None, Option("--anchors", metavar="SPACE", help="A space whose keys are the anchors.")]
SomeTranslator = Annotated[
    Path | None,
    Option("--translator", metavar="FILE", callback=translator_path, help="A translator; without it, one is fitted."),
]
Accept = Annotated[bool, Option("--accept", help="Accept a space that seems to be another model's.")]
Quantize = Annotated[str | None, Option("--quantize", help="int8, uint8 or binary; evaluate takes a,b,c and float16.")]
Relevant = Annotated[
    Path | None,
    Option("--relevant", metavar="PATH", help="Judged pairs: a table of keys and grades, qrels, or a BEIR folder."),
]
QUERIES = "Vectors of queries that are no items: SOURCE and TARGET; migrate verify takes those of TARGET."
Queries = Annotated[tuple[str, str] | None, Option("--queries", metavar="SOURCE TARGET", help=QUERIES)]
IndexRows = Annotated[int | None, Option("--index-rows", help="Items in the index served; default: those of SOURCE.")]
MinOverlap = Annotated[
    float | None, Option("--min-overlap", help="Without --relevant: GO if overlap@k is surely at least this.")
]
Margin = Annotated[float, Option("--margin", help="How much worse than today (nDCG@k, recall) is acceptable.")]
Model = Annotated[str | None, Option("--model", help="A model: folder, file, or name on a hub or at the upstream.")]
Name = Annotated[str | None, Option("--name", help="Name of the model to record and to answer by.")]
CACHE = "Folder of vectors that were embedded, which are not embedded again."
Port = Annotated[int, Option("--port", help="Port to listen on; 0 takes a free one.")]

RowsPerSecond = Annotated[float | None, Option("--rows-per-second", help="Speed of the target's model, for the cost.")]
PricePerMillion = Annotated[
    float | None, Option("--price-per-million", help="Price of embedding a million rows with the target's model.")
]


@dataclass(frozen=True, kw_only=True)
class One:
    """One space and its columns."""

    source: SourceSpace
    vector: Vector = None
    key: Key = None

    def read(self, *, packed: bool = False) -> Space:
        """Open the space."""
        from relatent.spaces import read_space

        return read_space(self.source, vector=self.vector, key=self.key, packed=packed)


@dataclass(frozen=True, kw_only=True)
class WithTarget(One):
    """A space, and perhaps another of some of its items; its columns are named alike unless told otherwise."""

    target: SomeTarget = None
    target_vector: TargetVector = None
    target_key: TargetKey = None

    def read_target(self, path: str | None = None) -> Any:
        """Open the other space, or one with the same columns; None if there is none."""
        from relatent.spaces import read_space

        path = path or self.target
        if path is None:
            return None
        return read_space(path, vector=self.target_vector or self.vector, key=self.target_key or self.key)


@dataclass(frozen=True, kw_only=True)
class Both(WithTarget):
    """Two spaces of the same items, if TARGET is there."""

    by_row: ByRow = False

    def pair(self, *, packed: bool = False) -> tuple[Space, Space]:
        """Open both; with ``by_row`` without their keys, so that whatever joins them pairs them by row order."""
        first, second = self.read(packed=packed), self.read_target()
        return (first.without_keys(), second.without_keys()) if self.by_row else (first, second)

    def others(self, paths: list[str] | None) -> list[Space]:
        """Open further spaces, whose columns are named as those of the target."""
        found = [self.read_target(path) for path in paths or ()]
        return [space.without_keys() for space in found] if self.by_row else found

    def queries(self, paths: tuple[str, str] | None) -> tuple[Space, Space] | None:
        """Open two spaces of queries, whose columns are named as those of the items; None if there are none."""
        from relatent.spaces import read_space

        if paths is None:
            return None
        return read_space(paths[0], vector=self.vector, key=self.key), self.read_target(paths[1])


@dataclass(frozen=True, kw_only=True)
class Pair(Both):
    """Two spaces of the same items."""

    target: TargetSpace = field()  # required, unlike above


@dataclass(frozen=True, kw_only=True)
class Out:
    """Where to write."""

    out: OutPath
    overwrite: Overwrite = False

    def check(self, *inputs: Any) -> None:
        """Refuse to replace a file that exists, unless told to, and one that is read in any case."""
        from relatent.spaces import check_new

        check_new(self.out, *inputs, overwrite=self.overwrite)


@dataclass(frozen=True, kw_only=True)
class Report:
    """Reports to write beside the answer."""

    report: ReportPaths = None
    overwrite: Overwrite = False

    def check(self, *inputs: Any) -> None:
        """Refuse paths that cannot be written before any work is done."""
        from relatent.report import check_report_path
        from relatent.spaces import check_new

        for path in self.report or ():
            check_report_path(path)
            check_new(path, *inputs, overwrite=self.overwrite)

    def write(self, make: Callable[[str], Findings]) -> tuple[str, ...]:
        """Write what ``make`` returns, which is given the command line; return the paths."""
        import sys

        from relatent.report import command_line, write_report

        if not self.report:
            return ()
        findings = make(command_line(sys.argv[1:]))
        for path in self.report:
            write_report(findings, path, overwrite=self.overwrite)
        return tuple(self.report)


@dataclass(frozen=True, kw_only=True)
class Workers:
    """Where to run."""

    engine: Annotated[
        str | None, Option("--engine", help="serial, processes, dask, or the address of a Dask scheduler.")
    ] = None
    workers: Annotated[int | None, Option("--workers", help="Number of processes; default: one per core.")] = None

    def open(self) -> Engine:
        """Start the engine."""
        from relatent.engines import open_engine

        if "://" in (self.engine or ""):
            return open_engine(workers=self.workers, scheduler=self.engine)
        return open_engine(self.engine, self.workers)


@dataclass(frozen=True, kw_only=True)
class Reembedding:
    """What re-embedding takes and may take."""

    rows_per_second: RowsPerSecond = None
    price_per_million: PricePerMillion = None
    max_hours: Annotated[float, Option("--max-hours", help="Hours that re-embedding may take.")] = 24.0
    budget: Annotated[float, Option("--budget", help="Money that re-embedding may cost.")] = 100.0

    def measured(self, took: Embedded | None) -> Reembedding:
        """Return the same with the speed and price that embedding some texts took, where they were not given."""
        if took is None:
            return self
        found = {name: getattr(self, name) or getattr(took, name) for name in ("rows_per_second", "price_per_million")}
        return replace(self, **found)


def judged(path: Path | None) -> Any:
    """Read judged pairs, if there are any."""
    from relatent.decide import read_relevance

    return None if path is None else read_relevance(path)
