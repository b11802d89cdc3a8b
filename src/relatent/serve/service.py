"""Which space the answers are in, by an id that anyone can compare."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent import __version__
from relatent._errors import needs
from relatent._http import Refused
from relatent._linalg import unit_norm
from relatent._terminal import Result
from relatent.exports.formats import described, map_of, space_id
from relatent.serve.messages import Wanted, encoded, json_of, object_of, rows_of, texts_of
from relatent.serve.metrics import Metrics, SourceWatch
from relatent.serve.upstream import Settings, Upstream
from relatent.spaces.fingerprint import one_model
from relatent.translate import Translator
from relatent.translate.endpoints import Side


@dataclass(frozen=True)
class ServedSpace(Result):
    """The space of the answers. What one translator sends both sides into is a space of its own."""

    id: str
    model: str
    dim: int
    metric: str
    translated_from: str

    @staticmethod
    def of(translator: Translator, side: Side, model: str | None = None) -> ServedSpace:
        """Describe what comes out of one side of a translator."""
        ends, fitted = translator.endpoints_, map_of(translator, side)
        two_sided = translator.target_map_ is not None
        name = model or ends.target.model or ends.target_name or "translated"
        given, given_name = (ends.source, ends.source_name) if side == "source" else (ends.target, ends.target_name)
        found = hashlib.sha256(translator.matrix_.tobytes()).hexdigest()[:16] if two_sided else space_id(ends.target)
        return ServedSpace(found, name, fitted.width, translator.metric_, given.model or given_name or "unnamed")

    def is_called(self, expected: str) -> bool:
        """Return whether a caller means this space: by its id, or by the name of its model."""
        return expected == self.id or one_model(expected, self.model)


# Bytes from which on a request is worked on in a thread, so that small ones do not wait for it.
LARGE = 2**17
SPACE_HEADER, EXPECT_HEADER = "X-Relatent-Space", "X-Relatent-Expect-Space"
OPEN_PATHS = ("/health",)
log = logging.getLogger("relatent.serve")
Handler = Callable[[Any], Awaitable[Any]]


class Service:
    """A translator, its limits, and one method per path."""

    def __init__(self, translator: Translator, settings: Settings) -> None:
        self.fitted = map_of(translator, settings.side)
        self.translator, self.settings = translator, settings
        self.space = ServedSpace.of(translator, settings.side, settings.model)
        self.about_space = self.space.to_dict()
        if settings.normalize and self.space.metric == "inner":
            raise ValueError("This translator is compared by inner product: unit norms would change the order.")
        self.metrics, self.in_progress = Metrics(), 0
        self.watch = SourceWatch(translator.endpoints_, settings.side)
        self.upstream = None if settings.upstream is None else Upstream(settings, self.fitted.dims_in)
        self.responses = needs("starlette.responses", "serve", "answer over HTTP")

    def endpoint(self, path: str, handler: Handler) -> Handler:
        """Wrap a method: who may ask, how many at a time, what is counted, and errors as JSON."""

        async def answered(request: Any) -> Any:
            start = time.perf_counter()
            response = await self._guarded(path, handler, request)
            response.headers[SPACE_HEADER] = self.space.id
            self.metrics.add("relatent_requests_total", path=path, status=str(response.status_code))
            self.metrics.observe("relatent_request_seconds", time.perf_counter() - start, path=path)
            return response

        return answered

    async def _guarded(self, path: str, handler: Handler, request: Any) -> Any:
        try:
            self._check_key(path, request)
            if self.in_progress >= self.settings.max_requests:
                raise Refused("overloaded", f"{self.in_progress} requests are in progress: try again later.")
            self.in_progress += 1
            try:
                return await handler(request)
            finally:
                self.in_progress -= 1
        except Refused as refused:
            return self.refusal(refused)
        except needs("starlette.requests", "serve", "answer over HTTP").ClientDisconnect:
            return self.refusal(Refused("slow_client", "The client left."))
        except Exception as error:  # noqa: BLE001 (the process lives on, and says no more than the kind of error)
            log.error("%s failed: %s", path, type(error).__name__)
            return self.refusal(Refused("internal", "The service failed on this request."))

    def refusal(self, refused: Refused) -> Any:
        """Return the answer of a refusal."""
        return self.responses.JSONResponse(refused.to_dict(), refused.status, refused.headers)

    def _check_key(self, path: str, request: Any) -> None:
        key = self.settings.api_key
        if key is None or path in OPEN_PATHS:
            return
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), key.encode()):  # in constant time
            raise Refused("unauthorized", "Send the key as 'Authorization: Bearer …'.", WWW_Authenticate="Bearer")

    async def translate(self, request: Any) -> Any:
        """Translate vectors."""
        raw = await self._body(request)
        header = request.headers.get(EXPECT_HEADER)
        return await self._worked(self._translated, raw, header, size=len(raw))

    def _translated(self, raw: bytes, header: str | None) -> Any:
        given = object_of(raw)
        wanted = self._wanted(given, header)
        rows = rows_of(given.get("vectors"), self.fitted.dims_in, self.settings.max_rows)
        vectors = encoded(self._mapped(rows, wanted), wanted.encoding)
        return self._json({"object": "list", "space": self.about_space, "vectors": vectors})

    async def embeddings(self, request: Any) -> Any:
        """Embed texts by the upstream, and answer in the space of the target."""
        given = object_of(await self._body(request))
        wanted = self._wanted(given, request.headers.get(EXPECT_HEADER))
        if self.upstream is None:
            raise Refused("no_upstream", "No embedder stands behind this service: start it with --upstream.")
        count = texts_of(given.get("input"), self.settings.max_rows)
        start = time.perf_counter()
        rows, usage = await self.upstream.embed(given, count)
        self.metrics.observe("relatent_upstream_seconds", time.perf_counter() - start)
        return await self._worked(self._embedded, rows, wanted, usage, size=rows.nbytes)

    def _embedded(self, rows: np.ndarray, wanted: Wanted, usage: dict[str, Any]) -> Any:
        vectors = encoded(self._mapped(rows, wanted), wanted.encoding)
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        counts = {name: int(usage.get(name) or 0) for name in ("prompt_tokens", "total_tokens")}
        answer = {"object": "list", "data": data, "model": self.space.model, "usage": counts}
        return self._json({**answer, "space": self.about_space})

    async def models(self, _: Any) -> Any:
        """List the one model that answers, in OpenAI's words."""
        model = {"id": self.space.model, "object": "model", "created": 0, "owned_by": "relatent"}
        return self._json({"object": "list", "data": [{**model, "space": self.about_space}]})

    async def health(self, _: Any) -> Any:
        """Say that the process lives, and whether what comes in looks like the space that was fitted."""
        return self._json({"status": "ok", "space": self.space.id, "source": self.watch.match.outcome})

    async def info(self, _: Any) -> Any:
        """Tell the translator, the space of its answers, and the limits."""
        names = ("max_rows", "max_body", "max_requests", "body_timeout", "upstream_timeout", "normalize")
        limits = {name: getattr(self.settings, name) for name in names}
        seen = {"outcome": self.watch.match.outcome, "reason": self.watch.match.reason}
        about = {
            "version": __version__,
            "upstream": self.upstream is not None,
            "settings": limits,
            "source_check": seen,
        }
        return self._json(described(self.translator, self.settings.side) | {"space": self.about_space} | about)

    async def measured(self, _: Any) -> Any:
        """Return counts and times for Prometheus."""
        self.metrics.set("relatent_requests_in_progress", self.in_progress)
        self.metrics.set("relatent_source_mismatch", float(self.watch.match.outcome != "same"))
        return self.responses.PlainTextResponse(self.metrics.text(), media_type="text/plain; version=0.0.4")

    def _wanted(self, given: dict[str, Any], header: str | None) -> Wanted:
        wanted = Wanted.of(given, self.space.dim, header)
        if wanted.space is not None and not self.space.is_called(wanted.space):
            raise Refused(
                "space_mismatch",
                f"Answers are in the space {self.space.id} ({self.space.model}), which is not the one expected.",
            )
        if wanted.dimensions not in (None, self.space.dim) and self.space.metric == "inner":
            raise Refused("bad_input", "Answers for an inner product cannot be shortened: leave out dimensions.")
        return wanted

    def _mapped(self, rows: np.ndarray, wanted: Wanted) -> np.ndarray:
        """Translate rows. Shortened ones get unit norm, as OpenAI's do."""
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused when it is written
            found = self.fitted(rows)
        self.metrics.add("relatent_rows_total", len(rows))
        self.watch.see(rows)
        shorter = wanted.dimensions is not None and wanted.dimensions < self.space.dim
        found = found[:, : wanted.dimensions] if shorter else found
        return np.asarray(unit_norm(found) if shorter or self.settings.normalize else found)

    async def _body(self, request: Any) -> bytes:
        """Read the body, up to the limits of size and time."""
        most = self.settings.max_body
        declared = request.headers.get("content-length", "0")
        raw = bytearray()
        try:
            async with asyncio.timeout(self.settings.body_timeout):
                async for chunk in request.stream():
                    raw += chunk
                    if max(len(raw), int(declared) if declared.isdigit() else 0) > most:
                        raise Refused("body_too_large", f"The body exceeds {most} bytes: send fewer at a time.")
        except TimeoutError as error:
            limit = self.settings.body_timeout
            raise Refused("slow_client", f"The body did not arrive within {limit:g} s.", Connection="close") from error
        return bytes(raw)

    async def _worked(self, work: Callable[..., Any], *given: Any, size: int) -> Any:
        return await asyncio.to_thread(work, *given) if size > LARGE else work(*given)

    def _json(self, content: dict[str, Any]) -> Any:
        return self.responses.Response(json_of(content), media_type="application/json")
