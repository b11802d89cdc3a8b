"""A real browser: the system's chromium, driven by Playwright's library, which downloads nothing.

A test asks for ``open_page``. It fails at its end if a page wrote an error to the console, or asked for anything
beyond a file or this machine.
"""

from __future__ import annotations

import os
import shutil
from urllib.parse import urlsplit

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LOCAL_SCHEMES = ("file", "data", "blob", "about")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
# A machine without a graphics card draws WebGL in software, which chromium wants to be asked for.
ARGUMENTS = ["--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]
SEVERE = ("serious", "critical")


@pytest.fixture(scope="session")
def browser():
    """A chromium without a window; skips the test, and says why, where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: run `make test-browser`.")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"There is no browser ({', '.join(NAMES)}): install chromium, such as by apt-get install chromium.")
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # the sandbox does not start for root
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=path, args=[*ARGUMENTS, *root])
        yield opened
        opened.close()


@pytest.fixture
def problems():
    """What went wrong on the pages of a test, in words; it has to be empty when the test ends."""
    found = []
    yield found
    assert not found, "\n".join(found)


@pytest.fixture
def open_page(browser, problems):
    """Open a URL in a page of its own, light or dark; further arguments are those of Playwright's new_context."""
    contexts = []

    def call(url, *, dark=False, **options):
        context = browser.new_context(color_scheme="dark" if dark else "light", **options)
        contexts.append(context)
        context.on("request", lambda request: _check_local(request.url, problems))
        context.route(lambda url: not _is_local(url), lambda route: route.abort())
        page = context.new_page()
        page.on("websocket", lambda socket: _check_local(socket.url, problems))
        page.on("pageerror", lambda error: problems.append(f"an error was thrown: {error}"))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(url)
        return page

    yield call
    for context in contexts:
        context.close()


@pytest.fixture
def severe():
    """Return what axe finds on a page that is serious or critical for people who cannot see or use a mouse."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is missing: `make test-browser`.")

    def call(page):
        found = axe.Axe().run(page).response["violations"]
        return [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found
            if one["impact"] in SEVERE
            for node in one["nodes"]
        ]

    return call


def _check_local(url, problems):
    if not _is_local(url):
        problems.append(f"the page asked for {url}, which is not on this machine")


def _is_local(url):
    parts = urlsplit(url)
    return parts.scheme in LOCAL_SCHEMES or parts.hostname in LOOPBACK
