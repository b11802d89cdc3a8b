"""What a service is told when it starts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from threadpoolctl import threadpool_limits

from relatent._errors import needs
from relatent._http import Refused, run_app
from relatent.serve.openapi import description
from relatent.serve.service import Service
from relatent.serve.upstream import Settings
from relatent.translate import Translator


def make_app(translator: Translator, settings: Settings | None = None) -> Any:
    """Return an ASGI application (Starlette) that translates."""
    applications = needs("starlette.applications", "serve", "answer over HTTP")
    routing = needs("starlette.routing", "serve", "answer over HTTP")
    service = Service(translator, settings or Settings())
    described = description(service.fitted.dims_in, service.space.dim, service.settings)

    async def openapi(_: Any) -> Any:
        return service.responses.JSONResponse(described)

    handlers = {
        ("POST", "/v1/translate"): service.translate,
        ("POST", "/v1/embeddings"): service.embeddings,
        ("GET", "/v1/models"): service.models,
        ("GET", "/health"): service.health,
        ("GET", "/info"): service.info,
        ("GET", "/metrics"): service.measured,
        ("GET", "/openapi.json"): openapi,
    }
    routes = [
        routing.Route(path, service.endpoint(path, handler), methods=[method])
        for (method, path), handler in handlers.items()
    ]

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        yield
        if service.upstream is not None:
            await service.upstream.close()

    return applications.Starlette(routes=routes, lifespan=lifespan, exception_handlers=_handlers(service))


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

    Logs hold no texts and no vectors. Each request is computed on one core: the threads of a matrix product wait for
    one another, which costs more than the product where few rows come at a time and the machine is busy.
    """
    app = make_app(translator, settings)
    with threadpool_limits(limits=1, user_api="blas"):
        run_app(app, host=host, port=port, extra="serve", log_level=log_level, access_log=access_log)


def _handlers(service: Service) -> dict[Any, Any]:
    """Say in our words what Starlette refuses by itself."""
    sayings = {404: ("not_found", "There is no such path: see /openapi.json."), 405: ("method_not_allowed", "")}

    async def refused(request: Any, error: Any) -> Any:
        kind, said = sayings[error.status_code]
        response = service.refusal(Refused(kind, said or f"{request.method} is not possible here: see /openapi.json."))
        response.headers.update(error.headers or {})
        return response

    return dict.fromkeys(sayings, refused)
