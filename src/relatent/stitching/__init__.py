"""STITCH: an encoder, a translator and a decoder become one model; every encoder is tried with every decoder."""

from relatent.stitching.compose import StitchedModel, stitch, stitch_at
from relatent.stitching.heads import LinearHead, StitchReport, read_head, stitch_space
from relatent.stitching.matrix import METHODS, stitching_matrix
from relatent.stitching.result import StitchControl, StitchedPair, StitchingMatrix

__all__ = [
    "METHODS",
    "LinearHead",
    "StitchControl",
    "StitchReport",
    "StitchedModel",
    "StitchedPair",
    "StitchingMatrix",
    "read_head",
    "stitch",
    "stitch_at",
    "stitch_space",
    "stitching_matrix",
]


def __dir__() -> list[str]:
    return __all__
