"""A migration on a store whose every fault comes from a seed; one that fails prints its events and how to replay it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.migrate.simulate import simulate

BATCH = 25
FEW, MANY = range(0, 200, BATCH), range(200, 10_000, BATCH)


@pytest.mark.parametrize("first", [*FEW, *(pytest.param(n, marks=pytest.mark.slow) for n in MANY)])
def test_no_fault_at_any_call_breaks_a_migration(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + BATCH):
        simulate(seed, tmp_path)


def test_a_seed_decides_about_all_that_happens(tmp_path: Path) -> None:
    one, two = ([line[:40] for line in simulate(3, tmp_path).events] for _ in range(2))
    assert one == two
