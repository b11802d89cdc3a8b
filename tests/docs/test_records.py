"""The page of results: its records are what today's sources give."""

from __future__ import annotations

import pytest
from experiments.items import ITEMS
from experiments.results import COMMITTED, read_records

from experiments import sources

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ITEMS)
def test_no_committed_record_is_older_than_its_sources(name):
    """A stale one is run again, or confirmed by a quick run: ``python -m experiments NAME --confirm``."""
    stale = {record.name: sources.changed(record.sources) for record in read_records(COMMITTED, name)}
    assert not {name: changed for name, changed in stale.items() if changed}
