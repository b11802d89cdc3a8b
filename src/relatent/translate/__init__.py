"""TRANSLATE: fit a closed-form map between two spaces from parallel anchors."""

from relatent.translate.asif import ASIF
from relatent.translate.fitting import FitReport, fit_spaces, unseen_rows
from relatent.translate.hub import Hub
from relatent.translate.joins import Joins, SpaceMismatchError
from relatent.translate.maps import MAPS
from relatent.translate.pairs import audit, bootstrap
from relatent.translate.summary import Summary, summarize
from relatent.translate.translator import Translator

__all__ = [
    "ASIF",
    "MAPS",
    "FitReport",
    "Hub",
    "Joins",
    "SpaceMismatchError",
    "Summary",
    "Translator",
    "audit",
    "bootstrap",
    "fit_spaces",
    "summarize",
    "unseen_rows",
]
