"""Records and the sources they depend on: what makes one stale, and what does not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from experiments.__main__ import confirm, run_item
from experiments.items import ITEMS
from experiments.results import Record, Result, Setting, Table, read_record, write_record

from experiments import published, sources

MODULE = '''
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from a import B as B
else:
    C = 1

def f(x):
    """Double."""
    if x is None:
        raise ValueError("x is None.")
    return 2 * x  # twice
'''


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ('"""Double."""', '"""Return twice x."""', True),
        ("x is None.", "expected a number.", True),
        ("from a import B as B", "from a import D as D", True),
        ("    return", "    # twice\n    return", True),
        ("return 2 * x", "return (\n        2 * x)", False),
        ("2 * x", "3 * x", False),
        ("if x is None", "if x is not None", False),
        ("C = 1", "C = 2", False),
    ],
)
def test_a_digest_sees_what_a_module_does_and_nothing_else(old: str, new: str, same: bool) -> None:
    assert old in MODULE
    assert (sources.code(MODULE) == sources.code(MODULE.replace(old, new))) is same


def test_a_record_names_its_sources_and_is_stale_when_one_changes(tmp_path) -> None:
    record = run_item(ITEMS["irp-activations"], Setting("smoke", models=tmp_path), tmp_path)
    assert "experiments.inverse_relative_projection.activations" in record.sources
    assert any(name.startswith("relatent.") for name in record.sources)
    assert not any(name.startswith(("experiments.page", "relatent.cli")) for name in record.sources)
    assert sources.changed(record.sources) == []
    assert sources.changed({**record.sources, "experiments.items": "0"}) == ["experiments.items"]
    assert sources.changed({**record.sources, "relatent.gone": "0"}) == ["relatent.gone"]
    assert sources.changed({}) == [sources.UNKNOWN]


def test_published_figures_are_sources(monkeypatch) -> None:
    published.published("rr-table1", "source")
    before = sources.digests(["published/rr-table1"])
    assert before.items() <= sources.used().items()
    sources._digest.cache_clear()
    monkeypatch.setattr(published, "section", lambda item: {"source": "corrected"})
    assert sources.changed(before) == ["published/rr-table1"]
    sources._digest.cache_clear()


@pytest.mark.parametrize(
    ("before", "full_of", "figure", "kept_current"),
    [
        ({"m": "1"}, {"m": "1", "n": "1"}, 0.5, True),
        ({"m": "1"}, {"m": "0"}, 0.5, False),  # the quick record was not of the sources of the larger one
        ({}, {"m": "1"}, 0.5, False),  # nor is that known
        ({"m": "1"}, {"m": "1"}, 0.4, False),  # the figures differ today
    ],
)
def test_a_quick_run_with_the_same_digits_keeps_a_larger_record_current(
    tmp_path, monkeypatch, before, full_of, figure, kept_current
) -> None:
    def record(size, of, value):
        return Record("geodesic", size, "c", 1.0, {}, Result([Table("t", ("a",), [[value]])]), sources=of, commit=size)

    def run(item, setting, out):
        write_record(out, replace(record("quick", {"m": "2"}, figure), commit="now"))

    write_record(tmp_path, record("quick", before, 0.5))
    write_record(tmp_path, record("full", full_of, 0.7))
    monkeypatch.setattr("experiments.__main__.run_item", run)
    confirm(ITEMS["geodesic"], Setting(), tmp_path)
    full = read_record(tmp_path, "geodesic", "full")
    assert full is not None
    assert full.commit == "full"
    assert full.confirmed == ("now" if kept_current else "")
    assert full.sources == ({**full_of, "m": "2"} if kept_current else full_of)
