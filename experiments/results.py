"""What a run found: tables, findings and what its pictures are drawn from, as one small JSON file."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

COMMITTED = Path(__file__).parent / "results"
PACKAGES = ("relatent", "numpy", "scipy", "scikit-learn", "torch")
SIZES = ("smoke", "quick", "full")  # small to large
PACKAGED, HUB = SOURCES = ("packages", "hub")
Cell = str | float | dict[str, float] | None


@dataclass(frozen=True)
class Setting:
    """How large a run is, where its data come from, and where trained models are kept for the next run.

    Items that run on judged collections take ``collections``, folders or names, and ``encoders`` of these; those on
    photos take ``images``, a folder of classes, in place of the packages' photos. ``hours`` limits an item that can
    report part of its trainings.
    """

    size: str = "quick"
    source: str = PACKAGED
    models: Path = Path("out/models")
    collections: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()
    images: Path | None = None
    hours: float | None = None

    def pick(self, quick: Any, full: Any, smoke: Any = None) -> Any:
        """Return what this size takes; ``smoke``, the size of the tests, is ``quick`` unless it is given."""
        return {"quick": quick, "full": full, "smoke": quick if smoke is None else smoke}[self.size]


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. A cell is a text, a number, a mean with its deviation (:func:`spread`), or None."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Finding:
    """A claim of a paper, whether it held here, and by which figures. Headlines stand on the first page."""

    claim: str
    held: bool
    evidence: str
    headline: bool = False


@dataclass(frozen=True)
class Result:
    """What one item found. ``stand_ins`` says what ran here in place of what the paper had.

    ``smaller`` says what of its full size is smaller than the paper's.
    """

    tables: Sequence[Table]
    findings: Sequence[Finding] = ()
    seeds: int = 1
    data: Sequence[str] = ()
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    series: Mapping[str, Any] = field(default_factory=dict)
    smaller: str = ""


@dataclass(frozen=True)
class Record:
    """A result, and how it came about; seconds are of CPU time.

    ``sources`` has a digest of each module that the result depends on (``experiments.sources``); ``confirmed`` is a
    later commit whose quick run gave the same quick record. ``origins`` are the models and data sets of a hub, with
    their revisions.
    """

    item: str
    size: str
    command: str
    seconds: float
    versions: Mapping[str, str]
    result: Result
    source: str = PACKAGED
    commit: str = ""
    confirmed: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    origins: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The name of its file, without the suffix, in a folder of results: one per item, size and source."""
        return _name(self.item, self.size, self.source)


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return the mean, the standard deviation and the number of values, as a cell of a table.

    >>> spread([1.0, 3.0])
    {'mean': 2.0, 'std': 1.0, 'n': 2}
    """
    found = np.asarray(list(values), dtype=float)
    return {"mean": float(found.mean()), "std": float(found.std()), "n": len(found)}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def path_of(folder: Path, item: str, size: str = "quick", source: str = PACKAGED) -> Path:
    """Return where a record lies in a folder: none takes the place of one of another size or source.

    >>> path_of(Path("results"), "rr-table1").as_posix(), path_of(Path("results"), "rr-table1", "full", HUB).as_posix()
    ('results/rr-table1.json', 'results/hub/rr-table1.full.json')
    """
    return folder / f"{_name(item, size, source)}.json"


def write_record(folder: Path, record: Record) -> Path:
    """Write a record atomically. Numbers keep five digits."""
    path = folder / f"{record.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    tmp = path.with_suffix(".part")
    tmp.write_text(json.dumps(_rounded(asdict(record)), indent=1, ensure_ascii=False) + "\n", encoding="utf8")
    tmp.replace(path)
    return path


def read_record(folder: Path, item: str, size: str = "quick", source: str = PACKAGED) -> Record | None:
    """Return the record of an item in a size and from a source, or None where it has not been run."""
    path = path_of(folder, item, size, source)
    if not path.is_file():
        return None
    kept = json.loads(path.read_text(encoding="utf8"))
    result = kept.pop("result")
    tables, findings = (Table(**t) for t in result.pop("tables")), (Finding(**f) for f in result.pop("findings"))
    return Record(**kept, result=Result(tables=tuple(tables), findings=tuple(findings), **result))


def read_records(folder: Path, item: str) -> list[Record]:
    """Return every record of an item, by source, and from small to large."""
    every = (read_record(folder, item, size, source) for source in SOURCES for size in SIZES)
    return [one for one in every if one is not None]


def largest(folder: Path, item: str) -> list[Record]:
    """Return the largest record of an item from each source."""
    return list({one.source: one for one in read_records(folder, item)}.values())


def _name(item: str, size: str, source: str) -> str:
    name = item if size == "quick" else f"{item}.{size}"
    return name if source == PACKAGED else f"{source}/{name}"


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _rounded(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return _rounded(value.tolist())
    if isinstance(value, list | tuple):
        return [_rounded(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.5g}")
    return value.item() if isinstance(value, np.generic) else value
