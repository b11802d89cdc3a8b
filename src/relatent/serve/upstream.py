"""The OpenAI-compatible embedder behind the service; its answers are checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from relatent._errors import needs
from relatent._http import Refused
from relatent.serve.protocol import Settings, object_of, rows_of

# Seconds that an idle connection is kept: shorter than servers keep it, so that a request does not meet its closing.
KEPT_IDLE = 2.0


class Upstream:
    """A client of one address, with one connection per concurrent request at most."""

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
            trust_env=False,  # no proxy of the environment
        )

    async def embed(self, given: dict[str, Any], count: int) -> tuple[np.ndarray, dict[str, Any]]:
        """Return one row per input, and the usage reported by the upstream."""
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
                f"The upstream's answer is not rows of {self.width} finite numbers: expected the model that the "
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
        """Send a request over a kept connection, and retry it over a new one if that was closed before any answer.

        An upstream may close an idle connection just as a request is sent. Texts are embedded twice at worst.
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
        """Read an answer up to the limit of size. The body of an error may contain texts and is dropped."""
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
