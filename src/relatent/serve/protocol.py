"""What clients and the service agree on: settings, requests and answers as JSON, and their description in OpenAPI.

No message repeats what a client sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from relatent import __version__
from relatent._errors import needs
from relatent._http import ERRORS, Refused
from relatent._schemes import public_url
from relatent.encode.client import as_rows
from relatent.translate.endpoints import Side

LITTLE = np.dtype("<f4")
ENCODINGS = ("float", "base64")
SPACE_HEADER, EXPECT_HEADER = "X-Relatent-Space", "X-Relatent-Expect-Space"
# The lowest confidence of the vectors of an answer.
CONFIDENCE_HEADER = "X-Relatent-Confidence"
# Paths that need no key.
OPEN_PATHS = ("/health",)
# Paths that answer also while as many requests as allowed are in progress: otherwise a loaded process looks dead.
MONITORING_PATHS = ("/health", "/metrics")
# Errors of any request, and of any request with a body.
ANY_ERROR = ("internal", "overloaded")
IN_BODY = ("bad_input", "batch_too_large", "slow_client", "space_mismatch")
_TEXT: dict[str, Any] = {"type": "string"}
_SPACE = {"$ref": "#/components/schemas/Space"}


@dataclass(frozen=True)
class Settings:
    """Limits, names and addresses of a service. Its repr leaves out keys, and the upstream, which may contain one."""

    side: Side = "source"
    normalize: bool = False
    """Whether answers are scaled to unit norm, as those of most embedders are."""
    model: str | None = None
    """Name of the model in answers; by default the model of the target."""
    upstream: str | None = field(default=None, repr=False)
    """Address of an OpenAI-compatible embedder of the source, such as http://127.0.0.1:9000/v1."""
    upstream_model: str | None = None
    """Model to ask the upstream for; by default the model that the client names."""
    upstream_key: str | None = field(default=None, repr=False)
    items: int | None = None
    """Size of the index that answers are searched in, for their confidence; by default the number of pairs."""
    min_confidence: float | None = None
    """Confidence below which a text is embedded by the exact upstream instead of translated."""
    exact: str | None = field(default=None, repr=False)
    """Address of an OpenAI-compatible embedder of the target."""
    exact_model: str | None = None
    """Model to ask it for; by default the model that the client names."""
    exact_key: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    """Bearer token that clients must send, if any."""
    max_rows: int = 2_048
    """Vectors or texts per request."""
    max_body: int = 32 * 2**20
    """Bytes per request, and per answer of the upstream."""
    max_requests: int = 256
    """Concurrent requests; further ones are refused at once with status 429."""
    body_timeout: float = 15.0
    """Seconds that a client may take to send its request."""
    upstream_timeout: float = 30.0
    """Seconds that the upstream may take for its whole answer."""

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_body", "max_requests", "body_timeout", "upstream_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: expected more than 0.")
        for address in (self.upstream, self.exact):
            if address is not None and not re.match(r"https?://[^/]", address):
                raise ValueError(
                    f"The upstream is {public_url(address)!r}: expected an address such as http://127.0.0.1:9000/v1."
                )
        self._check_confidence()

    def _check_confidence(self) -> None:
        if self.min_confidence is not None and not 0 < self.min_confidence <= 1:
            raise ValueError(f"min_confidence is {self.min_confidence}: expected more than 0 and at most 1.")
        if self.items is not None and self.items < 1:
            raise ValueError(f"items is {self.items}: expected 1 or more, the size of the index.")
        if (self.min_confidence is None) != (self.exact is None) or (self.exact is not None and self.upstream is None):
            raise ValueError(
                "A minimal confidence, the address of an embedder of the target for what is below it, and an upstream "
                "of texts belong together: give all of them, or neither of the first two."
            )


@dataclass(frozen=True)
class Wanted:
    """Options of a request for its answer."""

    encoding: str = "float"
    dimensions: int | None = None
    space: str | None = None

    @staticmethod
    def of(given: dict[str, Any], width: int, header: str | None = None) -> Wanted:
        """Read the options of a request; the expected space may be in a header."""
        encoding, dimensions = given.get("encoding_format", "float"), given.get("dimensions")
        if encoding not in ENCODINGS:
            raise Refused("bad_input", "encoding_format must be 'float' or 'base64'.")
        if dimensions is not None and not (type(dimensions) is int and 1 <= dimensions <= width):
            raise Refused("bad_input", f"dimensions must be an integer from 1 to {width}.")
        space = given.get("expect_space", header)
        if space is not None and not isinstance(space, str):
            raise Refused("bad_input", "expect_space must be the id of a space or the name of its model.")
        return Wanted(encoding, dimensions, space)


