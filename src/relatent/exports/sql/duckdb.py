"""DuckDB: a map's steps as a macro over a list or an array of numbers, computed in double precision.

Matrices stand in a table, one column of each as one list, so that a coordinate of the product is one inner product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from relatent.exports.sql.literals import numbers, quoted, text
from relatent.steps import Step

ROWS = 100


class Chain:
    """Common table expressions, each of which takes ``x`` from the one before, and the lists that they read."""

    def __init__(self, name: str) -> None:
        self.map, self.lists = quoted(f"{name}__map"), list[np.ndarray]()
        self.selects = ["SELECT given::DOUBLE[] AS x"]

    def then(self, x: str, more: str = "") -> None:
        """Add an expression of x, which may name others that are computed of it before."""
        if more:
            self.selects.append(f"SELECT x, {more} FROM s{len(self.selects) - 1}")
        self.selects.append(f"SELECT {x} AS x FROM s{len(self.selects) - 1}")

    def matrix(self, values: Any) -> str:
        """Keep the rows of a matrix; return the expression of a list of them."""
        self.lists.append(np.atleast_2d(np.asarray(values)))
        return f"(SELECT list(weights ORDER BY row) FROM {self.map} WHERE step = {len(self.lists) - 1})"

    def vector(self, values: Any) -> str:
        """Keep a vector; return the expression of it."""
        return f"{self.matrix(np.ravel(values))}[1]"


def script(name: str, steps: Sequence[Step], dims: tuple[int, int]) -> Iterator[str]:
    """Return the statements that make the macro, in one transaction."""
    chain, dim = Chain(name), dims[0]
    for step in steps:
        dim = KINDS[step.kind](chain, dim, **step.arrays)
    yield f"BEGIN;\nCREATE TABLE {chain.map} (step INTEGER, row INTEGER, weights DOUBLE[]);"
    rows = [(at, row, values) for at, matrix in enumerate(chain.lists) for row, values in enumerate(matrix)]
    for first in range(0, len(rows), ROWS):
        listed = (f"({at}, {row}, {text(numbers(values))})" for at, row, values in rows[first : first + ROWS])
        yield f"INSERT INTO {chain.map} VALUES\n" + ",\n".join(listed) + ";"
    parts = ",\n".join(f"  s{at} AS ({select})" for at, select in enumerate(chain.selects))
    last = len(chain.selects) - 1
    yield f"CREATE MACRO {quoted(name)}(given) AS (\n  WITH\n{parts}\n  SELECT x FROM s{last});\nCOMMIT;"
    yield (
        f"-- SELECT id FROM items ORDER BY list_cosine_distance(embedding, {name}([…])) LIMIT 10;\n"
        f"-- To remove it: DROP MACRO {name}; DROP TABLE {chain.map};"
    )


def _linear(to: Chain, dim: int, matrix: Any = None, offset: Any = None) -> int:
    if matrix is not None and np.ndim(matrix) == 2:
        to.then(f"[list_inner_product(w, x) FOR w IN {to.matrix(np.asarray(matrix).T)}]")
        dim = np.shape(matrix)[1]
    elif matrix is not None:
        to.then(f"[p[1] * p[2] FOR p IN list_zip(x, {to.vector(matrix)})]")
    if offset is not None:
        to.then(f"[p[1] + p[2] FOR p IN list_zip(x, {to.vector(np.broadcast_to(np.asarray(offset), dim))})]")
    return dim


def _unit(to: Chain, dim: int) -> int:
    to.then("[a / n FOR a IN x]", "coalesce(nullif(sqrt(list_inner_product(x, x)), 0), 1) AS n")
    return dim


def _length(to: Chain, dim: int, length: Any, power: Any) -> int:
    factor = f"pow({float(length)!r} / nullif(sqrt(list_inner_product(x, x)), 0), {float(power)!r})"
    to.then("[a * f FOR a IN x]", f"coalesce({factor}, 1) AS f")
    return dim


def _gaussian(to: Chain, dim: int, centers: Any, width: Any) -> int:
    near = f"exp(-pow(list_distance(c, x), 2) / {float(width)!r})"
    to.then(f"list_concat(x, [{near} FOR c IN {to.matrix(centers)}])")
    return dim + len(centers)


def _squares(to: Chain, dim: int, weights: Any) -> int:
    to.then("list_append(x, bias)", f"{_bias(to, weights)} AS bias")
    return dim + 1


def _hubness(to: Chain, dim: int, weights: Any, queries: Any, offsets: Any, weight: Any, neighbors: Any) -> int:
    products = f"[list_inner_product(q, x) FOR q IN {to.matrix(queries)}]"
    scores = f"[p[1] + p[2] FOR p IN list_zip({products}, {to.vector(offsets)})]"
    best = f"list_avg(list_reverse_sort({scores})[1:{int(neighbors)}])"
    to.then(
        f"list_append(x, bias - {float(weight)!r} * (bias + best))", f"{_bias(to, weights)} AS bias, {best} AS best"
    )
    return dim + 1


def _bias(to: Chain, weights: Any) -> str:
    return f"list_inner_product([a * a FOR a IN x], {to.vector(weights)})"


KINDS: dict[str, Any] = {
    "linear": _linear,
    "unit": _unit,
    "length": _length,
    "gaussian": _gaussian,
    "squares": _squares,
    "hubness": _hubness,
}
