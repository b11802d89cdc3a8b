"""A report in a file: HTML, markdown or JSON, by the suffix."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from relatent._files import FileError, atomic_write
from relatent.report.data import Findings
from relatent.report.html import to_html
from relatent.report.markdown import to_markdown
from relatent.report.sections import document_of


def write_report(findings: Findings, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write findings to a file, whole or not at all: ``.html`` is one page that needs nothing else, ``.md``, ``.json``.

    All three tell the same. Only JSON holds every number; markdown has tables where the page has charts.
    """
    render = RENDERERS[check_report_path(path)]
    with atomic_write(path, overwrite=overwrite) as aside:
        aside.write_text(render(findings), encoding="utf8")


def check_report_path(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a path; refuse one that says no format of a report.

    >>> check_report_path("report.html")
    '.html'
    """
    suffix = Path(path).suffix.lower()
    if suffix not in RENDERERS:
        raise FileError(f"{path} does not say what to write: expected a name that ends in {', '.join(RENDERERS)}.")
    return suffix


def _json(findings: Findings) -> str:
    return json.dumps(findings.to_dict(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


RENDERERS: dict[str, Callable[[Findings], str]] = {
    ".html": lambda findings: to_html(document_of(findings)),
    ".md": lambda findings: to_markdown(document_of(findings)),
    ".json": _json,
}
