"""Items that train networks: those that need no download in the size of the tests, and what is committed of all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from experiments.__main__ import run_item
from experiments.figures import draw_grid, packed_grid, panels
from experiments.items import ITEMS
from experiments.results import Setting, path_of, read_record


@pytest.mark.parametrize("name", ["rr-slides", "rr-supervision"])
@pytest.mark.slow
def test_offline_items_run_and_are_drawn_from_what_they_wrote(name: str, tmp_path: Path) -> None:
    run_item(ITEMS[name], Setting("smoke", models=tmp_path / "models"), tmp_path)
    kept = read_record(tmp_path, name, "smoke")
    assert kept is not None
    assert kept.result.tables[0].rows
    assert path_of(tmp_path, name, "smoke").stat().st_size < 60 * 1024
    ITEMS[name].load().draw(kept.result)


def test_a_grid_of_images_survives_being_written_and_keeps_its_rows() -> None:
    rows = {"dark": np.zeros((3, 1, 8, 8)), "bright": np.ones((3, 1, 8, 8))}
    kept = json.loads(json.dumps(packed_grid(rows)))
    _, axes = panels()
    draw_grid(axes[0, 0], kept, "grid")
    pixels = np.asarray(axes[0, 0].images[0].get_array())
    assert pixels.shape == (18, 27, 3)
    assert pixels[3, 3].max() < 20
    assert pixels[12, 12].min() > 235
    assert [label.get_text() for label in axes[0, 0].get_yticklabels()] == list(rows)


NETWORK_ITEMS = ("rr-figure1", "rr-figure3", "rr-table2", "rr-table3", "rr-slides", "rr-supervision", "lst-table1")


@pytest.mark.parametrize("name", NETWORK_ITEMS)
def test_committed_records_are_small_and_can_be_drawn(name: str) -> None:
    folder = Path(__file__).parents[2] / "experiments" / "results"
    kept = read_record(folder, name)
    assert kept is not None
    assert path_of(folder, name).stat().st_size < 100 * 1024
    module = ITEMS[name].load()
    if hasattr(module, "draw"):
        assert module.draw(kept.result).axes
