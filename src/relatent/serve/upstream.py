"""The embedder behind the service: the client of :mod:`relatent.encode.client`, whose errors become answers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from relatent._http import Refused
from relatent.encode.client import EmbedderError, EmbeddingsClient
from relatent.serve.protocol import Settings, object_of


class Upstream:
    """A client of one OpenAI-compatible embedder of vectors of a known width."""

    def __init__(self, settings: Settings, width: int, address: str, model: str | None, key: str | None) -> None:
        self.width = width
        self.client = EmbeddingsClient(
            address,
            model=model,
            key=key,
            name="The upstream",
            timeout=settings.upstream_timeout,
            max_body=settings.max_body,
            connections=settings.max_requests,
            parse=_parsed,
        )

    @staticmethod
    def of_source(settings: Settings, width: int) -> Upstream | None:
        """Return the embedder whose vectors are translated, if there is one."""
        if settings.upstream is None:
            return None
        return Upstream(settings, width, settings.upstream, settings.upstream_model, settings.upstream_key)

    @staticmethod
    def of_target(settings: Settings, width: int) -> Upstream | None:
        """Return the embedder of the target, for texts of low confidence, if there is one."""
        if settings.exact is None:
            return None
        return Upstream(settings, width, settings.exact, settings.exact_model, settings.exact_key)

    async def embed(self, given: dict[str, Any], count: int) -> tuple[np.ndarray, dict[str, int]]:
        """Return one row per input, and the tokens that the upstream counted."""
        asked: dict[str, Any] = {name: given[name] for name in ("input", "model", "user") if name in given}
        try:
            return await self.client.embed(asked, count, self.width)
        except EmbedderError as error:  # whose detail may repeat texts and is dropped
            if error.status == 429:
                wait = {} if error.retry_after is None else {"Retry_After": f"{error.retry_after:.0f}"}
                raise Refused("upstream_overloaded", "The upstream is overloaded: try again later.", **wait) from error
            raise Refused("upstream_failed", str(error)) from error

    async def close(self) -> None:
        """Close all connections."""
        await self.client.close()


def _parsed(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object by the fast parser of the service."""
    try:
        return object_of(raw)
    except Refused as error:
        raise json.JSONDecodeError(str(error), "", 0) from error
