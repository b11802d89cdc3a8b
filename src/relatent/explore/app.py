"""The page of the explorer, one HTML file built from ``web/``: served on this machine, or written with its data."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from relatent._errors import needs
from relatent._files import FileError, atomic_write
from relatent._http import Refused, bearer, check_key, run_app
from relatent._terminal import resting
from relatent.explore.exploration import Exploration

BUNDLE = Path(__file__).parent / "static" / "explorer.html"
# The place for data in the built page; see web/src/index.html.
MARK = '<script type="application/json" id="data"></script>'
HOST = "127.0.0.1"
HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}
# The policy of the built page, which names the one script that may run by its hash. As a header it also holds for
# frames, which a policy within the page cannot forbid. Answers that are no page may do nothing.
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">')
NOTHING, NO_FRAMES = "default-src 'none'", "frame-ancestors 'none'"
PURPOSE = "show spaces in the browser"
TOKEN_MISSING = "Open the whole address printed by relatent explore, with its token."


def page() -> str:
    """Return the built page, which asks a server for its data."""
    if not BUNDLE.exists():
        raise FileError(
            "The page of the explorer is not built: run `make explore` in the repository, which needs Node.js and npm, "
            "or install a released wheel, which contains it."
        )
    return BUNDLE.read_text(encoding="utf8")


def page_with_data(data: dict[str, Any]) -> str:
    """Return the page with its data, which needs no server."""
    # "<" ends a script early in HTML and is the same character as \u003c in JSON.
    content = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return page().replace(MARK, MARK.replace("></", f">{content}</"))


def write_page(
    exploration: Exploration, path: str | os.PathLike[str], *, k: int | None = None, overwrite: bool = False
) -> None:
    """Write the page with its data into one HTML file that needs no server. It contains keys, labels and positions.

    ``k`` is the number of anchors to fit on, by default what the page starts with.
    """
    text = page_with_data(exploration.everything(exploration.start_k if k is None else k))
    with atomic_write(path, overwrite=overwrite) as tmp:
        tmp.write_text(text, encoding="utf8")


def make_app(exploration: Exploration, token: str) -> Any:
    """Return an ASGI application (Starlette) that answers only requests with the token."""
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
                check_key(bearer(request) or request.query_params.get("token", ""), token, TOKEN_MISSING)
                response = handler(request.query_params)
            except (Refused, ValueError) as error:
                refused = error if isinstance(error, Refused) else Refused("bad_input", str(error))
                response = json(refused.content, refused.status, refused.headers)
            response.headers.update(HEADERS | {"Content-Security-Policy": _policy(response)})
            return response

        return answered

    return applications.Starlette(routes=[routing.Route(path, endpoint(h)) for path, h in handlers.items()])


def run(exploration: Exploration, *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Serve the page on this machine until the process is told to stop; ``ready`` is called with its address.

    The address contains a token that is new for every run: whoever knows it sees the keys and labels.
    """
    page()  # a page that is not built fails here, not in the browser
    token = secrets.token_urlsafe(32)
    with resting("serving"):
        run_app(
            make_app(exploration, token),
            host=HOST,
            port=port,
            extra="explore",
            log_level="error",
            grace=2,
            ready=lambda address: ready(f"{address}/?token={token}"),
        )


def _policy(response: Any) -> str:
    """Return the policy of an answer: that of the page it holds."""
    found = POLICY.search(response.body.decode()) if response.media_type == "text/html" else None
    return f"{NOTHING if found is None else found[1]}; {NO_FRAMES}"


def _number(query: Any, name: str) -> int:
    text = query.get(name, "")
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{name} is {text!r}: expected an integer.")
    return int(text)
