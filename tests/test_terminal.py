"""Tables for people, notebooks and data frames; stages on the error stream."""

import re
import sys
import threading
from types import SimpleNamespace

import pytest

from relatent._terminal import (
    Reporter,
    Tabular,
    print_reports,
    progress_bar,
    render,
    resting,
    stages,
    tracked,
    working,
)


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


# What is reported where no bar shows it.


def lines(reporter, *times):
    return [reporter.line(now) for now in times]


def test_work_is_reported_after_two_seconds_and_every_ten():
    reporter = Reporter("relatent fit", now=100.0)
    with stages(wanted=False) as stage:
        stage("joining keys")
        assert lines(reporter, 100.5, 101.9) == [None, None]
        assert reporter.line(102.0) == "relatent fit: joining keys (2 s)"
        stage("solving")
        assert lines(reporter, 103, 111.9, 112, 113) == [None, None, "relatent fit: solving (12 s)", None]
    assert reporter.line(222.5) == "relatent fit: at work (2 min 2 s)"


def test_a_bar_reports_how_far_it_is_and_what_it_is_part_of():
    reporter = Reporter("experiments", now=0.0)
    with progress_bar(41, "items", False) as items, progress_bar(20_000, "fit", False) as advance:
        items(3)
        advance(1_500)
        advance(500)
        assert reporter.line(10.0) == "experiments: items 3 of 41, fit 2,000 of 20,000 (10 s)"


def test_nothing_is_reported_while_a_bar_is_on_the_terminal(monkeypatch, capsys):
    reporter = Reporter("relatent fit", now=0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar(10, "fit"):
        assert lines(reporter, 5.0, 60.0) == [None, None]
    assert lines(reporter, 61.0, 62.5) == [None, "relatent fit: at work (1 min 2 s)"]
    capsys.readouterr()


def test_a_server_that_waits_reports_nothing():
    reporter = Reporter("relatent serve", now=0.0)
    with resting("serving"):
        assert lines(reporter, 5.0, 3_600.0) == [None, None]


def test_a_task_that_failed_is_not_reported_for_ever():
    reporter = Reporter("relatent fit", now=0.0)
    with pytest.raises(ValueError, match="no keys"), stages(wanted=False) as stage:  # noqa: PT012
        stage("joining keys")
        raise ValueError("no keys")
    assert reporter.line(5.0) == "relatent fit: at work (5 s)"


def test_the_lines_go_to_the_error_stream(capsys):
    """A clock that jumps: each time the loop asks whether to stop, five seconds have passed."""
    answers = iter([False, False, False, True])
    stop = SimpleNamespace(wait=lambda _: next(answers))
    clock = iter([5.0, 10.0, 15.0])
    print_reports(Reporter("relatent fit", now=0.0), stop, lambda: next(clock))
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "relatent fit: at work (5 s)\nrelatent fit: at work (15 s)\n"


def reporting():
    return [thread for thread in threading.enumerate() if thread.name == "reports"]


def test_a_thread_reports_while_a_block_works_and_none_where_nothing_is_wanted():
    with working("relatent fit", wanted=False):
        assert not reporting()
    with pytest.raises(ValueError, match="no keys"), working("relatent fit"):  # noqa: PT012
        assert len(reporting()) == 1
        raise ValueError("no keys")
    assert not reporting()


def test_tracked_items_are_counted():
    reporter = Reporter("experiments", now=0.0)
    said = [reporter.line(10.0 * i) for i, _ in enumerate(tracked("abc", "draws", False), start=1)]
    assert said == [f"experiments: draws {i} of 3 ({10 * (i + 1)} s)" for i in range(3)]
