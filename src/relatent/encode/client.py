"""The client of an OpenAI-compatible embedder: how it is asked, and what is checked of its answers.

OpenAI, Ollama, vLLM, TEI and llama.cpp answer this way, and so does ``relatent serve``, which asks by it too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self

import numpy as np

from relatent._errors import needs

# Seconds that an idle connection is kept: shorter than servers keep it, so that a request does not meet its closing.
KEPT_IDLE = 2.0
# Characters of an error's body that are kept.
DETAIL = 500
# Statuses after which the same request may succeed later.
TRANSIENT = (408, 425, 429, 500, 502, 503, 504, 529)


class EmbedderError(RuntimeError):
    """An embedder that did not answer, or not with one vector per input.

    The message repeats nothing of what was sent; ``detail``, the body of an error, may.
    """

    def __init__(
        self, message: str, *, status: int | None = None, detail: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.detail, self.retry_after = status, detail, retry_after


class NoAnswerError(EmbedderError):
    """An embedder that did not answer in time, or broke the connection off."""


class UnreachableError(NoAnswerError):
    """An embedder to which no connection can be made."""


class EmbeddingsClient:
    """A client of one embedder, with one connection per concurrent request.

    ``timeout`` bounds the whole of a call in seconds, ``max_body`` the bytes of an answer. Without ``use_proxy``,
    proxies of the environment are not used.
    """

    def __init__(
        self,
        address: str,
        *,
        model: str | None = None,
        key: str | None = None,
        name: str = "The embedder",
        timeout: float = 30.0,
        max_body: int = 32 * 2**20,
        connections: int = 8,
        use_proxy: bool = False,
        parse: Callable[[bytes], Any] = json.loads,
    ) -> None:
        self._httpx = needs("httpx", "embed", "ask an embedder")
        self.url, self.model, self.name, self.parse = f"{address.rstrip('/')}/embeddings", model, name, parse
        self.timeout, self.max_body = timeout, max_body
        # Loading all certificates takes longer than many a request: only where there are some to check, and once.
        tls: Any = self._httpx.create_ssl_context(trust_env=use_proxy) if address.startswith("https") else False
        shared: dict[str, Any] = {
            "verify": tls,
            "headers": {} if key is None else {"Authorization": f"Bearer {key}"},
            "timeout": timeout,
            "trust_env": use_proxy,
        }
        limits = self._httpx.Limits
        self._kept = self._httpx.AsyncClient(
            **shared, limits=limits(max_connections=connections, keepalive_expiry=KEPT_IDLE)
        )
        self._fresh = self._httpx.AsyncClient(
            **shared, limits=limits(max_connections=connections, max_keepalive_connections=0)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._kept.aclose()
        await self._fresh.aclose()

    async def embed(
        self, asked: dict[str, Any], count: int, width: int | None = None
    ) -> tuple[np.ndarray, dict[str, int]]:
        """Return one row per input, of ``width`` numbers if it is known, and the tokens that the embedder counted."""
        wanted = {**asked, **({} if self.model is None else {"model": self.model}), "encoding_format": "float"}
        answer = await self._asked(wanted)
        return self._rows(answer.get("data"), count, width), self._usage(answer.get("usage"))

    def _rows(self, data: Any, count: int, width: int | None) -> np.ndarray:
        """Return the rows in the order of the inputs, which the embedder gives as an index of each."""
        try:
            index = [item["index"] for item in data]
            rows = as_rows([item["embedding"] for item in data])
        except (KeyError, TypeError) as error:
            raise self._no_rows(width) from error
        if rows is None or rows.shape[1] != (width or rows.shape[1]) or not np.isfinite(rows).all():
            raise self._no_rows(width)
        if len(rows) != count:
            raise EmbedderError(f"{self.name} answered {len(rows)} vectors for {count} inputs.")
        if any(type(i) is not int for i in index) or sorted(index) != list(range(count)):
            raise EmbedderError(f"{self.name}'s index of its {count} vectors is not each of 0…{count - 1} once.")
        return rows[np.argsort(index)]

    def _no_rows(self, width: int | None) -> EmbedderError:
        rows = "one row of finite numbers per input" if width is None else f"rows of {width} finite numbers"
        return EmbedderError(f"{self.name}'s answer is not {rows}: expected those of the model that was asked for.")

    def _usage(self, given: Any) -> dict[str, int]:
        """Return the counts of tokens; an embedder may leave them out."""
        found = {} if given is None else given
        if isinstance(found, dict):
            named = {name: found.get(name) for name in ("prompt_tokens", "total_tokens")}
            counts = {name: 0 if count is None else count for name, count in named.items()}
            if all(type(count) is int and count >= 0 for count in counts.values()):
                return counts
        raise EmbedderError(f"{self.name}'s usage is not counts of tokens: expected integers of 0 or more.")

    async def _asked(self, content: dict[str, Any]) -> dict[str, Any]:
        try:
            # The whole call: the timeouts of the client bound the time between two bytes.
            async with asyncio.timeout(self.timeout):
                raw = await self._posted(content)
        except (TimeoutError, self._httpx.TimeoutException) as error:
            raise NoAnswerError(f"{self.name} did not answer within {self.timeout:g} s.") from error
        except self._httpx.ConnectError as error:
            raise UnreachableError(f"{self.name} cannot be reached ({type(error).__name__}).") from error
        except self._httpx.HTTPError as error:
            raise NoAnswerError(f"{self.name} cannot be reached ({type(error).__name__}).") from error
        try:
            answer = self.parse(raw)
        except ValueError as error:
            raise NoAnswerError(f"{self.name}'s answer is not a JSON object.") from error
        if not isinstance(answer, dict):
            raise EmbedderError(f"{self.name}'s answer is not a JSON object.")
        return answer

    async def _posted(self, content: dict[str, Any]) -> bytes:
        """Send a request over a kept connection, and retry it over a new one if that was closed before any answer.

        An embedder may close an idle connection just as a request is sent. Texts are embedded twice at worst.
        """
        request = self._kept.build_request("POST", self.url, json=content)
        try:
            response = await self._kept.send(request, stream=True)
        except (self._httpx.RemoteProtocolError, self._httpx.ReadError, self._httpx.WriteError):
            response = await self._fresh.send(request, stream=True)
        try:
            return await self._read(response)
        finally:
            await response.aclose()

    async def _read(self, response: Any) -> bytes:
        """Read an answer up to the limit of size."""
        raw = bytearray()
        most = self.max_body if response.status_code == 200 else 4 * DETAIL
        async for chunk in response.aiter_bytes():
            raw += chunk
            if len(raw) > most:
                break
        if response.status_code != 200:
            status, detail = response.status_code, _said(bytes(raw))
            wait = seconds_of(response.headers.get("Retry-After", ""))
            message = f"{self.name} answered with status {status}."
            raise EmbedderError(message, status=status, detail=detail, retry_after=wait)
        if len(raw) > most:
            raise EmbedderError(f"{self.name}'s answer exceeds {self.max_body} bytes.")
        return bytes(raw)


def as_rows(given: Any) -> np.ndarray | None:
    """Return lists of numbers as rows of float32; None for anything else. Numbers beyond float32 become infinite."""
    try:
        rows = np.asarray(given)
    except (ValueError, OverflowError):
        return None
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":  # text, booleans, null, integers of any size
        return None
    with np.errstate(over="ignore"):
        return rows.astype(np.float32)


def seconds_of(retry_after: str) -> float | None:
    """Return the seconds of a Retry-After header, which holds a number or a date; None for anything else.

    >>> seconds_of("1.5"), seconds_of("soon"), seconds_of("Wed, 21 Oct 2015 07:28:00 GMT")
    (1.5, None, 0.0)
    """
    try:
        found = float(retry_after)
        return found if 0 <= found < float("inf") else None
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _said(body: bytes) -> str:
    """Return the message of an error's body: that of OpenAI's form, or else its text."""
    text = body.decode("utf8", "replace")
    try:
        error = json.loads(text).get("error", text)
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        pass
    return " ".join(text.split())[:DETAIL]
