"""SQLite: a map's steps as a view of the vectors that a table is given, as JSON, with nothing that has to be loaded.

Matrices stand in a table, one row for each number. SQLite has no functions of its user, so that a vector is put into
``t__given`` and its translation is read from ``t``; in a transaction that is rolled back, nothing is left of it. Needs
the mathematical functions that SQLite is built with in most places (``sqrt``, ``exp``, ``pow``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from relatent.exports.sql.literals import numbers, quoted, text
from relatent.steps import Step

NORM = "sqrt(sum(v * v) OVER (PARTITION BY id))"


class Chain:
    """Common table expressions of numbers ``v`` by row ``id`` and coordinate ``i``, and the matrices that they read."""

    def __init__(self, name: str, dim: int) -> None:
        self.map, self.given, self.matrices = quoted(f"{name}__map"), quoted(f"{name}__given"), list[np.ndarray]()
        self.selects = [
            f"SELECT g.key, j.key, j.value FROM {self.given} g, json_each(g.vector) j "
            f"WHERE json_array_length(g.vector) = {dim}"
        ]

    @property
    def last(self) -> str:
        """The expression that was added last."""
        return f"s{len(self.selects) - 1}"

    def then(self, select: str) -> None:
        """Add an expression; ``{s}`` stands for the one before."""
        self.selects.append(select.format(s=self.last))

    def matrix(self, values: Any) -> str:
        """Keep a matrix, or a vector as its only row; return the join that brings its numbers ``m.weight``."""
        self.matrices.append(np.atleast_2d(np.asarray(values)))
        return f"JOIN {self.map} m ON m.step = {len(self.matrices) - 1} AND m.col = s.i"


def script(name: str, steps: Sequence[Step], dims: tuple[int, int]) -> Iterator[str]:
    """Return the statements that make the tables and the view, in one transaction."""
    chain, dim = Chain(name, dims[0]), dims[0]
    for step in steps:
        dim = KINDS[step.kind](chain, dim, **step.arrays)
    yield (
        f"BEGIN;\nCREATE TABLE {chain.map} (step INTEGER, col INTEGER, row INTEGER, weight REAL NOT NULL, "
        f"PRIMARY KEY (step, col, row)) WITHOUT ROWID;\n"
        f"CREATE TABLE {chain.given} (key PRIMARY KEY NOT NULL, vector TEXT NOT NULL);"
    )
    for at, matrix in enumerate(chain.matrices):
        for col, values in enumerate(matrix.T):
            yield f"INSERT INTO {chain.map} SELECT {at}, {col}, key, value FROM json_each({text(numbers(values))});"
    parts = ",\n".join(f"  s{at} (id, i, v) AS MATERIALIZED ({one})" for at, one in enumerate(chain.selects))
    listed = f"SELECT id, json_group_array(v) FROM (SELECT id, i, v FROM {chain.last} ORDER BY id, i) GROUP BY id"
    yield f"CREATE VIEW {quoted(name)} (key, vector) AS\n  WITH\n{parts}\n  {listed};\nCOMMIT;"
    yield (
        f"-- BEGIN;\n-- INSERT INTO {chain.given} VALUES (1, '[…]');  -- vec_to_json(embedding) is such a text\n"
        f"-- SELECT vector FROM {name} WHERE key = 1;  -- vec0 takes it: embedding MATCH …\n-- ROLLBACK;\n"
        f"-- To remove it: DROP VIEW {name}; DROP TABLE {chain.given}; DROP TABLE {chain.map};"
    )


def _linear(to: Chain, dim: int, matrix: Any = None, offset: Any = None) -> int:
    if matrix is not None and np.ndim(matrix) == 2:
        dim = np.shape(matrix)[1]
        to.then("SELECT s.id, m.row, sum(m.weight * s.v) FROM {s} s " + _product(to, np.asarray(matrix).T))
    elif matrix is not None:
        to.then("SELECT s.id, s.i, s.v * m.weight FROM {s} s " + to.matrix(matrix))
    if offset is not None:
        to.then("SELECT s.id, s.i, s.v + m.weight FROM {s} s " + to.matrix(np.broadcast_to(np.asarray(offset), dim)))
    return dim


def _product(to: Chain, rows: Any) -> str:
    return to.matrix(rows) + " GROUP BY s.id, m.row"


def _unit(to: Chain, dim: int) -> int:
    to.then(f"SELECT id, i, v / coalesce(nullif({NORM}, 0), 1) FROM {{s}}")
    return dim


def _length(to: Chain, dim: int, length: Any, power: Any) -> int:
    factor = f"coalesce(pow({float(length)!r} / nullif({NORM}, 0), {float(power)!r}), 1)"
    to.then(f"SELECT id, i, v * {factor} FROM {{s}}")
    return dim


def _gaussian(to: Chain, dim: int, centers: Any, width: Any) -> int:
    near = f"exp(-sum((s.v - m.weight) * (s.v - m.weight)) / {float(width)!r})"
    joined = f"SELECT s.id, {dim} + m.row, {near} FROM {{s}} s {_product(to, centers)}"
    to.then(f"SELECT id, i, v FROM {{s}} UNION ALL {joined}")
    return dim + len(centers)


def _squares(to: Chain, dim: int, weights: Any) -> int:
    to.then(f"SELECT id, i, v FROM {{s}} UNION ALL SELECT s.id, {dim}, {_bias(to, weights)}")
    return dim + 1


def _hubness(to: Chain, dim: int, weights: Any, queries: Any, offsets: Any, weight: Any, neighbors: Any) -> int:
    bias = f"SELECT s.id AS id, {_bias(to, weights)}".replace(" FROM", " AS b FROM", 1)
    products = f"SELECT s.id AS id, m.row AS i, sum(m.weight * s.v) AS v FROM {{s}} s {_product(to, queries)}"
    scores = f"SELECT s.id AS id, s.v + m.weight AS v FROM ({products}) s {to.matrix(offsets)}"
    ranked = f"SELECT id, v, row_number() OVER (PARTITION BY id ORDER BY v DESC) AS place FROM ({scores})"
    best = f"SELECT id, avg(v) AS v FROM ({ranked}) WHERE place <= {int(neighbors)} GROUP BY id"
    last = f"SELECT b.id, {dim}, b.b - {float(weight)!r} * (b.b + t.v) FROM ({bias}) b JOIN ({best}) t ON t.id = b.id"
    to.then(f"SELECT id, i, v FROM {{s}} UNION ALL {last}")
    return dim + 1


def _bias(to: Chain, weights: Any) -> str:
    return f"sum(s.v * s.v * m.weight) FROM {{s}} s {to.matrix(weights)} GROUP BY s.id"


KINDS: dict[str, Any] = {
    "linear": _linear,
    "unit": _unit,
    "length": _length,
    "gaussian": _gaussian,
    "squares": _squares,
    "hubness": _hubness,
}
