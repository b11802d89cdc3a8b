"""Similarities that cannot become part of a torch graph: they say so, and what to do instead."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from relatent._array import Array, is_exported, is_traced

__all__ = ["outside_torch", "refuse_onnx"]


def outside_torch(similarity: Callable[..., Array]) -> Callable[..., Array]:
    """Mark a similarity that works on values, in NumPy: a compiled graph breaks there, an export is refused."""

    @wraps(similarity)
    def outside(x: Array, anchors: Array, **options: Any) -> Array:
        if is_exported(x, anchors):
            raise RuntimeError(
                f"The similarity {similarity.__name__!r} compares all samples outside of torch: it cannot be exported. "
                "Use another similarity, or leave the relative projection out of what is exported."
            )
        if is_traced(x, anchors):
            return sys.modules["torch"].compiler.disable(similarity)(x, anchors, **options)
        return similarity(x, anchors, **options)

    return outside


def refuse_onnx(name: str, *arrays: Array) -> None:
    """Refuse an export to ONNX: the similarity decomposes the anchors."""
    if is_traced(*arrays) and sys.modules["torch"].onnx.is_in_onnx_export():
        raise RuntimeError(
            f"The similarity {name!r} inverts the anchors, for which ONNX has no operator. Invert them once and export "
            "relatent.nn.Translation(RelativeEncoder(normalize=…, ridge=0.0).fit(anchors)): with 'none' its codes are "
            "those of basis, with 'center' those of mahalanobis divided by the number of anchors less one."
        )
