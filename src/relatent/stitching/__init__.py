"""STITCH: an encoder, a translator and a decoder become one model; every encoder is tried with every decoder."""

from relatent.stitching.compose import StitchedModel, stitch, stitch_at
from relatent.stitching.heads import LinearHead, read_head
from relatent.stitching.matrix import stitching_matrix
from relatent.stitching.protocol import METHODS
from relatent.stitching.result import StitchedPair, StitchingMatrix

__all__ = [
    "METHODS",
    "LinearHead",
    "StitchedModel",
    "StitchedPair",
    "StitchingMatrix",
    "read_head",
    "stitch",
    "stitch_at",
    "stitching_matrix",
]


def __dir__() -> list[str]:
    return __all__
