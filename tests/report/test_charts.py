"""Charts and the style sheet: axes hold what they show, and everyone can read it."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import relatent.report
from relatent.report.document import Bar, BarChart, Chart, HeatMap, Histogram, Line, LineChart, Paragraph, Point
from relatent.report.svg import Axis, Markup, draw, joined, luminance, tag

LINES = LineChart(
    "t", "d", "pairs", "MRR", (Line("a", (Point(10, 0.2, 0.1, 0.3), Point(1000, 0.7, 0.6, 0.75))),), log_x=True
)
BARS = BarChart("t", "d", "nDCG", (Bar("stay", 0.4, 0.3, 0.5), Bar("translate", -0.1, -0.2, 0.0, chosen=True)))
HISTOGRAM = Histogram("t", "d", "cosine", (0.0, 0.5, 1.0, 1.5), (("a", (0.0, 0.9, 0.1)), ("b", (0.5, 0.5, 0.0))))
HEAT = HeatMap("t", "d", ("one", "two"), ((1.0, 0.5), (0.5, 1.0)))
CHARTS = [LINES, BARS, HISTOGRAM, HEAT]


@pytest.mark.parametrize(
    "values", [[0.12, 0.87], [0.56, 1.52], [0.5, 0.5], [0.0, 0.0], [-3.0, 4_000.0], [0.98123, 0.98131], [1e-9, 2e-9]]
)
def test_an_axis_holds_its_values_between_a_few_even_marks(values):
    axis = Axis.over(values, 0, 100)
    marks = axis.ticks()
    assert 2 <= len(marks) <= 8
    rounding = 1e-6 * (marks[-1] - marks[0])
    assert marks[0] - rounding <= min(values) <= max(values) <= marks[-1] + rounding
    np.testing.assert_allclose([marks[0], marks[-1]], [axis.low, axis.high], atol=rounding)
    np.testing.assert_allclose(np.diff(marks), np.diff(marks)[0], rtol=1e-3)
    assert all(0 <= axis.at(v) <= 100 for v in values)


def test_a_logarithmic_axis_has_equal_steps_for_equal_ratios():
    axis = Axis.over([1.0, 10_000.0], 0, 100, log=True)
    assert [axis.at(10.0**p) for p in range(5)] == [0, 25, 50, 75, 100]
    assert axis.ticks() == [1, 10, 100, 1_000, 10_000]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda c: type(c).__name__)
def test_a_chart_stays_inside_its_frame_and_has_a_description(chart):
    svg = draw(chart, "c")
    assert '<title id="c-title">t</title><desc id="c-description">d</desc>' in svg
    width, height = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())
    for name, limit in (("x", width), ("x1", width), ("cx", width), ("y", height), ("y1", height), ("cy", height)):
        places = [float(v) for v in re.findall(rf' {name}="([-\d.e]+)"', svg)]
        assert all(0 <= place <= limit for place in places)
    assert "nan" not in svg


def test_bars_are_as_long_as_their_values():
    widths = [float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)"', draw(BARS, "c"))]
    assert widths[0] / widths[1] == pytest.approx(4, rel=1e-2)


def test_the_numbers_of_a_chart_are_in_its_table():
    assert LINES.table().rows[1] == ("a", "1,000", "0.7", "0.6", "0.75")
    assert BARS.table().rows[0] == ("stay", "0.4", "0.3", "0.5")
    assert HISTOGRAM.table().rows[0] == ("0 to 0.5", "0.0%", "50.0%")
    assert HEAT.table().rows[0] == ("one", "1.000", "0.500")


@pytest.mark.parametrize("function", [lambda: draw(Paragraph("no"), "c"), lambda: Chart("t", "d").table()])
def test_what_is_not_a_chart_is_refused(function):
    with pytest.raises((TypeError, AttributeError, NotImplementedError)):
        function()


def test_markup_is_escaped_unless_it_is_markup():
    assert tag("a", "<b>", href='x" onclick="y', title=None) == '<a href="x&quot; onclick=&quot;y">&lt;b&gt;</a>'
    assert joined(Markup("<i>"), "<i>") == "<i>&lt;i&gt;"
    assert isinstance(tag("p", tag("b", "&")), Markup)


# Colors.

STYLE = (Path(relatent.report.__file__).parent / "style.css").read_text("utf8")
SCHEMES = dict(zip(("light", "dark", "print"), re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL), strict=True))


def contrast(a, b):
    """Return the ratio of WCAG 2.2, from 1 to 21."""
    first, second = sorted((luminance(a), luminance(b)), reverse=True)
    return (first + 0.05) / (second + 0.05)


def colors(scheme):
    found = re.findall(r"--([\w-]+): #([0-9a-f]{6});", SCHEMES[scheme])
    return {name: [int(h[i : i + 2], 16) for i in (0, 2, 4)] for name, h in found}


def test_the_ratio_is_that_of_the_standard():
    assert contrast([0, 0, 0], [255, 255, 255]) == pytest.approx(21)
    assert contrast([0x76, 0x76, 0x76], [255, 255, 255]) == pytest.approx(4.54, abs=0.01)  # the palest gray that passes


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_and_lines_stand_out(scheme):
    c = colors(scheme)
    texts = {
        "ink": ("page", "card", "best", "good-page", "bad-page", "open-page"),
        "soft": ("page", "card", "good-page", "bad-page", "open-page"),
        **{"link": ("page", "card"), "good": ("good-page",), "bad": ("bad-page",), "open": ("open-page",)},
    }
    for text, grounds in texts.items():
        for ground in grounds:
            assert contrast(c[text], c[ground]) >= 4.5, (text, ground)
    for line in ("s0", "s1", "s2", "s3"):
        assert contrast(c[line], c["card"]) >= 3, line


def test_every_cell_of_a_heat_map_can_be_read():
    values = np.linspace(0, 1, 101)
    svg = draw(HeatMap("t", "d", tuple("x" * 101), tuple((float(v),) * 101 for v in values)), "c")
    fills = re.findall(r'fill="rgb\((\d+), (\d+), (\d+)\)"', svg)
    inks = re.findall(r'style="fill: #(000|fff)"', svg)
    assert len(fills) == len(inks) == 101 * 101
    for fill, ink in set(zip(fills, inks, strict=True)):
        assert contrast(list(map(int, fill)), [0, 0, 0] if ink == "000" else [255, 255, 255]) >= 4.5


def test_a_cell_is_darker_for_a_larger_value():
    row = tuple(float(v) for v in np.linspace(0, 1, 11))
    svg = draw(HeatMap("t", "d", tuple("abcdefghijk"), (row,) * 11), "c")
    fills = [list(map(int, rgb)) for rgb in re.findall(r'fill="rgb\((\d+), (\d+), (\d+)\)"', svg)[:11]]
    assert all(luminance(a) > luminance(b) for a, b in pairwise(fills))
