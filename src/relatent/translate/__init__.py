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
from relatent.translate.tokens import TokenScores, evaluate_tokens, fit_tokens, read_tokens, translate_tokens
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
    "TokenScores",
    "Translator",
    "align_unpaired",
    "audit",
    "describe",
    "evaluate_tokens",
    "fit_spaces",
    "fit_tokens",
    "grow_pairs",
    "read_tokens",
    "summarize",
    "translate_space",
    "translate_tokens",
    "unseen_rows",
]
