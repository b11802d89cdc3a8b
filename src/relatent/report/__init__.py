"""Reports: what was found about a translation, as one page that stands alone, as markdown and as JSON."""

from relatent.report.answer import headline_of
from relatent.report.data import (
    Anchors,
    Closeness,
    Findings,
    Geometry,
    Provenance,
    Similarity,
    SpaceFacts,
    Spread,
    WorstRow,
    command_line,
)
from relatent.report.make import report_comparison, report_plan, report_spaces, report_translator, report_verification
from relatent.report.write import check_report_path, write_report

__all__ = [
    "Anchors",
    "Closeness",
    "Findings",
    "Geometry",
    "Provenance",
    "Similarity",
    "SpaceFacts",
    "Spread",
    "WorstRow",
    "check_report_path",
    "command_line",
    "headline_of",
    "report_comparison",
    "report_plan",
    "report_spaces",
    "report_translator",
    "report_verification",
    "write_report",
]
