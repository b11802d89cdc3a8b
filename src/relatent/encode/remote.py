"""Text encoders behind an address: OpenAI, and what answers as it does (Ollama, vLLM, TEI, llama.cpp). Extra: embed."""

from __future__ import annotations

import asyncio
import os
import random
import re
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import numpy as np

from relatent._errors import with_remedy
from relatent._schemes import public_url
from relatent.encode.client import TRANSIENT, EmbedderError, EmbeddingsClient, NoAnswerError, UnreachableError
from relatent.encode.encoder import Encoder, Usage

OPENAI, OLLAMA = "https://api.openai.com/v1", "http://127.0.0.1:11434/v1"
# Texts and characters of a request, and requests at a time.
TEXTS, CHARACTERS, REQUESTS = 64, 200_000, 4
# How often a request is made, how long the first pause is in seconds (each is twice the one before), and the longest.
ATTEMPTS, PAUSE, MAX_PAUSE = 7, 1.0, 300.0
# What a request is refused with that is too large for the embedder.
TOO_LARGE = (400, 413, 422)
LOOPBACK = re.compile(r"https?://(localhost|127\.[\d.]+|\[::1\])(:|/|$)")


def remote_text(
    address: str,
    model: str,
    *,
    name: str | None = None,
    key: str | None = None,
    dimensions: int | None = None,
    timeout: float = 300.0,
) -> Encoder:
    """Return an encoder of texts by an OpenAI-compatible embedder at an address such as http://127.0.0.1:11434/v1.

    Texts are sent in requests of limited size, several at a time. A request that is refused as too large is cut in two.
    One that fails for now (429, 5xx, a lost connection) is made again after the time that the embedder asks for, or
    after growing pauses. ``dimensions`` asks for shorter vectors, where the model has them. ``name`` is recorded as the
    model; by default it is ``model``, followed by @ and the dimensions if they were asked for.
    """
    if not re.match(r"https?://[^/@]+(/|$)", address):
        raise ValueError(
            f"{public_url(address)!r} is no address of an embedder: expected such as http://127.0.0.1:11434/v1, "
            "without a user or password. Keys are read from the environment."
        )
    called = (name or model) + ("" if dimensions is None else f"@{dimensions}")
    run = Remote(address, model, called, key=key, dimensions=dimensions, timeout=timeout)
    return Encoder(run, called, kind="text", usage=run.usage)


def provider_text(spec: str) -> Encoder:
    """Return the encoder that ``openai:MODEL``, ``ollama:MODEL`` or ``http://…/v1?model=MODEL`` names.

    ``MODEL@256`` asks for 256 dimensions. OpenAI's address and key are those in OPENAI_BASE_URL and OPENAI_API_KEY; the
    key of any other address is that in RELATENT_EMBED_KEY.
    """
    if "://" in spec:
        return _at_url(spec)
    provider, _, rest = spec.partition(":")
    model, dimensions = _with_dimensions(rest)
    if not model:
        raise ValueError(f"{spec!r} names no model: expected such as {provider}:text-embedding-3-small.")
    if provider == "ollama":
        return remote_text(OLLAMA, model, name=f"ollama:{model}", dimensions=dimensions)
    address, key = os.environ.get("OPENAI_BASE_URL") or OPENAI, os.environ.get("OPENAI_API_KEY") or None
    if key is None and address == OPENAI:
        raise ValueError(f"{spec} needs a key: set OPENAI_API_KEY in the environment.")
    return remote_text(address, model, name=f"openai:{model}", key=key, dimensions=dimensions)


def _at_url(spec: str) -> Encoder:
    parts = urlsplit(spec)
    options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    unknown = sorted(set(options) - {"model"})
    if unknown or "model" not in options:
        what = f"has the option {unknown[0]!r}" if unknown else "names no model"
        raise ValueError(f"{public_url(spec)} {what}: expected an address such as http://127.0.0.1:8080/v1?model=NAME.")
    model, dimensions = _with_dimensions(options["model"])
    address = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    return remote_text(address, model, key=os.environ.get("RELATENT_EMBED_KEY") or None, dimensions=dimensions)


def _with_dimensions(model: str) -> tuple[str, int | None]:
    """Split a name from the dimensions that are asked for.

    >>> _with_dimensions("text-embedding-3-large@256"), _with_dimensions("nomic-embed-text:v1.5")
    (('text-embedding-3-large', 256), ('nomic-embed-text:v1.5', None))
    """
    name, at, count = model.rpartition("@")
    return (name, int(count)) if at and count.isdigit() and int(count) else (model, None)


