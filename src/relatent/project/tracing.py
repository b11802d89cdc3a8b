"""What cannot become part of a torch graph says so, and what to do instead."""

from __future__ import annotations

import sys

from relatent._array import Array, is_traced

__all__ = ["refuse_onnx", "refuse_tracing"]


def refuse_tracing(name: str, *arrays: Array) -> None:
    """Refuse to be compiled or exported: the similarity needs values, in NumPy."""
    if is_traced(*arrays):
        raise RuntimeError(
            f"The similarity {name!r} compares all samples outside of torch: it cannot be compiled into one graph or "
            "exported. Use another similarity, or leave the relative projection out of what is exported."
        )


def refuse_onnx(name: str, *arrays: Array) -> None:
    """Refuse an export to ONNX: the similarity decomposes the anchors."""
    if is_traced(*arrays) and sys.modules["torch"].onnx.is_in_onnx_export():
        raise RuntimeError(
            f"The similarity {name!r} inverts the anchors, for which ONNX has no operator. Invert them once and export "
            "relatent.nn.Translation(RelativeEncoder(normalize=…, ridge=0.0).fit(anchors)): with 'none' its codes are "
            "those of basis, with 'center' those of mahalanobis divided by the number of anchors less one."
        )
