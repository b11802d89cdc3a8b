"""REPORT: what is known about a translation, as one HTML page, Markdown or JSON."""

from relatent.report.answer import headline_of
from relatent.report.data import Findings, command_line
from relatent.report.make import make_report
from relatent.report.render import check_report_path, write_report

__all__ = ["Findings", "check_report_path", "command_line", "headline_of", "make_report", "write_report"]
