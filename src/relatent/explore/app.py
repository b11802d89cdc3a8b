"""The page: one HTML file that is built from ``web/``, served as it is, or written with its data inside."""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relatent._errors import needs
from relatent._files import FileError, atomic_write
from relatent._http import Refused, run_app
from relatent.explore.exploration import Exploration

BUNDLE = Path(__file__).parent / "static" / "explorer.html"
# Where the built page has room for data; see web/src/index.html.
MARK = '<script type="application/json" id="data"></script>'


def page() -> str:
    """Return the page as it was built; it asks a server for its data."""
    if not BUNDLE.exists():
        raise FileError(
            "The page of the explorer was not built: run `make explore` in the repository, which needs Node.js and "
            "npm, or install a released wheel, which holds it."
        )
    return BUNDLE.read_text(encoding="utf8")


def page_with_data(data: dict[str, Any]) -> str:
    """Return the page with its data inside, which needs no server."""
    # "<" ends a script early in HTML and is the same character as \u003c in JSON.
    content = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return page().replace(MARK, MARK.replace("></", f">{content}</"))


def write_page(
    exploration: Exploration, path: str | os.PathLike[str], *, k: int | None = None, overwrite: bool = False
) -> None:
    """Write one HTML file with data and program, to be opened without a server. It holds keys, labels and positions.

    ``k`` is the number of anchors to fit on, by default what the page begins with.
    """
    text = page_with_data(exploration.everything(exploration.start_k if k is None else k))
    with atomic_write(path, overwrite=overwrite) as aside:
        aside.write_text(text, encoding="utf8")


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
