"""TRANSLATE: fit a closed-form map between two spaces from parallel anchors."""

from relatent.translate.fitting import FitReport, fit_spaces, unseen_rows
from relatent.translate.joins import Joins, SpaceMismatchError
from relatent.translate.maps import MAPS
from relatent.translate.summary import Summary, summarize
from relatent.translate.translator import Translator

__all__ = [
    "MAPS",
    "FitReport",
    "Joins",
    "SpaceMismatchError",
    "Summary",
    "Translator",
    "fit_spaces",
    "summarize",
    "unseen_rows",
]
