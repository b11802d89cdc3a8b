"""Say in words what a reader met."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from tokenize import TokenError
from typing import Any

import pyarrow as pa

from relatent._atomic import FileError

__all__ = ["readable"]

# What the libraries underneath raise over bytes that they did not expect; NumPy parses headers as Python, hence syntax.
UNREADABLE = (
    *(pa.ArrowException, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, LookupError),
    *(RuntimeError, TypeError, OverflowError, SyntaxError, TokenError),
)


@contextmanager
def readable(path: Any) -> Iterator[None]:
    """Turn whatever a damaged file makes a reader raise into one error that names the file."""
    try:
        yield
    except (FileError, PermissionError, IsADirectoryError, ModuleNotFoundError):
        raise
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no file {path}: check the path.") from error
    except UNREADABLE as error:
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise FileError(
            f"{path} cannot be read ({said}): it is cut short, damaged, or not what its suffix says. Get a new copy."
        ) from error
