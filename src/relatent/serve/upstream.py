"""The embedder behind the service: asked in OpenAI's dialect, and believed only as far as its answer can be checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relatent._errors import needs
from relatent._http import Refused
from relatent.serve.messages import object_of, rows_of
from relatent.translate.endpoints import Side


@dataclass(frozen=True)
class Settings:
    """Limits, names and addresses. Keys are not shown when it is printed."""

    side: Side = "source"
    normalize: bool = False
    """Whether answers are scaled to unit norm, as most embedders' vectors are."""
    model: str | None = None
    """The name that answers go by; the target's model by default."""
    upstream: str | None = None
    """Address of an OpenAI-compatible embedder of the source, such as http://127.0.0.1:9000/v1."""
    upstream_model: str | None = None
    """The model to ask it for; the one that was asked for by default."""
    upstream_key: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    """What callers must send as a bearer token, if anything."""
    max_rows: int = 2_048
    """Vectors or texts per request."""
    max_body: int = 32 * 2**20
    """Bytes per request, and per answer of the upstream."""
    max_requests: int = 256
    """Requests at a time; those beyond are refused at once, to be tried again."""
    body_timeout: float = 15.0
    """Seconds that a client may take to send its request."""
    upstream_timeout: float = 30.0
    """Seconds that the upstream may take to answer."""

    def __post_init__(self) -> None:
        """Refuse what no request could pass."""
        for name in ("max_rows", "max_body", "max_requests", "body_timeout", "upstream_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: expected more than 0.")
        if self.upstream is not None and not re.match(r"https?://[^/]", self.upstream):
            raise ValueError(
                f"The upstream is {self.upstream!r}: expected an address such as http://127.0.0.1:9000/v1."
            )


# Seconds that an idle connection is kept: fewer than servers keep it, so that a request does not meet its closing.
KEPT_IDLE = 2.0


class Upstream:
    """A client of one address, with as many connections as there may be requests."""

    def __init__(self, settings: Settings, width: int) -> None:
        self.httpx = needs("httpx", "serve", "ask an embedder")
        self.kept = self._client(settings, keepalive_expiry=KEPT_IDLE)
        self.fresh = self._client(settings, max_keepalive_connections=0)
        self.url = f"{str(settings.upstream).rstrip('/')}/embeddings"
        self.settings, self.width = settings, width

    def _client(self, settings: Settings, **limits: float) -> Any:
        key = settings.upstream_key
        return self.httpx.AsyncClient(
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            timeout=settings.upstream_timeout,
            limits=self.httpx.Limits(max_connections=settings.max_requests, **limits),
            trust_env=False,  # the address that was given is the one that is asked
        )

    async def embed(self, given: dict[str, Any], count: int) -> tuple[np.ndarray, dict[str, Any]]:
        """Return one row per input, and the usage that the upstream reports."""
        asked: dict[str, Any] = {name: given[name] for name in ("input", "model", "user") if name in given}
        if self.settings.upstream_model is not None:
            asked["model"] = self.settings.upstream_model
        answer = await self._asked({**asked, "encoding_format": "float"})
        try:
            items = sorted(answer["data"], key=lambda item: int(item["index"]))
            rows = rows_of([item["embedding"] for item in items], self.width, self.settings.max_rows)
        except (KeyError, TypeError, ValueError, Refused) as error:
            raise Refused(
                "upstream_failed",
                f"The upstream's answer holds no vectors of {self.width} finite numbers: it must be the model that the "
                "translator was fitted on.",
            ) from error
        if len(rows) != count:
            raise Refused("upstream_failed", f"The upstream answered {len(rows)} vectors for {count} inputs.")
        usage = answer.get("usage")
        return rows, usage if isinstance(usage, dict) else {}

    async def _asked(self, content: dict[str, Any]) -> dict[str, Any]:
        try:
            raw = await self._posted(content)
        except self.httpx.TimeoutException as error:
            limit = self.settings.upstream_timeout
            raise Refused("upstream_failed", f"The upstream did not answer within {limit:g} s.") from error
        except self.httpx.HTTPError as error:
            raise Refused("upstream_failed", f"The upstream cannot be reached ({type(error).__name__}).") from error
        try:
            return object_of(raw)
        except Refused as error:
            raise Refused("upstream_failed", "The upstream's answer is not a JSON object.") from error

    async def _posted(self, content: dict[str, Any]) -> bytes:
        """Ask over a kept connection, and once more over a new one if it was closed before any answer.

        An upstream may close an idle connection just as a request is sent. Texts are then embedded twice at worst.
        """
        request = self.kept.build_request("POST", self.url, json=content)
        try:
            response = await self.kept.send(request, stream=True)
        except (self.httpx.RemoteProtocolError, self.httpx.ReadError, self.httpx.WriteError):
            response = await self.fresh.send(request, stream=True)
        try:
            return await self._read(response)
        finally:
            await response.aclose()

    async def _read(self, response: Any) -> bytes:
        """Read an answer that is one, and not too large. What it says about an error may hold texts, and is dropped."""
        if response.status_code == 429:
            wait = response.headers.get("Retry-After", "")
            known = {"Retry_After": wait} if wait.isdigit() else {}
            raise Refused("upstream_overloaded", "The upstream is overloaded: try again later.", **known)
        if response.status_code != 200:
            raise Refused("upstream_failed", f"The upstream answered with status {response.status_code}.")
        raw = bytearray()
        async for chunk in response.aiter_bytes():
            raw += chunk
            if len(raw) > self.settings.max_body:
                raise Refused("upstream_failed", f"The upstream's answer exceeds {self.settings.max_body} bytes.")
        return bytes(raw)

    async def close(self) -> None:
        """Close all connections."""
        await self.kept.aclose()
        await self.fresh.aclose()
