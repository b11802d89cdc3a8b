"""PostgreSQL: a map's steps as a function from a vector to a vector, with nothing but pgvector.

An export writes it to a file; migrations of live tables install it themselves, for vectors of every type. Matrices
stand in a table, one row of the transposed matrix as one vector, so that a coordinate of the product is one inner
product. A vector that fits on a page is read where it lies, without a copy; longer ones are cut into parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from relatent.exports.sql.literals import numbers, quoted, text
from relatent.steps import Step

# Coordinates of a row of the table: as many as fit on a page of PostgreSQL.
PART = 1_900
# The longest vector of pgvector, also on the way.
MAX_DIM = 16_000
# The first version of pgvector that has `||`, l2_normalize, subvector and binary_quantize.
MIN_VERSION = (0, 7)
# exp of less is an error of PostgreSQL; in a vector, this is zero.
MIN_EXPONENT = -700
# Rows of the table in one statement of a script.
ROWS = 100
# Vectors of every type as numbers, and back. Bits are 1 where a coordinate is positive.
READ = {
    "float32": "given",
    "float16": "given::vector",
    "bit": "string_to_array(given::text, NULL)::real[]::vector",
}
WRITTEN = {"float32": "x::vector({})", "float16": "x::halfvec({})", "bit": "binary_quantize(x)::bit({})"}
NOT_FINITE = "a step has numbers that are not finite"


class Vectors(Protocol):
    """Vectors that a function takes or returns: what they are called, their coordinates, and how each is kept."""

    @property
    def name(self) -> str:
        """Their name."""

    @property
    def dim(self) -> int:
        """Their coordinates."""

    @property
    def dtype(self) -> Any:
        """float32, float16 or bit."""


@dataclass(frozen=True)
class Single:
    """Vectors in single precision."""

    name: str
    dim: int
    dtype: str = "float32"


def script(name: str, steps: Sequence[Step], dims: tuple[int, int]) -> Iterator[str]:
    """Return the statements that make the function of vectors in single precision, in one transaction."""
    given, wanted, map = Single("given", dims[0]), Single(name, dims[1]), quoted(f"{name}__map")
    made = program(steps, given, wanted)
    if isinstance(made, str):
        raise ValueError(f"This map cannot be a function of PostgreSQL: {made}. Fit one that is smaller on its way.")
    yield (
        f"BEGIN;\nCREATE TABLE {map} (step int, row int, part int, weights vector NOT NULL, "
        f"PRIMARY KEY (step, row, part));\n"
        f"ALTER TABLE {map} ALTER weights SET STORAGE PLAIN;"
    )
    rows = [*made.rows()]
    for first in range(0, len(rows), ROWS):
        listed = (f"({s}, {r}, {p}, {text(numbers(values))})" for s, r, p, values in rows[first : first + ROWS])
        yield f"INSERT INTO {map} VALUES\n" + ",\n".join(listed) + ";"
    yield (
        f"CREATE FUNCTION {quoted(name)}(given vector) RETURNS vector LANGUAGE plpgsql STABLE AS $relatent$\n"
        f"{made.body(map, given, wanted)}\n$relatent$;\nCOMMIT;\nANALYZE {map};\n"
        f"-- SELECT id FROM items ORDER BY embedding <=> {name}('[…]') LIMIT 10;\n"
        f"-- To remove it: DROP FUNCTION {name}(vector); DROP TABLE {map};"
    )


@dataclass
class Program:
    """What a function does to x, statement by statement, and the rows of matrices that it reads: (step, row, part)."""

    dim: int
    first: int = 0
    statements: list[str] = field(default_factory=list)
    matrices: list[np.ndarray] = field(default_factory=list)

    def read(self, matrix: np.ndarray, value: str, final: str = "{}") -> str:
        """Return the selection of one number per row of a matrix: the value of each part, added up."""
        self.matrices.append(np.asarray(matrix, np.float32))
        step, parts = self.first + len(self.matrices) - 1, -(-matrix.shape[1] // PART)
        vector = "x" if parts == 1 else f"(ARRAY[{', '.join(_parts(matrix.shape[1]))}])[m.part + 1]"
        one = value.format(x=vector)
        if parts == 1:
            return f"SELECT m.row, {final.format(one)} AS y FROM {{map}} m WHERE m.step = {step}"
        return f"SELECT m.row, {final.format(f'sum({one})')} AS y FROM {{map}} m WHERE m.step = {step} GROUP BY m.row"

    def body(self, map: str, given: Vectors, wanted: Vectors) -> str:
        """Return the body of the function: a vector of another dimension, or one that overflows, has no translation."""
        done = "".join(f"  {statement.format(map=map)};\n" for statement in self.statements)
        length = "length" if given.dtype == "bit" else "vector_dims"
        return (
            "DECLARE x vector; bias float8;\nBEGIN\n"
            f"  IF given IS NULL OR {length}(given) <> {given.dim} THEN RETURN NULL; END IF;\n"
            f"  x := {READ[given.dtype]};\n{done}  RETURN {WRITTEN[wanted.dtype].format(wanted.dim)};\n"
            "EXCEPTION WHEN data_exception THEN RETURN NULL;\nEND"
        )

    def rows(self) -> Iterator[tuple[int, int, int, np.ndarray]]:
        """Return the rows of the table, in the order in which they are read."""
        for step, matrix in enumerate(self.matrices, self.first):
            for row, values in enumerate(matrix):
                for part, start in enumerate(range(0, len(values), PART)):
                    yield step, row, part, values[start : start + PART]


def program(steps: Sequence[Step], given: Vectors, wanted: Vectors, first: int = 0) -> Program | str:
    """Return what computes the steps of the vectors of a field, or why nothing can."""
    made = Program(given.dim, first)
    for step in steps:
        if step.kind not in KINDS:
            return f"PostgreSQL cannot compute the step {step.kind!r}"
        if not all(np.isfinite(np.asarray(value, np.float64)).all() for value in step.arrays.values()):
            return NOT_FINITE
        KINDS[step.kind](made, **step.arrays)
        if made.dim > MAX_DIM:
            return f"the map has {made.dim:,} coordinates on the way, and a vector of pgvector takes {MAX_DIM:,}"
    if made.dim != wanted.dim:
        return f"the map returns {made.dim} coordinates, and {wanted.name!r} has {wanted.dim}"
    return made


def _linear(to: Program, matrix: Any = None, offset: Any = None) -> None:
    if matrix is not None and np.ndim(matrix) == 2:
        matrix = np.asarray(matrix)
        selected = to.read(matrix.T, "inner_product(m.weights, {x})")
        to.statements.append(f"x := (SELECT array_agg(y ORDER BY row)::vector FROM ({selected}) AS rows)")
        to.dim = matrix.shape[1]
    elif matrix is not None:  # a product of vectors refuses what is too small, where one of numbers does not
        to.statements.append(
            f"x := (SELECT array_agg(a::float8 * b ORDER BY n)::vector "
            f"FROM unnest(x::real[], {_numbers(matrix)}) WITH ORDINALITY AS u(a, b, n))"
        )
    if offset is not None:
        to.statements.append(f"x := x + {_vector(np.broadcast_to(np.asarray(offset), to.dim))}")


def _unit(to: Program) -> None:
    to.statements.append("x := l2_normalize(x)")


def _length(to: Program, length: Any, power: Any) -> None:
    factor = f"({float(length)!r}::float8 / nullif(vector_norm(x), 0)) ^ {float(power)!r}"
    to.statements.append(
        f"x := (SELECT array_agg(a::float8 * coalesce({factor}, 1) ORDER BY n)::vector "
        "FROM unnest(x::real[]) WITH ORDINALITY AS u(a, n))"
    )


def _gaussian(to: Program, centers: Any, width: Any) -> None:
    number = f"exp(greatest(-({{}}) / {float(width)!r}::float8, {MIN_EXPONENT}))"
    selected = to.read(np.asarray(centers), "l2_distance(m.weights, {x}) ^ 2", number)
    to.statements.append(f"x := x || (SELECT array_agg(y ORDER BY row)::vector FROM ({selected}) AS rows)")
    to.dim += len(centers)


def _squares(to: Program, weights: Any) -> None:
    to.statements += [_bias(weights), "x := x || ARRAY[bias]::vector"]
    to.dim += 1


def _hubness(to: Program, weights: Any, queries: Any, offsets: Any, weight: Any, neighbors: Any) -> None:
    to.statements.append(_bias(weights))
    selected = to.read(np.asarray(queries), "inner_product(m.weights, {x})")
    scores = f"SELECT y + ({_numbers(offsets)})[row + 1] AS score FROM ({selected}) AS rows"
    best = f"SELECT avg(score) FROM ({scores} ORDER BY score DESC LIMIT {int(neighbors)}) AS best"
    to.statements.append(f"x := x || ARRAY[bias - {float(weight)!r}::float8 * (bias + ({best}))]::vector")
    to.dim += 1


KINDS: dict[str, Any] = {
    "linear": _linear,
    "unit": _unit,
    "length": _length,
    "gaussian": _gaussian,
    "squares": _squares,
    "hubness": _hubness,
}


def _bias(weights: Any) -> str:
    return f"bias := (SELECT sum(a::float8 * a * b) FROM unnest(x::real[], {_numbers(weights)}) AS u(a, b))"


def _parts(dim: int) -> list[str]:
    return [f"subvector(x, {start + 1}, {min(PART, dim - start)})" for start in range(0, dim, PART)]


def _numbers(values: Any) -> str:
    return f"'{{{{{_listed(values)}}}}}'::float8[]"


def _vector(values: Any) -> str:
    return f"'[{_listed(np.asarray(values, np.float32))}]'::vector"


def _listed(values: Any) -> str:
    return ",".join(map(repr, np.asarray(values, np.float64).ravel().tolist()))


def signature(*programs: Program) -> str:
    """Return what tells programs apart."""
    found = hashlib.sha256()
    for one in programs:
        found.update("\n".join(one.statements).encode())
        for matrix in one.matrices:
            found.update(repr(matrix.shape).encode() + np.ascontiguousarray(matrix).tobytes())
    return found.hexdigest()
