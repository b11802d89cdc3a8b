"""The items of the papers: records that are kept, and the page that is made from them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
from experiments.__main__ import run_item
from experiments.figures import heat_map, panels, save
from experiments.items import ITEMS, PAPERS
from experiments.page import PAGE, PICTURES, anchor, render
from experiments.published import MISSING, published, source
from experiments.results import (
    COMMITTED,
    Finding,
    Record,
    Result,
    Setting,
    Table,
    largest,
    read_record,
    read_records,
    spread,
    write_record,
)
from experiments.show import markdown_table

from experiments import __main__ as frame
from experiments import sources

LARGEST = 150_000


def test_every_item_has_a_module_and_a_paper():
    for item in ITEMS.values():
        assert find_spec(f"experiments.{item.module}") is not None, item.name
        assert item.paper in PAPERS


def test_the_page_is_what_the_records_say():
    """Rendered again by ``python -m experiments.page`` after a record has changed."""
    assert PAGE.read_text(encoding="utf8") == render()


def test_every_committed_file_is_the_record_of_an_item():
    known = {COMMITTED / f"{record.name}.json" for name in ITEMS for record in read_records(COMMITTED, name)}
    assert known == set(COMMITTED.rglob("*.json"))


@pytest.mark.parametrize("name", ITEMS)
def test_committed_records_are_whole_and_small(name):
    for record in read_records(COMMITTED, name):
        assert record.result.tables
        assert all(len(row) == len(table.columns) for table in record.result.tables for row in table.rows)
        assert (COMMITTED / f"{record.name}.json").stat().st_size < LARGEST
        picture = PICTURES / f"{anchor(record)}.png"
        assert picture.is_file() == hasattr(ITEMS[name].load(), "draw")
        assert not picture.is_file() or picture.stat().st_size < (
            700_000 if getattr(ITEMS[name].load(), "PHOTOS", False) else 200_000
        )


def test_a_record_comes_back_as_it_was_written(tmp_path):
    table = Table("t", ("a", "b"), [["x", spread([1.0, 2.0])], ["y", None]])
    result = Result([table], [Finding("c", True, "e")], seeds=2, series={"p": np.arange(3) / 3})
    write_record(tmp_path, Record("rr-table1", "quick", "command", 1.23456789, {"python": "3"}, result))
    found = read_record(tmp_path, "rr-table1")
    assert found is not None
    assert found.result.tables[0].rows[0][1] == {"mean": 1.5, "std": 0.5, "n": 2}
    assert found.result.findings[0] == Finding("c", True, "e")
    assert found.result.series == {"p": [0.0, 0.33333, 0.66667]}
    assert found.seconds == 1.2346
    assert read_record(tmp_path, "rr-table2") is None


def test_records_of_other_sizes_and_sources_lie_side_by_side_and_the_largest_is_shown(tmp_path):
    result = Result([Table("t", ("a",), [["x"]])])
    for size, of in (("full", "packages"), ("quick", "packages"), ("quick", "hub")):
        write_record(tmp_path, Record("rr-table7", size, f"run {size} {of}", 1.0, {}, result, of))
    assert [(one.source, one.size) for one in read_records(tmp_path, "rr-table7")] == [
        ("packages", "quick"),
        ("packages", "full"),
        ("hub", "quick"),
    ]
    assert [one.command for one in largest(tmp_path, "rr-table7")] == ["run full packages", "run quick hub"]
    page = render(tmp_path)
    assert "`run full packages`, size full" in page
    assert "`run quick hub`, size quick" in page
    assert "run quick packages" not in page


def test_a_table_in_markdown():
    table = Table("t", ("name", "n"), [["a|b", 0.5], ["c", None]])
    assert markdown_table(table).splitlines() == ["| name | n |", "|---|--:|", "| a\\|b | 0.500 |", "| c |  |"]


def test_published_figures_have_a_source():
    assert published("rr-table1", "relative, FT → W2V", "mrr") == "0.94 ± 0.00"
    assert published("rr-table1", "no such row", "mrr") == MISSING
    assert "Moschella" in source("rr-table1")


@pytest.mark.parametrize("name", [item.name for item in ITEMS.values() if item.offline])
def test_items_that_need_no_download_run(tmp_path, name):
    """The smoke subset: every part of an item in its smallest size."""
    record = run_item(ITEMS[name], Setting("smoke", models=tmp_path), tmp_path)
    assert record.result.tables
    assert read_record(tmp_path, name, "smoke") is not None


def test_failed_items_are_reported_and_run_again_and_kept_ones_are_not(tmp_path, monkeypatch, capsys):
    asked, offline = [], {"rr-table1"}

    def run_apart(name, given):
        asked.append(name)
        if name not in offline:
            record = Record(name, "quick", "command", 1.0, {}, Result([Table("t", ("a",), [["x"]])]))
            write_record(tmp_path, replace(record, sources=sources.digests(["experiments.data.cache"])))
        return subprocess.CompletedProcess([], int(name in offline), "", "is this computer offline?")

    monkeypatch.setattr(frame, "run_apart", run_apart)
    monkeypatch.setattr(sys, "argv", ["experiments", "--all", "--jobs", "2", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"Not run:\nrr-table1: is this computer offline\?"):
        frame.main()
    assert sorted(asked) == sorted(ITEMS)
    asked.clear()
    offline.clear()
    frame.main()
    assert asked == ["rr-table1"]


def test_pictures_are_small_and_colors_tell_cells(tmp_path):
    figure, axes = panels(1, 2)
    heat_map(axes[0, 0], [[0.0, 1.0], [np.nan, 0.5]], ["a", "b"], ["c", "d"])
    save(figure, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size < 50_000
    assert len(axes[0, 0].texts) == 3
