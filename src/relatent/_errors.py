"""Errors that say what to do: an argument in Python, an option on the command line, an extra to install."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

E = TypeVar("E", bound=Exception)


class StoreError(ValueError):
    """A store that cannot do what was asked; the message names the store, without its password, and what to do."""


def with_remedy(error: E, *, python: str, command: str) -> E:
    """Return the error with a remedy after its message; the command line shows its own one instead of Python's.

    >>> error = with_remedy(ValueError("x.npy exists."), python="Say overwrite=True.", command="Add --overwrite.")
    >>> str(error), message_for_command(error)
    ('x.npy exists. Say overwrite=True.', 'x.npy exists. Add --overwrite.')
    """
    said = str(error)
    error.args = (f"{said} {python}",)
    error.message_for_command = f"{said} {command}"  # type: ignore[attr-defined]
    return error


def message_for_command(error: BaseException) -> str:
    """Return the message with the remedy in options of the command line, where the error has one."""
    return str(getattr(error, "message_for_command", error))


def needs(module: str, extra: str, purpose: str) -> Any:
    """Import an optional package, or say what to install and what it is needed for."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if (error.name or "").split(".")[0] != package:  # it is there, and something that it needs itself is not
            raise
        raise _missing(package, extra, purpose) from error


def check_installed(*packages: str, extra: str, purpose: str) -> None:
    """Refuse to begin without packages that are needed later, before anything is imported or read."""
    for package in packages:
        if find_spec(package) is None:
            raise _missing(package, extra, purpose)


def _missing(package: str, extra: str, purpose: str) -> ModuleNotFoundError:
    said = f"{package} is needed to {purpose} and is not installed: pip install 'relatent[{extra}]'."
    return ModuleNotFoundError(said, name=package)
