"""What torch does with arrays while a function runs: records a gradient, compiles, or exports a graph.

Nothing here imports torch: where it was not imported, there are no tensors.
"""

from __future__ import annotations

import sys
from typing import Any


def is_tensor(x: Any) -> bool:
    """Return whether x is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_traced(*arrays: Any) -> bool:
    """Return whether torch arrays hold no values: they are traced (compile, export), or have only a shape."""
    tensors = [a for a in arrays if is_tensor(a)]
    return bool(tensors) and (sys.modules["torch"].compiler.is_compiling() or any(a.is_meta for a in tensors))


def is_exported(*arrays: Any) -> bool:
    """Return whether torch.export is writing these arrays into a graph, which unlike a compiled one may not break."""
    if not is_traced(*arrays):
        return False
    compiler = sys.modules["torch"].compiler
    # is_exporting would tell, but in older torch it is true in torch.compile too (its issue 176347).
    return bool(compiler.is_compiling() and not compiler.is_dynamo_compiling())


def is_tracked(*arrays: Any) -> bool:
    """Return whether torch tracks these arrays, for a gradient or into a graph.

    Then the mathematics must be one expression: no branch on values, no result that is filled piece by piece.
    """
    return any(getattr(a, "requires_grad", False) for a in arrays) or is_traced(*arrays)
