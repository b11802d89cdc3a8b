"""TRANSLATE: fit a closed-form map between two spaces from parallel anchors."""

from typing import TYPE_CHECKING

from relatent._lazy import attach

if TYPE_CHECKING:
    from relatent.summary import Summary as Summary
    from relatent.summary import summarize as summarize
    from relatent.translate.asif import ASIF as ASIF
    from relatent.translate.direction_quality import DirectionQuality as DirectionQuality
    from relatent.translate.directions import CanonicalDirection as CanonicalDirection
    from relatent.translate.directions import SourceHead as SourceHead
    from relatent.translate.directions import Subspace as Subspace
    from relatent.translate.endpoints import Endpoints as Endpoints
    from relatent.translate.endpoints import SpaceMismatchError as SpaceMismatchError
    from relatent.translate.few_pairs import grow_pairs as grow_pairs
    from relatent.translate.files import BatchTranslator as BatchTranslator
    from relatent.translate.files import translate_space as translate_space
    from relatent.translate.hub import Hub as Hub
    from relatent.translate.joined import FitReport as FitReport
    from relatent.translate.joined import unseen_rows as unseen_rows
    from relatent.translate.maps import MAPS as MAPS
    from relatent.translate.overview import Fitted as Fitted
    from relatent.translate.overview import describe as describe
    from relatent.translate.pair_audit import audit as audit
    from relatent.translate.pairs import Pairs as Pairs
    from relatent.translate.source_penalties import SourceSelection as SourceSelection
    from relatent.translate.source_penalties import select_sources as select_sources
    from relatent.translate.sources import Sources as Sources
    from relatent.translate.translator import Translator as Translator
    from relatent.translate.unpaired import align_unpaired as align_unpaired
else:
    __getattr__, __dir__, __all__ = attach(__name__)
