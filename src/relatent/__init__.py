"""relatent lets independently trained models understand each other's vectors.

Every public name is listed once, below, and imported when it is first used: ``import relatent`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from relatent import _schemes
from relatent._lazy import attach

__version__ = "0.1.0"

if TYPE_CHECKING:
    from relatent import anchors as anchors
    from relatent import decide as decide
    from relatent import encode as encode
    from relatent import engines as engines
    from relatent import evaluate as evaluate
    from relatent import explore as explore
    from relatent import exports as exports
    from relatent import migrate as migrate
    from relatent import monitor as monitor
    from relatent import nn as nn
    from relatent import project as project
    from relatent import report as report
    from relatent import search as search
    from relatent import serve as serve
    from relatent import spaces as spaces
    from relatent import stitching as stitching
    from relatent import stores as stores
    from relatent import translate as translate
    from relatent._saved import load as load
    from relatent.decide.threshold import thresholds as thresholds
    from relatent.evaluate.comparison import compare as compare
    from relatent.evaluate.features import match_features as match_features
    from relatent.project import RelativeDecoder as RelativeDecoder
    from relatent.project import RelativeEncoder as RelativeEncoder
    from relatent.project import RelativeProjection as RelativeProjection
    from relatent.project import RelativeTranslator as RelativeTranslator
    from relatent.project import inverse_relative_projection as inverse_relative_projection
    from relatent.project import relative_projection as relative_projection
    from relatent.search import Reranker as Reranker
    from relatent.spaces import Fingerprint as Fingerprint
    from relatent.spaces import Normalizer as Normalizer
    from relatent.spaces import Space as Space
    from relatent.spaces import parallel as parallel
    from relatent.spaces import read_space as read_space
    from relatent.spaces import write_space as write_space
    from relatent.stitching import stitch as stitch
    from relatent.stitching import stitch_at as stitch_at
    from relatent.stitching import stitching_matrix as stitching_matrix
    from relatent.stores import open_store as open_store
    from relatent.translate import ASIF as ASIF
    from relatent.translate import Hub as Hub
    from relatent.translate import Pairs as Pairs
    from relatent.translate import Translator as Translator
    from relatent.translate import grow_pairs as grow_pairs
    from relatent.translate.pair_audit import audit as audit
else:
    __getattr__, __dir__, __all__ = attach(__name__)

_schemes.load = lambda: import_module("relatent.stores")  # whether a path names a store is asked before it is read