class Remote:
    """Embeds batches of texts: in requests of limited size, several at a time, made again as long as that may help."""

    def __init__(
        self, address: str, model: str, name: str, *, key: str | None, dimensions: int | None, timeout: float
    ) -> None:
        self._address, self._name = address, name
        self._options: dict[str, Any] = {"model": model, "key": key, "name": name, "timeout": timeout}
        self._asked: dict[str, Any] = {} if dimensions is None else {"dimensions": dimensions}
        self._width, self._size, self._resume_at, self._answered = dimensions, TEXTS, 0.0, False
        self.usage = Usage()

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Return one row per text."""
        for row, text in enumerate(texts):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"Text {row} is {text!r}: expected a text that is not empty. Leave such items out.")
        return _finished(self._embedded(list(texts)))

    async def _embedded(self, texts: list[str]) -> np.ndarray:
        proxy = not LOOPBACK.match(self._address)
        options = {**self._options, "max_body": 256 * 2**20, "connections": REQUESTS, "use_proxy": proxy}
        async with EmbeddingsClient(self._address, **options) as client:
            free = asyncio.Semaphore(REQUESTS)
            async with asyncio.TaskGroup() as group:
                parts = [
                    group.create_task(self._part(client, free, texts[start:stop]))
                    for start, stop in _requests(texts, self._size)
                ]
        return np.concatenate([part.result() for part in parts])

    async def _part(self, client: EmbeddingsClient, free: asyncio.Semaphore, texts: list[str]) -> np.ndarray:
        """Embed the texts of a request, in two requests where they are too many or too long for one."""
        try:
            async with free:
                return await self._retried(client, texts)
        except EmbedderError as error:
            slow = isinstance(error, NoAnswerError) and isinstance(error.__cause__, TimeoutError)
            if not (slow or error.status in TOO_LARGE):
                raise
            if len(texts) == 1:
                raise self._refused(texts[0], error) from error
        half = len(texts) // 2
        parts = [await self._part(client, free, texts[:half]), await self._part(client, free, texts[half:])]
        self._size = max(1, min(self._size, half))  # others would be refused, too
        return np.concatenate(parts)

    async def _retried(self, client: EmbeddingsClient, texts: list[str]) -> np.ndarray:
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(max(0.0, self._resume_at - time.monotonic()))
            try:
                rows, usage = await client.embed({**self._asked, "input": texts}, len(texts))
            except EmbedderError as error:
                pause = self._pause(error, attempt)
                if pause is None:
                    raise
                self._resume_at = max(self._resume_at, time.monotonic() + pause)  # of all requests
            else:
                return self._checked(rows, usage)
        raise AssertionError("the last attempt returns or raises")

    def _pause(self, error: EmbedderError, attempt: int) -> float | None:
        """Return how long to wait before the same request is made again; None where that would not help."""
        lost = isinstance(error, NoAnswerError) and not isinstance(error.__cause__, TimeoutError)
        if isinstance(error, UnreachableError) and not self._answered:
            raise EmbedderError(f"{error} Check {public_url(self._address)}, and whether it runs there.") from error
        pause = error.retry_after or PAUSE * 2**attempt * random.uniform(0.5, 1)
        if not (lost or error.status in TRANSIENT) or attempt + 1 == ATTEMPTS or pause > MAX_PAUSE:
            if error.status in TOO_LARGE:
                return None
            raise EmbedderError(_told(error), status=error.status) from error
        return pause

    def _checked(self, rows: np.ndarray, usage: dict[str, int]) -> np.ndarray:
        self._width, self._answered = self._width or rows.shape[1], True
        if rows.shape[1] != self._width:
            raise EmbedderError(
                f"{self._name} answered vectors of {rows.shape[1]} coordinates: expected {self._width}, as before or "
                "as asked for. Another model goes by this name, or it has no shorter vectors."
            )
        self.usage.tokens += usage["total_tokens"] or usage["prompt_tokens"]
        return rows

    def _refused(self, text: str, error: EmbedderError) -> EmbedderError:
        refused = EmbedderError(f"{_told(error)} It was asked for a text of {len(text):,} characters: {text[:40]!r} …")
        return with_remedy(
            refused,
            python="If that is too long, cut texts with max_chars=…; what was embedded is kept in the cache.",
            command="If that is too long, cut texts with --max-chars; what was embedded is kept in the cache.",
        )


def _told(error: EmbedderError) -> str:
    """Return what went wrong, what the embedder said of it, and what to do."""
    remedies = {401: "Check the key.", 403: "Check the key.", 404: "Check the address and the name of the model."}
    remedy = remedies.get(error.status or 0, "What was embedded is kept in the cache: run again to resume.")
    detail = f" It says: {error.detail.rstrip('.')}." if error.detail else ""
    return f"{error}{detail} {remedy}"


def _requests(texts: list[str], size: int) -> list[tuple[int, int]]:
    """Cut texts into requests of at most ``size`` texts, and of a limited number of characters.

    >>> _requests(["a" * 150_000, "b" * 40_000, "c" * 20_000], 64)
    [(0, 2), (2, 3)]
    """
    edges, held = [0], 0
    for row, text in enumerate(texts):
        if row > edges[-1] and (row - edges[-1] == size or held + len(text) > CHARACTERS):
            edges.append(row)
            held = 0
        held += len(text)
    return list(zip(edges, [*edges[1:], len(texts)], strict=True))


def _finished(work: Coroutine[Any, Any, np.ndarray]) -> np.ndarray:
    """Run asynchronous work to its end, also inside of an event loop, as in a notebook. Raise its first error alone."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _alone(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_alone, work).result()


def _alone(work: Coroutine[Any, Any, np.ndarray]) -> np.ndarray:
    try:
        return asyncio.run(work)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
