"""The npm package in a browser: the page js/example.html translates the golden vectors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from tests.golden.test_golden import FOLDER, GOLDEN, error
from tests.servers import running

JS = Path(__file__).parents[2] / "js"

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address():
    with running(
        Starlette(routes=[Mount("/golden", StaticFiles(directory=FOLDER)), Mount("/", StaticFiles(directory=JS))])
    ) as address:
        yield address


@pytest.fixture
def shown(open_page, address):
    return open_page(f"{address}/example.html")


def given(shown, path, vectors):
    """Choose a file and translate vectors; return what the page says of both."""
    shown.set_input_files("#file", path)
    shown.wait_for_function("() => about.value")
    shown.fill("#vector", json.dumps(vectors))
    if shown.is_enabled("#translate"):
        shown.click("#translate")
        shown.wait_for_function("() => translated.value")
    return shown.evaluate("about.value"), shown.evaluate("translated.value")


@pytest.mark.parametrize("name", [name for name in GOLDEN if name != "fingerprint"])
def test_the_page_translates(shown, name):
    about, translated = given(shown, FOLDER / f"{name}.safetensors", GOLDEN[name]["source"])
    assert f"compared by {GOLDEN[name]['metric']}" in about
    assert error(json.loads(translated), GOLDEN[name]["translated"]) < 1e-6


def test_a_translator_is_fetched_and_prepares_targets(shown):
    found = shown.evaluate(
        """async (rows) => {
            const { load } = await import('./relatent.js');
            const t = await load('golden/retrieval-bank.safetensors');
            return t.translateTarget(rows).map((row) => [...row]);
        }""",
        GOLDEN["retrieval-bank"]["target"],
    )
    assert error(found, GOLDEN["retrieval-bank"]["prepared"]) < 1e-6


def test_the_page_says_what_is_wrong(shown, severe, tmp_path):
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes((FOLDER / "kernel.safetensors").read_bytes()[:-5])
    about, _ = given(shown, cut, [])
    assert "get a new copy" in about
    _, translated = given(shown, FOLDER / "kernel.safetensors", [1, 2])
    assert "expected 6, as the source has" in translated
    assert severe(shown) == []
