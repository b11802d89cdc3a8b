"""Tables for people, notebooks and data frames; stages on the error stream."""

import re
import sys

import pytest

from relatent._terminal import Tabular, render, stages


class Table(Tabular):
    def records(self):
        return [{"name": "a < b", "value": 0.5, "low": None}, {"name": "c", "value": 1.0, "low": 0.25}]


def test_records_become_a_data_frame_and_html():
    frame = Table().to_pandas()
    assert frame["name"].tolist() == ["a < b", "c"]
    html = Table()._repr_html_()
    assert re.findall(r"<th>(.*?)</th>", html) == ["name", "value", "low"]
    assert "<td>a &lt; b</td>" in html
    assert 'right">0.5000</td><td></td></tr>' in html


def test_html_of_nothing_is_an_empty_table():
    class Empty(Tabular):
        def records(self):
            return []

    assert "<tbody></tbody>" in Empty()._repr_html_()


def test_numbers_are_set_to_the_right():
    lines = render(("name", "value"), [("a", "1"), ("long name", "100")], numbers=[1]).splitlines()
    assert lines == ["name       value", "a              1", "long name    100"]


@pytest.mark.parametrize(
    ("wanted", "terminal", "shown"), [(True, False, True), (None, False, False), (False, True, False)]
)
def test_stages_are_shown_where_they_are_wanted(capsys, monkeypatch, wanted, terminal, shown):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with stages(wanted) as stage:
        stage("joining keys")
        stage("searching")
    said = capsys.readouterr()
    assert said.out == ""
    assert re.findall(r"✓ (\w+(?: \w+)?) +[\d.]+ s", said.err) == (["joining keys", "searching"] if shown else [])


def test_the_stage_that_failed_is_not_ticked(capsys):
    with pytest.raises(ValueError, match="no keys"), stages(wanted=True) as stage:  # noqa: PT012
        stage("reading")
        stage("joining keys")
        raise ValueError("no keys")
    said = capsys.readouterr().err
    assert "✓ reading" in said
    assert "✓ joining" not in said
