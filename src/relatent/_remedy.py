"""What to do about an error, in the words of whoever asked: an argument in Python, an option on the command line."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["message_for_command", "with_remedy"]

E = TypeVar("E", bound=Exception)


def with_remedy(error: E, *, python: str, command: str) -> E:
    """Return the error with a remedy after its message; the command line shows its own one instead of Python's.

    >>> error = with_remedy(ValueError("x.npy exists."), python="Say overwrite=True.", command="Add --force.")
    >>> str(error), message_for_command(error)
    ('x.npy exists. Say overwrite=True.', 'x.npy exists. Add --force.')
    """
    said = str(error)
    error.args = (f"{said} {python}",)
    error.message_for_command = f"{said} {command}"  # type: ignore[attr-defined]
    return error


def message_for_command(error: BaseException) -> str:
    """Return the message with the remedy in options of the command line, where the error has one."""
    return str(getattr(error, "message_for_command", error))
