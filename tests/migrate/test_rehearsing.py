"""Rehearsing a migration: every step on a small copy, which is removed again."""

import pytest
from tests.migrate.steps import contents

from relatent.migrate import rehearse_migration
from relatent.report import make_report
from relatent.report.answer import headline_of
from relatent.stores import StoreError, open_store

pytestmark = pytest.mark.stores


def test_a_rehearsal_takes_every_step_on_a_copy_and_leaves_nothing(task):
    before = contents(task.url, "served", None)
    found = rehearse_migration(task.translator, task.url, rows=150, progress=False)
    assert found.passed, str(found)
    assert [check.name for check in found.checks] == ["apply", "verify", "cutover", "search", "rollback"]
    assert found.rows == (150, 150)
    assert "Rehearsed on a copy" in str(found)
    assert contents(task.url, "served", None) == before
    with open_store(task.url) as store:
        assert (store.new, store.old) == (None, None)


def test_a_rehearsal_stops_at_the_step_that_fails(light, monkeypatch):
    def refuse(self):
        raise StoreError("no right to switch")

    with open_store(light.url) as store:
        monkeypatch.setattr(type(store), "switch", refuse)
    found = rehearse_migration(light.translator, light.url, progress=False)
    assert not found.passed
    assert [(check.name, check.passed) for check in found.checks] == [
        ("apply", True),
        ("verify", True),
        ("cutover", False),
    ]
    assert "no right to switch" in found.checks[-1].found
    report = make_report(found)
    assert report.title.startswith("Rehearsal of")
    assert headline_of(report).word == "Rehearsal failed"
