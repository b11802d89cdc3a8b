import numpy as np
import pytest

import relatent as rl
from relatent.translate import unpaired


def lopsided(n, seed=0):
    """Clusters of many sizes in random places: a cloud that fits onto itself in one way only."""
    rng = np.random.default_rng(seed)
    centers = 4 * rng.normal(size=(12, 16))
    return centers[rng.choice(12, n, p=np.arange(1, 13) / 78)] + rng.normal(size=(n, 16))


def test_a_rotated_copy_is_found_without_a_pair(orthogonal):
    x, order, turn = lopsided(500), np.random.default_rng(1).permutation(500), orthogonal(16)
    found = rl.translate.align_unpaired(x, 3 * (x @ turn)[order] + 1)
    assert found.succeeded
    assert found.agreement > 0.99
    assert found.mutual > 0.99
    assert np.mean(order[found.rows_y] == found.rows_x) > 0.99
    fresh = lopsided(700)[500:]
    assert found.translator.score(fresh, 3 * fresh @ turn + 1) > 0.9


@pytest.mark.parametrize("seed", range(2))
def test_unrelated_spaces_are_not_aligned(seed):
    rng = np.random.default_rng(seed)
    found = rl.translate.align_unpaired(rng.normal(size=(300, 20)), rng.normal(size=(250, 15)))
    assert not found.succeeded
    assert found.translator is None
    assert "Not aligned" in str(found)


def test_too_few_rows_are_refused():
    with pytest.raises(ValueError, match="x has 50 rows and y has 200: expected at least 100"):
        rl.translate.align_unpaired(np.ones((50, 3)), np.ones((200, 3)))


def test_restarts_that_agree_on_classes_alone_are_not_believed():
    """Both sides have the same three classes and nothing else in common: every restart puts class onto class."""
    rng = np.random.default_rng(0)
    centers, labels = 6 * np.eye(3), rng.choice(3, 400, p=[0.6, 0.3, 0.1])
    x, y = (np.hstack([centers[labels], 0 * labels[:, None]]) + rng.normal(size=(400, 4)) for _ in range(2))
    found = rl.translate.align_unpaired(x, y)
    assert found.agreement > unpaired.AGREEMENT
    assert found.mutual < unpaired.MUTUAL
    assert not found.succeeded