def object_of(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object. NaN and infinity are not JSON."""
    try:
        given = _json().loads(raw)
    except ValueError as error:
        raise Refused("bad_input", "The body is not JSON: send an object, as the OpenAPI description says.") from error
    if not isinstance(given, dict):
        raise Refused("bad_input", "The body is not a JSON object.")
    return given


def json_of(content: dict[str, Any]) -> bytes:
    """Write JSON; values may be NumPy arrays."""
    orjson = _json()
    written: bytes = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return written


def rows_of(given: Any, width: int, max_rows: int) -> np.ndarray:
    """Return rows of finite float32 from lists of numbers, or from base64 of little-endian float32."""
    _check_batch(given, "vectors", max_rows)
    rows = decoded(given) if all(isinstance(row, str) for row in given) else as_rows(given)
    if rows is None or rows.shape[1] != width:
        raise Refused("bad_input", f"vectors must be rows of {width} numbers each, or base64 of as many float32.")
    if not np.isfinite(rows).all():
        raise Refused("bad_input", "vectors hold NaN, infinity, or numbers beyond float32.")
    return rows


def texts_of(given: Any, max_rows: int) -> int:
    """Check the input to embed, texts or tokens, and return the number of vectors expected."""
    if isinstance(given, str) or (isinstance(given, list) and given and all(type(t) is int for t in given)):
        given = [given]
    _check_batch(given, "input", max_rows)
    for one in given:
        tokens = isinstance(one, list) and one and all(type(t) is int for t in one)
        if not (tokens or (isinstance(one, str) and one)):
            raise Refused("bad_input", "input must be a text, a list of texts, or lists of tokens, none of them empty.")
    return len(given)


def decoded(given: list[str]) -> np.ndarray | None:
    """Decode rows from base64, or return None if it is invalid or ragged."""
    decode = _base64().b64decode
    try:
        packed = [decode(row, validate=True) for row in given]
    except ValueError:
        return None
    if len({len(row) for row in packed}) != 1 or len(packed[0]) % LITTLE.itemsize:
        return None
    return np.frombuffer(b"".join(packed), dtype=LITTLE).reshape(len(packed), -1).astype(np.float32, copy=False)


def encoded(rows: np.ndarray, encoding: str) -> list[Any]:
    """Encode rows as lists of numbers or as base64."""
    if not np.isfinite(rows).all():
        raise Refused("bad_input", "The translated vectors overflow float32: check the norms of the vectors sent.")
    if encoding == "float":
        return list(np.ascontiguousarray(rows))
    return list(map(_base64().b64encode_as_string, np.ascontiguousarray(rows, dtype=LITTLE)))


def _check_batch(given: Any, name: str, max_rows: int) -> None:
    if not isinstance(given, list) or not given:
        raise Refused("bad_input", f"{name} is missing, empty or not a list.")
    if len(given) > max_rows:
        raise Refused("batch_too_large", f"{name} has {len(given)} entries: send at most {max_rows} per request.")


@cache
def _json() -> Any:
    return needs("orjson", "serve", "read and write JSON quickly")


@cache
def _base64() -> Any:
    return needs("pybase64", "serve", "read and write base64 quickly")


def description(dims_in: int, dim: int, settings: Settings) -> dict[str, Any]:
    """Describe every path: its requests, answers and errors."""
    paths = {
        "/v1/translate": {"post": _translate(dims_in, dim, settings)},
        "/v1/embeddings": {"post": _embeddings(dim, settings)},
        "/v1/models": {"get": _get("The model that answers, OpenAI-compatible.", _list({"type": "object"}, "data"))},
        "/health": {
            "get": _get("Whether the process is up.", _object({"status": _TEXT, "space": _TEXT, "source": _TEXT}))
        },
        "/info": {"get": _get("The translator, the space of its answers, the limits.", {"type": "object"})},
        "/metrics": {"get": _get("Counts and times for Prometheus.", _TEXT, media="text/plain")},
        "/openapi.json": {"get": _get("This description.", {"type": "object"})},
    }
    for path in MONITORING_PATHS:
        del paths[path]["get"]["responses"][str(ERRORS["overloaded"])]
    if settings.api_key is not None:
        for path, methods in paths.items():
            for method in methods.values():
                if path not in OPEN_PATHS:
                    method["security"] = [{"key": []}]
                    method["responses"] |= _errors("unauthorized")
    space = {"id": _TEXT, "model": _TEXT, "dim": {"type": "integer"}, "metric": _TEXT, "translated_from": _TEXT}
    error = {"error": _TEXT, "error_type": {"enum": sorted(ERRORS)}}
    components = {
        "schemas": {"Error": _object(error), "Space": _object(space)},
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
    }
    about = {"title": "relatent", "version": __version__, "description": "Vectors of one model in another's space."}
    return {"openapi": "3.1.0", "info": about, "paths": paths, "components": components}


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), **more}


def _list(of: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    return _object({"object": {"const": "list"}, name: {"type": "array", "items": of}, **more})


def _row(width: int | None = None) -> dict[str, Any]:
    """Describe a row of numbers, or base64 of little-endian float32; ``width`` of them if it is known."""
    number: dict[str, Any] = {"type": "number"}
    numbers: dict[str, Any] = {"type": "array"}
    packed: dict[str, Any] = {"type": "string", "format": "byte"}
    if width is not None:
        largest = float(np.finfo(np.float32).max)
        number |= {"minimum": -largest, "maximum": largest}
        numbers |= {"minItems": width, "maxItems": width}
        length = 4 * -(-4 * width // 3)  # of base64, of four bytes each
        packed |= {"minLength": length, "maxLength": length, "pattern": "^[A-Za-z0-9+/]+={0,2}$"}
    return {"oneOf": [{**numbers, "items": number}, packed]}


def _options(dim: int) -> dict[str, Any]:
    return {
        "encoding_format": {"enum": list(ENCODINGS), "default": "float"},
        "dimensions": {"type": "integer", "minimum": 1, "maximum": dim},
        "expect_space": {"type": "string", "description": "Id or model of the space that answers must be in; or 412."},
    }


def _translate(dims_in: int, dim: int, settings: Settings) -> dict[str, Any]:
    vectors = {"type": "array", "items": _row(dims_in), "minItems": 1, "maxItems": settings.max_rows}
    given = {"type": "object", "properties": {"vectors": vectors, **_options(dim)}, "required": ["vectors"]}
    answer = _list(_row(), "vectors", space=_SPACE)
    return _post("Translate vectors.", given, answer, *IN_BODY)


def _embeddings(dim: int, settings: Settings) -> dict[str, Any]:
    text = {"type": "string", "minLength": 1}
    tokens = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
    many = [{"type": "array", "items": one, "minItems": 1, "maxItems": settings.max_rows} for one in (text, tokens)]
    asked = {"input": {"anyOf": [text, tokens, *many]}, "model": _TEXT, "user": _TEXT}
    given = {"type": "object", "properties": {**asked, **_options(dim)}, "required": ["input"]}
    item = _object({"object": {"const": "embedding"}, "index": {"type": "integer"}, "embedding": _row()})
    answer = _list(item, "data", model=_TEXT, usage={"type": "object"}, space=_SPACE)
    kinds = (*IN_BODY, "no_upstream", "upstream_failed")
    return _post("Embed texts by the upstream, in the space of the target; OpenAI-compatible.", given, answer, *kinds)


def _post(summary: str, given: dict[str, Any], answer: dict[str, Any], *errors: str) -> dict[str, Any]:
    body = {"required": True, "content": {"application/json": {"schema": given}}}
    described = {**_get(summary, answer, *errors), "requestBody": body}
    described["responses"]["200"]["headers"][CONFIDENCE_HEADER] = {
        "description": "Lowest probability that a vector of the answer finds its own item in the first ten.",
        "schema": {"type": "number", "minimum": 0, "maximum": 1},
    }
    return described


def _get(summary: str, answer: dict[str, Any], *errors: str, media: str = "application/json") -> dict[str, Any]:
    space = {SPACE_HEADER: {"description": "Id of the space of the answers.", "schema": _TEXT}}
    done = {"description": "Done.", "headers": space, "content": {media: {"schema": answer}}}
    return {"summary": summary, "responses": {"200": done, **_errors(*ANY_ERROR, *errors)}}


def _errors(*kinds: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    of: dict[int, list[str]] = {}
    for kind in kinds:
        of.setdefault(ERRORS[kind], []).append(kind)
    return {str(status): {"description": ", ".join(names), "content": content} for status, names in sorted(of.items())}
