"""That the fixture itself notices what it is there to notice."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture
def shown(open_page, tmp_path):
    def call(body):
        path = tmp_path / "page.html"
        path.write_text(f"<!doctype html><html lang=en><title>A page</title><main>{body}</main>", "utf8")
        return open_page(path.as_uri())

    return call


def test_a_quiet_page_is_let_through(shown, severe):
    assert severe(shown("<h1>Nothing to see</h1>")) == []


def test_axe_names_text_that_is_too_pale(shown, severe):
    found = severe(shown("<p style='color: #bbb; background: #fff'>Can you read this?</p>"))
    assert any(line.startswith("color-contrast") for line in found)


@pytest.mark.parametrize(
    "body",
    [
        "<script>console.error('out of order')</script>",
        "<script>throw new Error('broken')</script>",
        "<img alt='' src='http://192.0.2.1/picture.png'>",
    ],
)
def test_errors_and_requests_are_noticed(shown, problems, body):
    shown(body).wait_for_timeout(100)
    assert problems
    problems.clear()  # they were wanted here
