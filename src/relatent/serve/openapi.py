"""The published description of the service, in OpenAPI."""

from __future__ import annotations

from typing import Any

import numpy as np

from relatent import __version__
from relatent._http import ERRORS
from relatent.serve.upstream import Settings

ANY_ERROR = ("internal", "overloaded")
IN_BODY = ("bad_input", "batch_too_large", "slow_client", "space_mismatch")


def description(dims_in: int, dim: int, settings: Settings) -> dict[str, Any]:
    """Describe every path, what it takes, what it answers and how it refuses."""
    paths = {
        "/v1/translate": {"post": _translate(dims_in, dim, settings)},
        "/v1/embeddings": {"post": _embeddings(dim, settings)},
        "/v1/models": {"get": _get("The model that answers, in OpenAI's words.", _list({"type": "object"}, "data"))},
        "/health": {
            "get": _get("Whether the process lives.", _object({"status": _TEXT, "space": _TEXT, "source": _TEXT}))
        },
        "/info": {"get": _get("The translator, the space of its answers, the limits.", {"type": "object"})},
        "/metrics": {"get": _get("Counts and times for Prometheus.", _TEXT, media="text/plain")},
        "/openapi.json": {"get": _get("This description.", {"type": "object"})},
    }
    if settings.api_key is not None:
        for path, methods in paths.items():
            for method in methods.values():
                if path != "/health":
                    method["security"] = [{"key": []}]
                    method["responses"] |= _errors("unauthorized")
    about = {"title": "relatent", "version": __version__, "description": "Vectors of one model in another's space."}
    schemes = {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}
    return {"openapi": "3.1.0", "info": about, "paths": paths, "components": {"schemas": _SCHEMAS, **schemes}}


_TEXT: dict[str, Any] = {"type": "string"}


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), **more}


def _list(of: dict[str, Any], name: str, **more: Any) -> dict[str, Any]:
    return _object({"object": {"const": "list"}, name: {"type": "array", "items": of}, **more})


_SCHEMAS: dict[str, Any] = {
    "Error": _object({"error": _TEXT, "error_type": {"enum": sorted(ERRORS)}}),
    "Space": _object(
        {"id": _TEXT, "model": _TEXT, "dim": {"type": "integer"}, "metric": _TEXT, "translated_from": _TEXT}
    ),
}
_SPACE = {"$ref": "#/components/schemas/Space"}


def _row(width: int | None = None) -> dict[str, Any]:
    """Numbers, or base64 of little-endian float32; ``width`` of them where that is known."""
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
        "encoding_format": {"enum": ["float", "base64"], "default": "float"},
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
    return _post("Embed texts by the upstream, in the space of the target; as OpenAI's.", given, answer, *kinds)


def _post(summary: str, given: dict[str, Any], answer: dict[str, Any], *errors: str) -> dict[str, Any]:
    body = {"required": True, "content": {"application/json": {"schema": given}}}
    return {**_get(summary, answer, *errors), "requestBody": body}


def _get(summary: str, answer: dict[str, Any], *errors: str, media: str = "application/json") -> dict[str, Any]:
    space = {"X-Relatent-Space": {"description": "Id of the space of the answers.", "schema": _TEXT}}
    done = {"description": "Done.", "headers": space, "content": {media: {"schema": answer}}}
    return {"summary": summary, "responses": {"200": done, **_errors(*ANY_ERROR, *errors)}}


def _errors(*kinds: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    said: dict[int, list[str]] = {}
    for kind in kinds:
        said.setdefault(ERRORS[kind], []).append(kind)
    return {str(code): {"description": ", ".join(names), "content": content} for code, names in sorted(said.items())}
