"""The server of the page: loopback only, and for whoever knows the token."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from typing import Any

from relatent._extras import needs
from relatent.explore.exploration import Exploration
from relatent.explore.page import page, page_with_data
from relatent.serve.errors import Refused
from relatent.serve.process import run_app

__all__ = ["make_app", "run"]

HOST = "127.0.0.1"
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}
PURPOSE = "show spaces in the browser"


def make_app(exploration: Exploration, token: str) -> Any:
    """Return an ASGI application (Starlette) that answers requests with the token, and no others."""
    applications, routing = (needs(f"starlette.{name}", "explore", PURPOSE) for name in ("applications", "routing"))
    responses = needs("starlette.responses", "explore", PURPOSE)
    html, json = responses.HTMLResponse, responses.JSONResponse
    handlers: dict[str, Callable[[Any], Any]] = {
        "/": lambda _: html(page()),
        "/about": lambda _: json(exploration.about()),
        "/view": lambda query: json(exploration.view(query.get("layout", "own"), _number(query, "k"))),
        "/neighbors": lambda query: json(exploration.neighbors(_number(query, "row"), _number(query, "k"))),
        "/export": lambda query: html(page_with_data(exploration.everything(_number(query, "k")))),
    }

    def endpoint(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def answered(request: Any) -> Any:  # not async: Starlette runs it in a thread
            try:
                _check_token(request, token)
                response = handler(request.query_params)
            except Refused as refused:
                response = json(refused.to_dict(), refused.status, refused.headers)
            except ValueError as error:
                response = json({"error": str(error)}, 422)
            response.headers.update(HEADERS)
            return response

        return answered

    return applications.Starlette(routes=[routing.Route(path, endpoint(h)) for path, h in handlers.items()])


def run(exploration: Exploration, *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Serve the page on this machine until the process is told to stop; ``ready`` is told its address.

    Whoever knows the address sees the keys and labels: it holds a token that is drawn anew for every run.
    """
    page()  # a page that was not built is missed now, not in the browser
    token = secrets.token_urlsafe(32)
    run_app(
        make_app(exploration, token),
        host=HOST,
        port=port,
        extra="explore",
        log_level="error",
        grace=2,
        ready=lambda address: ready(f"{address}/?token={token}"),
    )


def _check_token(request: Any, token: str) -> None:
    given = request.headers.get("authorization", "").removeprefix("Bearer ") or request.query_params.get("token", "")
    if not hmac.compare_digest(given.encode(), token.encode()):  # in constant time
        raise Refused("unauthorized", "Open the whole address that relatent explore printed, with its token.")


def _number(query: Any, name: str) -> int:
    text = query.get(name, "")
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{name} is {text!r}: expected a whole number.")
    return int(text)
