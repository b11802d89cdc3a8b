"""How numbers, texts and names are written in SQL, the same in every dialect."""

from __future__ import annotations

import re
from typing import Any

import numpy as np


def numbers(values: Any) -> str:
    """Return numbers in nine digits, which is what single precision has, between square brackets.

    >>> numbers([1 / 3, 2, -1e-20])
    '[0.333333333,2,-1e-20]'
    """
    return f"[{','.join(f'{value:.9g}' for value in np.asarray(values, np.float64).ravel().tolist())}]"


def text(value: str) -> str:
    """Quote a text.

    >>> print(text("it's"))
    'it''s'
    """
    return "'" + value.replace("'", "''") + "'"


def quoted(name: str) -> str:
    """Quote a name.

    >>> quoted('say "x"') == '"say ""x""' + '"'
    True
    """
    return '"' + name.replace('"', '""') + '"'


def name_of(stem: str) -> str:
    """Return the name of a function for the name of a file: one that needs no quotes.

    >>> name_of("Old to-new"), name_of("2026"), name_of("sqlite")
    ('old_to_new', 't_2026', 't_sqlite')
    """
    name = re.sub(r"\W+", "_", stem.lower(), flags=re.ASCII).strip("_")
    # Names that begin with "sqlite_" are SQLite's own.
    return name if name[:1].isalpha() and not name.startswith("sqlite") else f"t_{name}"
