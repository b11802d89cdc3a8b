"""Two spaces that differ by a rotation, a scale and an offset, with labels, and a third of another dimension."""

from __future__ import annotations

import numpy as np
import pytest

import relatent as rl

ITEMS = 120


def make_spaces():
    rng = np.random.default_rng(0)
    labels = np.arange(ITEMS) % 3
    new = (rng.normal(size=(3, 8))[labels] * 3 + rng.normal(size=(ITEMS, 8))).astype(np.float32)
    turned = 2 * new @ np.linalg.qr(rng.normal(size=(8, 8)))[0].astype(np.float32) + 5
    wide = np.tanh(new @ rng.normal(size=(8, 12)) / 6).astype(np.float32)
    keys = [f"item {i}" for i in range(ITEMS)]
    old = rl.Space(turned, keys, "old", others={"label": [f"c{one}" for one in labels]})
    shuffled = rng.permutation(ITEMS)
    return old, rl.Space(wide, keys, "wide"), rl.Space(new[shuffled], [keys[i] for i in shuffled], "new")


@pytest.fixture(scope="session")
def spaces():
    return make_spaces()


@pytest.fixture(scope="session")
def two(spaces):
    return spaces[0], spaces[2]
