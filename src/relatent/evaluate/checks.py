"""Checks that only evaluation needs: enough rows, and rows that differ."""

from __future__ import annotations

from relatent._array import Array, array_namespace, check_count

__all__ = ["check_fewer", "check_varies"]


def check_fewer(k: int, n: int) -> int:
    """Check that k neighbours are fewer than the rows: of all rows, every two sets of neighbours are equal."""
    k = check_count(k, n, "neighbours")
    if k == n:
        raise ValueError(
            f"{k} neighbours were asked for among {n} rows: all of them, which every query finds. "
            f"Ask for at most {n - 1}, and for far fewer to learn something."
        )
    return k


def check_varies(**named: Array) -> None:
    """Check that the rows of each matrix are not all the same."""
    for name, x in named.items():
        # Two different rows settle it; only a space that starts with equal rows is read to the end.
        if not (_differ(x[:2, :]) or _differ(x)):
            raise ValueError(
                f"{name} has {x.shape[0]} equal rows: expected vectors that differ from each other. "
                "Check the encoder that made them."
            )


def _differ(x: Array) -> bool:
    return bool(array_namespace(x).any(x != x[:1, :]))
