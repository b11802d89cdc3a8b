"""The page of `relatent explore` in a real browser."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from tests.explore.conftest import make_spaces
from tests.servers import running

from relatent.explore import Exploration, make_app, write_page
from relatent.explore import app as page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not page.BUNDLE.exists(), reason="The page was not built: run `make explore`."),
]

TOKEN = "s3cret"
WINDOW = {"viewport": {"width": 1400, "height": 900}}
READY = "html[data-ready]"


@pytest.fixture(scope="module")
def exploration():
    old, _, new = make_spaces()
    return Exploration.of([old, new])


@pytest.fixture(scope="module")
def address(exploration):
    with running(make_app(exploration, TOKEN)) as address:
        yield address


@pytest.fixture
def opened(open_page, address):
    """Open the page; without animation by default."""

    def call(reduced_motion="reduce", **options):
        found = open_page(f"{address}/?token={TOKEN}", reduced_motion=reduced_motion, **WINDOW, **options)
        found.wait_for_selector(READY)
        return found

    return call


def test_the_page_runs_its_own_script_only_and_in_no_frame(opened, open_page, address, problems):
    """What a key or a label could inject does not run, nor does a page that frames it see anything."""
    shown = opened()
    shown.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))")
    shown.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')")
    shown.evaluate("fetch('http://127.0.0.2:9/').catch(() => (window.asked = 1))")
    shown.wait_for_function("() => window.asked")
    assert shown.evaluate("window.ran") is None
    frame = HTMLResponse(f'<iframe src="{address}/?token={TOKEN}"></iframe>')
    with running(Starlette(routes=[Route("/", lambda _: frame)])) as other:
        framing = open_page(f"{other}/")
        framing.wait_for_timeout(500)
        assert framing.frames[1].url.startswith("chrome-error:")
    assert len(problems) >= 3
    assert all("Content Security Policy" in text or "violates" in text for text in problems), problems
    problems.clear()


def state(shown, name):
    return shown.evaluate(f"explorer.store.state.{name}")


def wait(shown, condition):
    shown.wait_for_function(f"() => {condition}")


def positions(shown, panel):
    """Where the items of a panel are on the window, (n, 2)."""
    found = shown.evaluate(
        """i => {
            const panel = explorer.panels[i], box = panel.canvas.getBoundingClientRect();
            return explorer.about.keys.map((_, item) => {
                const [x, y] = panel.scatter.getScreenPosition(item + panel.first);
                return [box.left + x, box.top + y];
            });
        }""",
        panel,
    )
    return np.asarray(found)


def marked(shown, panel, item):
    """How many pixels are drawn above the points within a few pixels of an item."""
    return shown.evaluate(
        """([i, item]) => {
            const panel = explorer.panels[i];
            const [x, y] = panel.scatter.getScreenPosition(item + panel.first);
            const drawn = panel.above.getContext("2d").getImageData(x - 12, y - 12, 24, 24).data;
            return drawn.filter((value, at) => at % 4 === 3 && value > 0).length;
        }""",
        [panel, item],
    )


def apart(points):
    """Return the item that is farthest from all others, which a mouse cannot miss."""
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    return int(np.argmax(distances.min(axis=1)))


def test_texts_describe_the_view(opened):
    shown = opened()
    assert "placed by two models: old and new" in shown.inner_text("#lead")
    assert shown.locator("figure").count() == 2
    assert "All 120 items" in shown.inner_text("#notes")
    assert "Neighbors shared with new" in shown.inner_text("figure >> nth=0")
    assert shown.locator("#legend button").all_inner_texts()[0].split() == ["c0", "40"]


def test_hovering_an_item_marks_it_in_every_panel(opened):
    shown = opened()
    shown.uncheck("#show-anchors")
    places = positions(shown, 0)
    item = apart(places)
    assert [marked(shown, panel, item) for panel in (0, 1)] == [0, 0]
    shown.mouse.move(*places[item])
    wait(shown, f"explorer.store.state.hovered === {item}")
    assert all(marked(shown, panel, item) > 20 for panel in (0, 1))
    shown.mouse.move(5, 5)
    wait(shown, "explorer.store.state.hovered === null")
    assert [marked(shown, panel, item) for panel in (0, 1)] == [0, 0]


@pytest.mark.parametrize("behind", [False, True])
def test_a_lasso_selects_the_same_items_in_every_panel(opened, behind):
    shown = opened()
    shown.set_checked("#show-target", behind)
    shown.check("#lasso")
    places = positions(shown, 0)
    left, top = np.quantile(places, 0.2, axis=0)
    right, bottom = np.quantile(places, 0.7, axis=0)
    inside = np.flatnonzero(np.all((places > [left, top]) & (places < [right, bottom]), axis=1))
    shown.mouse.move(left, top)
    shown.mouse.down()
    for corner in ((right, top), (right, bottom), (left, bottom), (left, top + 2)):
        shown.mouse.move(*corner, steps=4)
    shown.mouse.up()
    wait(shown, "explorer.store.state.selection !== null")
    selection = set(state(shown, "selection"))
    # Points on the very line may be on either side of it.
    assert len(selection.symmetric_difference(inside.tolist())) <= 2
    for panel in (0, 1):
        chosen = shown.evaluate("i => Array.from(explorer.panels[i].scatter.get('selectedPoints'))", panel)
        first = shown.evaluate("i => explorer.panels[i].first", panel)
        assert {point - first for point in chosen} == selection
    assert f"{len(selection)} items selected" in shown.inner_text("#details")


def test_the_slider_takes_points_to_where_the_target_has_them(opened):
    shown = opened()
    target, before = positions(shown, 1), positions(shown, 0)
    box = [shown.locator(".plot").nth(i).bounding_box() for i in (0, 1)]
    shift = np.asarray([box[1]["x"] - box[0]["x"], 0])
    assert np.linalg.norm(before + shift - target, axis=1).max() > 50
    shown.focus("#slider")
    shown.keyboard.press("End")
    wait(shown, "explorer.store.state.t === 1 && !explorer.panels[0].drawing")
    np.testing.assert_allclose(positions(shown, 0) + shift, target, atol=5)  # pixels
    np.testing.assert_allclose(positions(shown, 1), target, atol=0.01)
    assert "Translated: the items of old at their positions in new" in shown.inner_text("#caption")


def test_on_the_way_points_turn_rather_than_shrink(opened):
    """Halfway along straight lines a half turn would bring every point to the middle."""
    shown = opened()
    start = np.asarray([[1, 0], [0, 2], [-1, 0], [0, -2], [0.5, 1]], dtype=np.float32)
    end = np.ravel(-start).tolist()
    halfway = shown.evaluate(
        """([start, end]) => {
            const panel = explorer.panels[0];
            panel.place({ start: Float32Array.from(start), end: Float32Array.from(end) });
            return Array.from(panel.positions(0.5));
        }""",
        [start.ravel().tolist(), end],
    )
    norms = np.linalg.norm(np.reshape(halfway, (-1, 2)), axis=1)
    np.testing.assert_allclose(norms, np.linalg.norm(start, axis=1), rtol=1e-5)


def test_it_plays_once_unless_people_asked_for_less_motion(opened):
    moving = opened(reduced_motion="no-preference")
    wait(moving, "explorer.store.state.t > 0.05 && explorer.store.state.t < 0.95")
    wait(moving, "explorer.store.state.t === 1")
    still = opened()
    assert state(still, "t") == 0
    still.click("#play")
    wait(still, "explorer.store.state.t === 1")


def test_search_finds_a_key_and_neighbors_follow_the_item(opened, exploration):
    shown = opened()
    for wanted in ("item 17", "item 99"):
        shown.fill("#search", wanted)
        shown.press("#search", "Enter")
        row = exploration.scene.keys.index(wanted)
        wait(shown, f"explorer.store.state.item === {row} && explorer.store.state.neighbors")
        assert shown.inner_text("#details strong") == wanted
        expected = exploration.neighbors(row, exploration.start_k)
        lines = shown.locator("#details dd").all()
        for line, name in zip(lines, ("before 0", "after 0", "target"), strict=True):
            keys = [text.removeprefix("✓ ") for text in line.locator("button").all_inner_texts()]
            assert keys == [exploration.scene.keys[one] for one in expected[name]]
    shown.fill("#search", "nothing like it")
    assert shown.inner_text("#search-says") == "no such key"


def test_fewer_anchors_are_refitted_and_change_neighbors(opened, exploration):
    shown = opened()
    shown.fill("#search", "item 17")
    shown.press("#search", "Enter")
    wait(shown, "explorer.store.state.neighbors")
    before, scores = state(shown, "neighbors"), shown.inner_text(".scores >> nth=0")
    shown.focus("#k")
    shown.keyboard.press("Home")
    wait(shown, "explorer.store.state.view.k === 5 && explorer.store.state.k === 5")
    assert len(state(shown, "view.anchors")) == 5
    assert shown.inner_text("#k-says") == "5 of 60"
    wait(shown, f"document.querySelector('.scores').innerText !== {scores!r}")
    row = exploration.scene.keys.index("item 17")
    expected = exploration.neighbors(row, 5)
    assert expected["after 0"] != before["after 0"]
    wait(
        shown,
        f"JSON.stringify(explorer.store.state.neighbors['after 0']) === '{expected['after 0']}'.replaceAll(' ', '')",
    )


def test_colors_by_label_and_by_error(opened):
    shown = opened()
    shown.select_option("#color", "error")
    wait(shown, "document.querySelector('.ramp')")
    assert "1 − cosine" in shown.inner_text("#legend")
    shown.select_option("#color", "label")
    shown.click("#legend button >> nth=0")
    assert len(state(shown, "selection")) == 40


@pytest.mark.parametrize("layout", ["shared", "relative"])
def test_other_layouts_bring_the_panels_together_too(opened, layout):
    shown = opened()
    shown.select_option("#layout", layout)
    wait(shown, f"explorer.store.state.view.layout === '{layout}'")
    shown.focus("#slider")
    shown.keyboard.press("End")
    wait(shown, "explorer.store.state.t === 1 && !explorer.panels.some(panel => panel.drawing)")
    ends = [shown.evaluate("i => Array.from(explorer.panels[i].shown)", panel) for panel in (0, 1)]
    np.testing.assert_allclose(*ends, atol=0.03)


def test_it_is_used_by_keyboard_alone(opened):
    shown = opened()
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.id") == "search"
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.className") == "plot"
    outline = shown.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    places = positions(shown, 0)
    shown.keyboard.press("ArrowRight")
    first = state(shown, "hovered")
    shown.keyboard.press("ArrowRight")
    second = state(shown, "hovered")
    assert places[second][0] > places[first][0]
    shown.keyboard.press("Enter")
    assert state(shown, "item") == second
    shown.keyboard.press("Escape")
    assert state(shown, "item") is None
    shown.keyboard.press("Tab")
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.id") == "play"
    shown.keyboard.press("Enter")
    wait(shown, "explorer.store.state.t === 1")


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(opened, severe, dark):
    shown = opened(dark=dark)
    assert severe(shown) == []
    shown.fill("#search", "item 17")
    shown.press("#search", "Enter")
    wait(shown, "explorer.store.state.neighbors")
    shown.select_option("#color", "error")
    assert severe(shown) == []


def test_a_request_without_the_token_is_refused(opened, address):
    shown = opened()
    assert shown.request.get(address).status == 401
    assert shown.request.get(f"{address}/about?token=guess").status == 401


def test_an_exported_page_needs_no_server(open_page, exploration, tmp_path):
    write_page(exploration, tmp_path / "spaces.html")
    shown = open_page((tmp_path / "spaces.html").as_uri(), reduced_motion="reduce", **WINDOW)
    shown.wait_for_selector(READY)
    shown.fill("#search", "item 17")
    shown.press("#search", "Enter")
    wait(shown, "explorer.store.state.neighbors")
    row = exploration.scene.keys.index("item 17")
    assert state(shown, "neighbors") == exploration.neighbors(row, exploration.start_k)
    shown.click("#play")
    wait(shown, "explorer.store.state.t === 1")
    assert shown.is_disabled("#k")
    assert "run relatent explore" in shown.inner_text("#fit-says")
    assert not shown.is_visible("#html")


def test_a_picture_and_a_page_can_be_exported(opened):
    shown = opened()
    with shown.expect_download() as picture:
        shown.click("#png")
    content = picture.value.path().read_bytes()
    assert content.startswith(b"\x89PNG")
    assert struct.unpack(">II", content[16:24])[0] > 700
    with shown.expect_download() as saved:
        shown.click("#html")
    assert saved.value.suggested_filename == "old-new.html"
    assert 'id="data">{"about"' in saved.value.path().read_text("utf8")


def test_a_sample_is_called_one(open_page):
    old, _, new = make_spaces()
    with running(make_app(Exploration.of([old, new], points=50), TOKEN)) as address:
        shown = open_page(f"{address}/?token={TOKEN}", reduced_motion="reduce")
        shown.wait_for_selector(READY)
        assert "A sample of 50 of the 120 items" in shown.inner_text("#notes")


def test_a_stopped_server_is_reported(open_page, exploration, problems):
    with running(make_app(exploration, TOKEN)) as address:
        shown = open_page(f"{address}/?token={TOKEN}", reduced_motion="reduce")
        shown.wait_for_selector(READY)
    shown.select_option("#layout", "relative")
    shown.wait_for_selector("#problem:not([hidden])")
    assert "Is `relatent explore` still running?" in shown.inner_text("#problem")
    problems.clear()  # the browser logs the failed request
