"""The report in a browser: it opens without an error or a request, light and dark, and passes axe."""

from __future__ import annotations

import numpy as np
import pytest

import relatent as rl
from relatent.decide import Relevance
from relatent.report import make_report, write_report
from relatent.spaces import held_out, key_hashes

pytestmark = pytest.mark.browser

HOSTILE = "<script>document.title = 'taken over'</script><img src=x onerror='document.title = 1'>"
LONG = "new-model-with-a-name-that-is-much-too-long-for-a-legend"
ROWS = 900


@pytest.fixture(scope="session")
def report(tmp_path_factory):
    """A report with every section: judged pairs, slices, three spaces, texts, and names that attack the page."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 16)) * np.linspace(2, 0.4, 16) + rng.normal(size=(ROWS // 3, 16)).repeat(3, axis=0)
    y = x @ np.linalg.qr(rng.normal(size=(24, 24)))[0][:16] + 0.4 * rng.normal(size=(ROWS, 24))
    keys = [f"{HOSTILE}{i}" if i % 3 == 0 else f"doc-{i}" for i in range(ROWS)]
    others = {"language": [("en", "de", HOSTILE)[i % 3] for i in range(ROWS)], "text": ["a word or two"] * ROWS}
    spaces = [
        rl.Space(vectors.astype(np.float32), keys, name, others=others)
        for vectors, name in (
            (x, "old-model"),
            (y, LONG),
            (np.tanh(x), f"third {HOSTILE}"),
        )
    ]
    unseen = np.flatnonzero(held_out(key_hashes(keys), 0.2))
    near = rl.evaluate.nearest(y[unseen], y[unseen], 1, exclude_self=True).indices[:, 0]
    relevant = Relevance([keys[i] for i in unseen], [keys[unseen[j]] for j in near])
    found = make_report(
        rl.Translator(), *spaces, slices="language", texts="text", relevant=relevant, command="relatent report …"
    )
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(found, path)
    return path.as_uri()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_opens_without_error_or_request_and_everyone_can_read_it(open_page, severe, report, dark):
    page = open_page(report, dark=dark)
    assert page.locator("h1").inner_text().startswith("old-model → new-model-with")
    assert page.locator("main > section").count() == 11
    for summary in page.locator("summary").all():  # closed elements are checked too
        summary.click()
    assert severe(page) == []


def brightness(page, element):
    """Return the mean of the three bytes of an element's background."""
    color = page.locator(element).evaluate("e => getComputedStyle(e).backgroundColor")
    return np.mean([int(c) for c in color.removeprefix("rgb(").removesuffix(")").split(",")])


def test_it_follows_the_color_scheme(open_page, report):
    light, dark = open_page(report), open_page(report, dark=True)
    assert brightness(light, "body") > 230
    assert brightness(dark, "body") < 40


def test_hostile_names_are_text(open_page, report):
    page = open_page(report)
    assert page.title().startswith("old-model → new-model")
    assert page.locator("script, img").count() == 0
    assert page.get_by_text(HOSTILE).count() > 0


def test_it_needs_no_script(open_page, report):
    page = open_page(report, java_script_enabled=False)
    assert "When this will not help" in page.content()
    assert page.locator("svg").first.bounding_box()["height"] > 100


@pytest.mark.parametrize("width", [360, 1100])
def test_it_fits_its_window_and_all_charts_are_drawn(open_page, report, width):
    page = open_page(report, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [svg.bounding_box() for svg in page.locator("svg").all()]
    assert len(boxes) >= 6
    assert all(box["width"] > 200 and box["height"] > 100 for box in boxes)


def test_text_in_charts_does_not_leave_them(open_page, report):
    page = open_page(report)
    outside = page.evaluate(
        """() => [...document.querySelectorAll('svg')].flatMap(svg => {
            const box = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter(text => {
                const t = text.getBoundingClientRect();
                return t.left < box.left - 1 || t.right > box.right + 1 || t.bottom > box.bottom + 1;
            }).map(text => text.textContent);
        })"""
    )
    assert outside == []


def test_the_keyboard_reaches_links_charts_and_numbers(open_page, report):
    page = open_page(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#options"
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == "#options"
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count() == 1


def test_it_prints_on_light_paper(open_page, report):
    page = open_page(report, dark=True)
    page.emulate_media(media="print", color_scheme="dark")
    assert brightness(page, "body") == 255
    assert not page.locator("nav").is_visible()
    pdf = page.pdf(format="A4")
    assert 3 <= pdf.count(b"/Type /Page\n") <= 15
