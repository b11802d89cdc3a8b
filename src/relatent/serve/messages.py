"""Requests and answers: JSON in, rows out, and back. Nothing that a client sent is repeated in a message."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from relatent._errors import needs
from relatent._http import Refused

LITTLE = np.dtype("<f4")
ENCODINGS = ("float", "base64")


@dataclass(frozen=True)
class Wanted:
    """How a client wants its answer."""

    encoding: str = "float"
    dimensions: int | None = None
    space: str | None = None

    @staticmethod
    def of(given: dict[str, Any], width: int, header: str | None = None) -> Wanted:
        """Read the options of a request; the space that is expected may stand in a header."""
        encoding, dimensions = given.get("encoding_format", "float"), given.get("dimensions")
        if encoding not in ENCODINGS:
            raise Refused("bad_input", "encoding_format must be 'float' or 'base64'.")
        if dimensions is not None and not (type(dimensions) is int and 1 <= dimensions <= width):
            raise Refused("bad_input", f"dimensions must be a whole number from 1 to {width}.")
        space = given.get("expect_space", header)
        if space is not None and not isinstance(space, str):
            raise Refused("bad_input", "expect_space must be the id of a space or the name of its model.")
        return Wanted(encoding, dimensions, space)


def object_of(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object. NaN and infinity are no JSON."""
    try:
        given = _json().loads(raw)
    except ValueError as error:
        raise Refused("bad_input", "The body is not JSON: send an object, as the OpenAPI description says.") from error
    if not isinstance(given, dict):
        raise Refused("bad_input", "The body is not a JSON object.")
    return given


def json_of(content: dict[str, Any]) -> bytes:
    """Write JSON, in which arrays of NumPy may stand."""
    orjson = _json()
    written: bytes = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return written


def rows_of(given: Any, width: int, max_rows: int) -> np.ndarray:
    """Return rows of finite float32 from lists of numbers, or from base64 of little-endian float32."""
    _check_batch(given, "vectors", max_rows)
    rows = decoded(given) if all(isinstance(row, str) for row in given) else _numbers(given)
    if rows is None or rows.ndim != 2 or rows.shape[1] != width:
        raise Refused("bad_input", f"vectors must be rows of {width} numbers each, or base64 of as many float32.")
    if not np.isfinite(rows).all():
        raise Refused("bad_input", "vectors hold NaN, infinity, or numbers beyond float32.")
    return rows


def texts_of(given: Any, max_rows: int) -> int:
    """Check what is to be embedded, texts or tokens, and return how many vectors it asks for."""
    if isinstance(given, str) or (isinstance(given, list) and given and all(type(t) is int for t in given)):
        given = [given]
    _check_batch(given, "input", max_rows)
    for one in given:
        tokens = isinstance(one, list) and one and all(type(t) is int for t in one)
        if not (tokens or (isinstance(one, str) and one)):
            raise Refused("bad_input", "input must be a text, a list of texts, or lists of tokens, none of them empty.")
    return len(given)


def decoded(given: list[str]) -> np.ndarray | None:
    """Return rows of base64, or None if it is none, or ragged."""
    try:
        packed = [base64.b64decode(row, validate=True) for row in given]
    except (binascii.Error, ValueError):
        return None
    if len({len(row) for row in packed}) != 1 or len(packed[0]) % LITTLE.itemsize:
        return None
    return np.frombuffer(b"".join(packed), dtype=LITTLE).reshape(len(packed), -1).astype(np.float32, copy=False)


def encoded(rows: np.ndarray, encoding: str) -> list[Any]:
    """Return rows as a client wants them."""
    if not np.isfinite(rows).all():
        raise Refused("bad_input", "The translated vectors are beyond float32: check the norms of what was sent.")
    if encoding == "float":
        return list(np.ascontiguousarray(rows))
    return [base64.b64encode(row.tobytes()).decode() for row in rows.astype(LITTLE)]


def _numbers(given: list[Any]) -> np.ndarray | None:
    try:
        rows = np.asarray(given)
    except (ValueError, OverflowError):
        return None
    if rows.dtype.kind not in "fiu":  # text, truth values, nothing, numbers of any size
        return None
    with np.errstate(over="ignore"):
        return rows.astype(np.float32)


def _check_batch(given: Any, name: str, max_rows: int) -> None:
    if not isinstance(given, list) or not given:
        raise Refused("bad_input", f"{name} is missing, empty or no list.")
    if len(given) > max_rows:
        said = f"{len(given)} of {name} were given, and {max_rows} pass at a time: send fewer."
        raise Refused("batch_too_large", said)


@cache
def _json() -> Any:
    return needs("orjson", "serve", "read and write JSON quickly")
