"""Judged pairs: which item should be found for which query, from a table, TREC qrels or a BEIR folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._files import FileError

if TYPE_CHECKING:
    from relatent.spaces.io.files import AnyPath

# How the columns of a table of judged pairs are called, BEIR's among them; without such names, by their place.
QUERY_NAMES = ("query", "query_id", "query-id", "qid")
ITEM_NAMES = ("item", "document", "item_id", "doc_id", "document_id", "corpus-id")
GRADE_NAMES = ("grade", "relevance", "score")
BEIR_LINE = "the three of BEIR, query document grade"
TREC_LINE = "the four of TREC qrels, query iteration document grade"


@dataclass(frozen=True)
class Relevance:
    """Which item should be found for which query, as row-aligned lists of keys; and how much each is worth, or 1.

    A grade of 0 or less is not relevant.
    """

    queries: Sequence[Any]
    items: Sequence[Any]
    name: str = "the pairs given"
    grades: Sequence[float] | None = None
    made: bool = False
    """Whether these are no judgments: queries made of texts of the items that they should find."""

    def rows(self, items: np.ndarray, queries: np.ndarray | None = None) -> Iterator[tuple[int, int, float]]:
        """Return query, item and grade of what is relevant, by their rows, where both keys are among these hashes.

        Queries are looked up among those of the items, unless they have others.
        """
        from relatent.spaces.keys import key_hashes

        item_row, query_row = _row_of(items), _row_of(items if queries is None else queries)
        keys = (key_hashes(self.queries).tolist(), key_hashes(self.items).tolist())
        grades = [1.0] * len(self.queries) if self.grades is None else self.grades
        for query, item, grade in zip(*keys, grades, strict=True):
            if query in query_row and item in item_row and grade > 0:
                yield query_row[query], item_row[item], float(grade)


def _row_of(hashes: np.ndarray) -> dict[int, int]:
    return {key: row for row, key in enumerate(hashes.tolist())}


def read_relevance(path: AnyPath) -> Relevance:
    """Read judged pairs: a table with the keys of a query and an item and perhaps a grade, qrels, or a BEIR folder.

    In a table, columns named ``query``, ``item`` (or ``document``) and ``grade`` (or ``relevance``, ``score``) are
    used wherever they stand; otherwise the first two. Lines of TREC qrels are ``query iteration document grade``,
    without a header; those of BEIR ``query document grade``, with or without one. In a folder, ``qrels/test.tsv`` is
    read, or else the first file of ``qrels``.
    """
    from relatent.spaces.io.tables import SUFFIXES, read_table

    path = Path(path)
    name = f"the pairs in {path.name}"
    path = _qrels_in(path) if path.is_dir() else path
    if path.suffix not in SUFFIXES or _looks_like_qrels(path):
        return _read_qrels(path, name)
    table = read_table(path)
    names = table.column_names
    if len(names) < 2:
        raise FileError(f"{path} has {len(names)} columns: expected two, the key of a query and that of an item.")
    queries, items, grades = (
        next((one for one in known if one in names), default)
        for known, default in ((QUERY_NAMES, names[0]), (ITEM_NAMES, names[1]), (GRADE_NAMES, None))
    )
    columns = {one: table.column(one).to_pylist() for one in (queries, items, grades) if one is not None}
    worth = None if grades is None else _grades(columns[grades], path)
    return Relevance(columns[queries], columns[items], name, worth)


def _qrels_in(folder: Path) -> Path:
    """Return the judgments of a BEIR folder: those of the test split, or else the first."""
    inside = folder / "qrels" if (folder / "qrels").is_dir() else folder
    found = sorted(inside.glob("*.tsv"), key=lambda path: (path.name != "test.tsv", path.name))
    if not found:
        raise FileError(f"{folder} has no qrels/*.tsv: expected a BEIR folder, or a file of judged pairs.")
    return found[0]


def _looks_like_qrels(path: Path) -> bool:
    """Return whether a .tsv begins as qrels do without a header: three or four values, the last of them a number."""
    if path.suffix != ".tsv":
        return False
    with path.open(encoding="utf8") as file:
        values = _values(file.readline())
    return len(values) in (3, 4) and values[-1].lstrip("-").isdigit()


def _values(line: str) -> list[str]:
    """Split a line at its tabs, or else at spaces."""
    return line.strip().split("\t") if "\t" in line else line.split()


def _read_qrels(path: Path, name: str) -> Relevance:
    from relatent.spaces.io.tables import SUFFIXES

    lines = [_values(line) for line in path.read_text(encoding="utf8").splitlines() if line.strip()]
    wide = 3 if path.suffix == ".tsv" and lines and len(lines[0]) == 3 else 4
    expected = BEIR_LINE if wide == 3 else TREC_LINE
    for number, values in enumerate(lines, start=1):
        if len(values) != wide:
            raise FileError(
                f"Line {number} of {path} has {len(values)} values: expected {expected}; or a table in "
                f"{', '.join(SUFFIXES)}."
            )
    return Relevance([v[0] for v in lines], [v[-2] for v in lines], name, _grades([v[-1] for v in lines], path))


def _grades(values: Sequence[Any], path: Path) -> list[float]:
    grades = []
    for number, value in enumerate(values, start=1):
        try:
            grades.append(float(value))
        except (TypeError, ValueError):
            raise FileError(f"Grade {number} of {path} is {value!r}: expected a number.") from None
    return grades
