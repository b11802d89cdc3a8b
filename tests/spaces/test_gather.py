"""Rows in any order: what taking them one by one gives, from memory and from files, held and brought into order."""

import numpy as np
import pytest

from relatent.spaces import Space, read_space, write_space
from relatent.spaces import join as gather


@pytest.mark.parametrize("held", [2**20, 0], ids=["held", "streamed"])
@pytest.mark.parametrize("stored", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("order", ["all", "ascending", "shuffled", "few"])
def test_blocks_are_the_rows_in_their_order(tmp_path, monkeypatch, rng, held, stored, order):
    monkeypatch.setattr(gather, "HELD_BYTES", held)
    vectors = rng.normal(size=(100, 3)).astype(np.float32)
    space = Space(vectors)
    if stored:
        write_space(space, tmp_path / "x.parquet")
        space = read_space(tmp_path / "x.parquet")
    shuffled = rng.permutation(100)
    rows = {"all": np.arange(100), "ascending": np.arange(3, 90, 7), "shuffled": shuffled, "few": shuffled[:5]}[order]
    blocks = list(gather.row_blocks(space, rows, 8))
    np.testing.assert_array_equal(np.concatenate(blocks), vectors[rows])
    assert {len(block) for block in blocks[:-1]} <= {8}
