"""Optional packages: imported at use, and a missing one names the extra to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["needs"]


def needs(module: str, extra: str, purpose: str) -> Any:
    """Import an optional package, or say what to install and what it is needed for."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if (error.name or "").split(".")[0] != package:  # it is there, and something that it needs itself is not
            raise
        raise ModuleNotFoundError(
            f"{package} is needed to {purpose} and is not installed: pip install 'relatent[{extra}]'.", name=package
        ) from error
