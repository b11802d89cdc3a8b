"""The service: a translator behind HTTP paths, with limits, counts and errors as JSON."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from relatent import __version__
from relatent._http import Refused, bearer, check_key, run_app
from relatent._linalg import unit_norm
from relatent._terminal import Result, resting
from relatent.exports.formats import described, map_of
from relatent.serve.asgi import Answer, Application, Handler, Request
from relatent.serve.metrics import Metrics, SourceWatch
from relatent.serve.protocol import (
    CONFIDENCE_HEADER,
    EXPECT_HEADER,
    MONITORING_PATHS,
    OPEN_PATHS,
    SPACE_HEADER,
    Settings,
    Wanted,
    description,
    encoded,
    json_of,
    object_of,
    rows_of,
    texts_of,
)
from relatent.serve.upstream import Upstream
from relatent.spaces.fingerprint import one_model
from relatent.translate import Translator
from relatent.translate.endpoints import Side

# Requests of more bytes are processed in a thread, so that small ones do not wait for them: this many take some
# milliseconds.
LARGE = 2**19
KEY_MISSING = "Send the key as 'Authorization: Bearer …'."
log = logging.getLogger("relatent.serve")
T = TypeVar("T")


def make_app(translator: Translator, settings: Settings | None = None) -> Application:
    """Return the service as an ASGI application."""
    service = Service(translator, settings or Settings())
    handlers = {
        ("POST", "/v1/translate"): service.translate,
        ("POST", "/v1/embeddings"): service.embeddings,
        ("GET", "/v1/models"): service.models,
        ("GET", "/health"): service.health,
        ("GET", "/info"): service.info,
        ("GET", "/metrics"): service.measured,
        ("GET", "/openapi.json"): service.openapi,
    }
    return Application({route: service.endpoint(route[1], one) for route, one in handlers.items()}, service.close)


def run(
    translator: Translator,
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    log_level: str = "info",
    access_log: bool = False,
) -> None:
    """Serve until the process is told to stop; requests in progress are answered first.

    Logs hold no texts and no vectors. Each request is computed on one core: with few rows per request, synchronizing
    the threads of a matrix product costs more than the product.
    """
    app = make_app(translator, settings)
    with threadpool_limits(limits=1, user_api="blas"), resting("serving"):
        run_app(app, host=host, port=port, extra="serve", log_level=log_level, access_log=access_log)


@dataclass(frozen=True)
class ServedSpace(Result):
    """The space of the answers. A shared space that queries and documents are mapped into has an id of its own."""

    id: str
    model: str
    dim: int
    metric: str
    translated_from: str

    @staticmethod
    def of(translator: Translator, side: Side, model: str | None = None) -> ServedSpace:
        """Describe the output of one side of a translator."""
        ends, fitted = translator.endpoints_, map_of(translator, side)
        two_sided = translator.target_map_ is not None
        name = model or ends.target.model or ends.target_name or "translated"
        given, given_name = (ends.source, ends.source_name) if side == "source" else (ends.target, ends.target_name)
        found = hashlib.sha256(translator.matrix_.tobytes()).hexdigest()[:16] if two_sided else ends.target.id
        return ServedSpace(found, name, fitted.width, translator.metric_, given.model or given_name or "unnamed")

    def is_called(self, expected: str) -> bool:
        """Return whether a client names this space: by its id, or by its model."""
        return expected == self.id or one_model(expected, self.model)


class Service:
    """A translator, its settings, and one method per path."""

    def __init__(self, translator: Translator, settings: Settings) -> None:
        self.fitted = map_of(translator, settings.side)
        self.translator, self.settings = translator, settings
        self.space = ServedSpace.of(translator, settings.side, settings.model)
        self.about_space = self.space.to_dict()
        if settings.normalize and self.space.metric == "inner":
            raise ValueError("This translator ranks by inner product: unit norms would change the order.")
        self.metrics, self.in_progress = Metrics(), 0
        self.watch = SourceWatch(translator.endpoints_, settings.side)
        self.upstream = Upstream.of_source(settings, self.fitted.dims_in)
        self.exact = Upstream.of_target(settings, self.space.dim)
        self.trusted = settings.side == "source" and translator.confidence_ is not None
        if self.exact is not None:
            self._check_exact()

    def _check_exact(self) -> None:
        if not self.trusted:
            raise ValueError(
                "This translator has no confidence: calibrate it before it is saved, and serve its source."
            )
        if self.space.metric == "inner":
            raise ValueError(
                "This translator maps queries and documents into a shared space, where vectors of the target's model "
                "cannot take the place of translated ones: leave out the minimal confidence."
            )

    def endpoint(self, path: str, handler: Handler) -> Handler:
        """Wrap a method: the key, the limit of requests, metrics, and errors as JSON."""

        async def answered(request: Request) -> Answer:
            start = time.perf_counter()
            answer = await self._guarded(path, handler, request)
            answer.headers[SPACE_HEADER] = self.space.id
            self.metrics.add("relatent_requests_total", path=path, status=str(answer.status))
            self.metrics.observe("relatent_request_seconds", time.perf_counter() - start, path=path)
            return answer

        return answered

    async def _guarded(self, path: str, handler: Handler, request: Request) -> Answer:
        try:
            if self.settings.api_key is not None and path not in OPEN_PATHS:
                check_key(bearer(request), self.settings.api_key, KEY_MISSING, WWW_Authenticate="Bearer")
            if self.in_progress >= self.settings.max_requests and path not in MONITORING_PATHS:
                raise Refused("overloaded", f"{self.in_progress} requests are in progress: try again later.")
            self.in_progress += 1
            try:
                return await handler(request)
            finally:
                self.in_progress -= 1
        except Refused as refused:
            return Answer.of(refused)
        except Exception as error:  # noqa: BLE001 (the process stays up, and reports the type of the error only)
            log.error("%s failed: %s", path, type(error).__name__)
            return Answer.of(Refused("internal", "The service failed on this request."))

    async def translate(self, request: Request) -> Answer:
        """Translate vectors."""
        raw = await self._body(request)
        header = request.headers.get(EXPECT_HEADER.lower())
        return await self._worked(self._translated, raw, header, size=len(raw))

    def _translated(self, raw: bytes, header: str | None) -> Answer:
        given = object_of(raw)
        wanted = self._wanted(given, header)
        rows = rows_of(given.get("vectors"), self.fitted.dims_in, self.settings.max_rows)
        vectors = encoded(self._finished(self._mapped(rows), wanted), wanted.encoding)
        return self._answer({"object": "list", "space": self.about_space, "vectors": vectors}, self._confidence(rows))

    async def embeddings(self, request: Request) -> Answer:
        """Embed texts by the upstream, and answer with vectors of the target's space."""
        given = object_of(await self._body(request))
        wanted = self._wanted(given, request.headers.get(EXPECT_HEADER.lower()))
        if self.upstream is None:
            raise Refused("no_upstream", "This service has no upstream embedder: only /v1/translate is available.")
        count = texts_of(given.get("input"), self.settings.max_rows)
        start = time.perf_counter()
        rows, usage = await self.upstream.embed(given, count)
        self.metrics.observe("relatent_upstream_seconds", time.perf_counter() - start)
        confidence = await self._worked(self._confidence, rows, size=rows.nbytes)
        exact, more = await self._exact(given, confidence)
        usage = {name: tokens + more.get(name, 0) for name, tokens in usage.items()}
        return await self._worked(self._embedded, rows, confidence, exact, wanted, usage, size=rows.nbytes)

    async def _exact(
        self, given: dict[str, Any], confidence: np.ndarray | None
    ) -> tuple[dict[int, np.ndarray], dict[str, int]]:
        """Embed the texts of low confidence by the target's own model; tokens are of the source's and stay."""
        texts = [given["input"]] if isinstance(given["input"], str) else given["input"]
        if self.exact is None or confidence is None or not all(isinstance(text, str) for text in texts):
            return {}, {}
        low = [int(i) for i in np.flatnonzero(confidence < (self.settings.min_confidence or 0))]
        if not low:
            return {}, {}
        rows, usage = await self.exact.embed({**given, "input": [texts[i] for i in low]}, len(low))
        self.metrics.add("relatent_exact_rows_total", len(low))
        return dict(zip(low, rows, strict=True)), usage

    def _embedded(
        self,
        rows: np.ndarray,
        confidence: np.ndarray | None,
        exact: dict[int, np.ndarray],
        wanted: Wanted,
        usage: dict[str, int],
    ) -> Answer:
        mapped = self._mapped(rows)
        for i, row in exact.items():
            mapped[i] = row
        if confidence is not None:
            confidence[list(exact)] = 1.0
        vectors = encoded(self._finished(mapped, wanted), wanted.encoding)
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
        answer = {"object": "list", "data": data, "model": self.space.model, "usage": usage}
        return self._answer({**answer, "space": self.about_space}, confidence)

    async def models(self, _: Request) -> Answer:
        """List the one model that answers, OpenAI-compatible."""
        model = {"id": self.space.model, "object": "model", "created": 0, "owned_by": "relatent"}
        return Answer(json_of({"object": "list", "data": [{**model, "space": self.about_space}]}))

    async def health(self, _: Request) -> Answer:
        """Return that the process is up, and whether incoming vectors look like the fitted space."""
        return Answer(json_of({"status": "ok", "space": self.space.id, "source": self.watch.match.outcome}))

    async def info(self, _: Request) -> Answer:
        """Describe the translator, the space of the answers, and the limits."""
        names = ("max_rows", "max_body", "max_requests", "body_timeout", "upstream_timeout", "normalize")
        limits = {name: getattr(self.settings, name) for name in names}
        seen = {"outcome": self.watch.match.outcome, "reason": self.watch.match.reason}
        about = {"version": __version__, "upstream": self.upstream is not None, "settings": limits}
        known = described(self.translator, self.settings.side) | {"space": self.about_space}
        return Answer(json_of(known | about | {"source_check": seen}))

    async def openapi(self, _: Request) -> Answer:
        """Return the description of all paths."""
        return Answer(json_of(description(self.fitted.dims_in, self.space.dim, self.settings)))

    async def measured(self, _: Request) -> Answer:
        """Return counts and times for Prometheus."""
        self.metrics.set("relatent_requests_in_progress", self.in_progress)
        self.metrics.set("relatent_source_mismatch", float(self.watch.match.outcome != "same"))
        return Answer(self.metrics.text().encode(), media_type="text/plain; version=0.0.4; charset=utf-8")

    def _wanted(self, given: dict[str, Any], header: str | None) -> Wanted:
        wanted = Wanted.of(given, self.space.dim, header)
        if wanted.space is not None and not self.space.is_called(wanted.space):
            raise Refused(
                "space_mismatch",
                f"Answers are in the space {self.space.id} ({self.space.model}), which is not the one expected.",
            )
        if wanted.dimensions not in (None, self.space.dim) and self.space.metric == "inner":
            raise Refused("bad_input", "Vectors ranked by inner product cannot be shortened: leave out dimensions.")
        return wanted

    def _mapped(self, rows: np.ndarray) -> np.ndarray:
        """Translate rows."""
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is refused when the answer is encoded
            found = np.asarray(self.fitted(rows))
        self.metrics.add("relatent_rows_total", len(rows))
        self.watch.see(rows)
        return found

    def _finished(self, found: np.ndarray, wanted: Wanted) -> np.ndarray:
        """Shorten and scale as wanted. Shortened ones are scaled to unit norm, as OpenAI does."""
        shorter = wanted.dimensions is not None and wanted.dimensions < self.space.dim
        found = found[:, : wanted.dimensions] if shorter else found
        return np.asarray(unit_norm(found) if shorter or self.settings.normalize else found)

    def _confidence(self, rows: np.ndarray) -> np.ndarray | None:
        """Return the confidence in each row's translation, if the translator was calibrated."""
        if not self.trusted:
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            return self.translator.confidence(rows, items=self.settings.items)

    async def _body(self, request: Request) -> bytes:
        return await request.body(self.settings.max_body, self.settings.body_timeout)

    async def _worked(self, work: Callable[..., T], *given: Any, size: int) -> T:
        return await asyncio.to_thread(work, *given) if size > LARGE else work(*given)

    def _answer(self, content: dict[str, Any], confidence: np.ndarray | None) -> Answer:
        lowest = {} if confidence is None else {CONFIDENCE_HEADER: f"{np.nan_to_num(np.min(confidence)):.3f}"}
        return Answer(json_of(content), headers=lowest)

    async def close(self) -> None:
        """Close the connections to embedders."""
        for upstream in (self.upstream, self.exact):
            if upstream is not None:
                await upstream.close()
