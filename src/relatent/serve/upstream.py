"""The embedder behind the service: how it is asked, and what is checked of its answers."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from relatent._errors import needs
from relatent._http import Refused
from relatent.serve.protocol import Settings, object_of, rows_of

# Seconds that an idle connection is kept: shorter than servers keep it, so that a request does not meet its closing.
KEPT_IDLE = 2.0


class Upstream:
    """A client of one OpenAI-compatible embedder, with one connection per concurrent request; it checks the answers."""

    def __init__(self, settings: Settings, width: int, address: str, model: str | None, key: str | None) -> None:
        self.httpx = needs("httpx", "serve", "ask an embedder")
        tls = self.httpx.create_ssl_context(trust_env=False)  # once: it loads all certificates
        self.kept = self._client(settings, key, tls, keepalive_expiry=KEPT_IDLE)
        self.fresh = self._client(settings, key, tls, max_keepalive_connections=0)
        self.url, self.model = f"{address.rstrip('/')}/embeddings", model
        self.settings, self.width = settings, width

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

    def _client(self, settings: Settings, key: str | None, tls: Any, **limits: float) -> Any:
        return self.httpx.AsyncClient(
            verify=tls,
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
            timeout=settings.upstream_timeout,
            limits=self.httpx.Limits(max_connections=settings.max_requests, **limits),
            trust_env=False,  # no proxy of the environment
        )

    async def embed(self, given: dict[str, Any], count: int) -> tuple[np.ndarray, dict[str, int]]:
        """Return one row per input, and the tokens that the upstream counted."""
        asked: dict[str, Any] = {name: given[name] for name in ("input", "model", "user") if name in given}
        if self.model is not None:
            asked["model"] = self.model
        answer = await self._asked({**asked, "encoding_format": "float"})
        return self._rows(answer.get("data"), count), _usage(answer.get("usage"))

    def _rows(self, data: Any, count: int) -> np.ndarray:
        """Return the rows in the order of the inputs, which the upstream gives as an index of each."""
        try:
            index = [item["index"] for item in data]
            rows = rows_of([item["embedding"] for item in data], self.width, self.settings.max_rows)
        except (KeyError, TypeError, ValueError, Refused) as error:
            raise Refused(
                "upstream_failed",
                f"The upstream's answer is not rows of {self.width} finite numbers: expected the model that the "
                "translator was fitted on.",
            ) from error
        if len(rows) != count:
            raise Refused("upstream_failed", f"The upstream answered {len(rows)} vectors for {count} inputs.")
        if any(type(i) is not int for i in index) or sorted(index) != list(range(count)):
            raise Refused(
                "upstream_failed", f"The upstream's index of its {count} vectors is not each of 0…{count - 1} once."
            )
        return rows[np.argsort(index)]

    async def _asked(self, content: dict[str, Any]) -> dict[str, Any]:
        try:
            # The whole call: the timeouts of the client bound the time between two bytes.
            async with asyncio.timeout(self.settings.upstream_timeout):
                raw = await self._posted(content)
        except (TimeoutError, self.httpx.TimeoutException) as error:
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


def _usage(given: Any) -> dict[str, int]:
    """Return the counts of tokens; an upstream may leave them out."""
    found = {} if given is None else given
    if isinstance(found, dict):
        named = {name: found.get(name) for name in ("prompt_tokens", "total_tokens")}
        counts = {name: 0 if count is None else count for name, count in named.items()}
        if all(type(count) is int and count >= 0 for count in counts.values()):
            return counts
    raise Refused("upstream_failed", "The upstream's usage is not counts of tokens: expected integers of 0 or more.")
