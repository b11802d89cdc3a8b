"""TRANSLATE: fit a closed-form map between two spaces from parallel anchors."""

from relatent.summary import Summary, summarize
from relatent.translate.asif import ASIF
from relatent.translate.endpoints import Endpoints, SpaceMismatchError
from relatent.translate.few_pairs import grow_pairs
from relatent.translate.files import translate_space
from relatent.translate.fit import FitReport, fit_spaces, unseen_rows
from relatent.translate.hub import Hub
from relatent.translate.info import Fitted, describe
from relatent.translate.map import BatchTranslator
from relatent.translate.maps import MAPS
from relatent.translate.pair_audit import audit
from relatent.translate.pairs import Pairs
from relatent.translate.translator import Translator
from relatent.translate.unpaired import align_unpaired

__all__ = [
    "ASIF",
    "MAPS",
    "BatchTranslator",
    "Endpoints",
    "FitReport",
    "Fitted",
    "Hub",
    "Pairs",
    "SpaceMismatchError",
    "Summary",
    "Translator",
    "align_unpaired",
    "audit",
    "describe",
    "fit_spaces",
    "grow_pairs",
    "summarize",
    "translate_space",
    "unseen_rows",
]
