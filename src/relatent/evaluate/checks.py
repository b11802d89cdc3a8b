"""What measures share: checks of the rows, and the number that is returned."""

from __future__ import annotations

from typing import cast

from relatent._array import Array, array_namespace, check_count, is_tracked


def scalar(value: Array) -> float:
    """Return a measure as a float; where torch tracks it, as the 0-d tensor that gradients flow through."""
    return cast(float, value) if is_tracked(value) else float(value)


def check_fewer(k: int, n: int) -> int:
    """Check that k neighbors are fewer than the n rows: of all rows, every two sets of neighbors are equal."""
    if n < 2:
        raise ValueError(f"There are {n} rows to search among: expected at least 2. Give more rows.")
    if k >= n:
        raise ValueError(
            f"{k} neighbors were asked for among {n} rows, all of which every query would find: ask for at most "
            f"{n - 1}, and for far fewer to learn something."
        )
    return check_count(k, n, "neighbors")


def check_varies(**named: Array) -> None:
    """Check that the rows of each matrix are not all the same."""
    for name, x in named.items():
        # Two different rows decide it; only a space that starts with equal rows is read to the end.
        if not (_differ(x[:2, :]) or _differ(x)):
            raise ValueError(
                f"{name} has {x.shape[0]} equal rows: expected vectors that differ from each other. "
                "Check the encoder that made them."
            )


def _differ(x: Array) -> bool:
    return bool(array_namespace(x).any(x != x[:1, :]))
