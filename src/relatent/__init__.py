"""relatent lets independently trained models understand each other's vectors.

Every public name stands below and is loaded when first used, so that ``import relatent`` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relatent import (
        anchors,
        deliver,
        encode,
        engines,
        evaluate,
        explore,
        exports,
        nn,
        project,
        search,
        serve,
        spaces,
        stitching,
        stores,
        translate,
    )
    from relatent.deliver import load
    from relatent.evaluate import compare, thresholds
    from relatent.project import (
        RelativeDecoder,
        RelativeEncoder,
        RelativeProjection,
        RelativeTranslator,
        inverse_relative_projection,
        relative_projection,
        similarity,
    )
    from relatent.search import Cascade, MixedIndex
    from relatent.spaces import Fingerprint, Normalizer, Space, parallel, read_space, write_space
    from relatent.stitching import LinearHead, read_head, stitch, stitch_at, stitching_matrix
    from relatent.stores import open_store
    from relatent.translate import ASIF, Hub, Pairs, Summary, Translator, align_unpaired, audit, grow_pairs, summarize

_HOME = {
    "ASIF": "relatent.translate",
    "Cascade": "relatent.search",
    "Fingerprint": "relatent.spaces",
    "Hub": "relatent.translate",
    "LinearHead": "relatent.stitching",
    "MixedIndex": "relatent.search",
    "Normalizer": "relatent.spaces",
    "Pairs": "relatent.translate",
    "RelativeDecoder": "relatent.project",
    "RelativeEncoder": "relatent.project",
    "RelativeProjection": "relatent.project",
    "RelativeTranslator": "relatent.project",
    "Space": "relatent.spaces",
    "Summary": "relatent.translate",
    "Translator": "relatent.translate",
    "align_unpaired": "relatent.translate",
    "anchors": "relatent",
    "audit": "relatent.translate",
    "compare": "relatent.evaluate",
    "deliver": "relatent",
    "encode": "relatent",
    "engines": "relatent",
    "evaluate": "relatent",
    "explore": "relatent",
    "exports": "relatent",
    "grow_pairs": "relatent.translate",
    "inverse_relative_projection": "relatent.project",
    "load": "relatent.deliver",
    "nn": "relatent",
    "open_store": "relatent.stores",
    "parallel": "relatent.spaces",
    "project": "relatent",
    "read_head": "relatent.stitching",
    "read_space": "relatent.spaces",
    "relative_projection": "relatent.project",
    "search": "relatent",
    "serve": "relatent",
    "similarity": "relatent.project",
    "spaces": "relatent",
    "stitch": "relatent.stitching",
    "stitch_at": "relatent.stitching",
    "stitching": "relatent",
    "stitching_matrix": "relatent.stitching",
    "stores": "relatent",
    "summarize": "relatent.translate",
    "thresholds": "relatent.evaluate",
    "translate": "relatent",
    "write_space": "relatent.spaces",
}

__version__ = "0.1.0"

__all__ = [
    "ASIF",
    "Cascade",
    "Fingerprint",
    "Hub",
    "LinearHead",
    "MixedIndex",
    "Normalizer",
    "Pairs",
    "RelativeDecoder",
    "RelativeEncoder",
    "RelativeProjection",
    "RelativeTranslator",
    "Space",
    "Summary",
    "Translator",
    "__version__",
    "align_unpaired",
    "anchors",
    "audit",
    "compare",
    "deliver",
    "encode",
    "engines",
    "evaluate",
    "explore",
    "exports",
    "grow_pairs",
    "inverse_relative_projection",
    "load",
    "nn",
    "open_store",
    "parallel",
    "project",
    "read_head",
    "read_space",
    "relative_projection",
    "search",
    "serve",
    "similarity",
    "spaces",
    "stitch",
    "stitch_at",
    "stitching",
    "stitching_matrix",
    "stores",
    "summarize",
    "thresholds",
    "translate",
    "write_space",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'relatent' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f"relatent.{name}") if home == "relatent" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
