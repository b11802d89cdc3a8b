"""TRANSLATE: fit a closed-form map between two spaces from parallel anchors."""

from relatent.summary import Summary, summarize
from relatent.translate.asif import ASIF
from relatent.translate.auditing import audit
from relatent.translate.batches import BatchTranslator
from relatent.translate.endpoints import Endpoints, SpaceMismatchError
from relatent.translate.growing import grow_pairs
from relatent.translate.hub import Hub
from relatent.translate.maps import MAPS
from relatent.translate.pairs import Pairs
from relatent.translate.translator import Translator
from relatent.translate.unpaired import align_unpaired

__all__ = [
    "ASIF",
    "MAPS",
    "BatchTranslator",
    "Endpoints",
    "Hub",
    "Pairs",
    "SpaceMismatchError",
    "Summary",
    "Translator",
    "align_unpaired",
    "audit",
    "grow_pairs",
    "summarize",
]
