"""Reports: what was found about a translation, as one page that stands alone, as markdown and as JSON."""

from relatent.deliver.report.findings import Anchors, Closeness, Findings, Geometry, Similarity, Spread, WorstRow
from relatent.deliver.report.headline import headline_of
from relatent.deliver.report.making import (
    report_comparison,
    report_plan,
    report_spaces,
    report_translator,
    report_verification,
)
from relatent.deliver.report.provenance import Provenance, SpaceFacts, command_line
from relatent.deliver.report.writing import check_report_path, write_report

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
