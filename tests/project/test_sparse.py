import numpy as np
import pytest

from relatent._array import to_numpy
from relatent.project.sparse import sparse_codes


@pytest.fixture
def r(rng):
    return rng.uniform(-1, 1, size=(20, 9))


def test_the_largest_stay_and_the_rest_is_zero(xp, r):
    codes = to_numpy(sparse_codes(xp(r), 3, 2.0))
    for row, code in zip(r, codes, strict=True):
        assert set(np.flatnonzero(code)) == set(np.argsort(row)[-3:])
    assert np.allclose(np.linalg.norm(codes, axis=1), 1)


def test_signs_survive_even_powers(r):
    assert np.array_equal(np.sign(sparse_codes(r, 9, 2.0)), np.sign(r))


@pytest.mark.parametrize(("factor", "survives"), [(7.0, True), (-1.0, False)])
def test_a_positive_factor_changes_nothing(r, factor, survives):
    assert np.allclose(sparse_codes(r, 4, 3.0), sparse_codes(factor * r, 4, 3.0)) is survives


def test_equals_at_the_last_place_all_stay(xp):
    codes = to_numpy(sparse_codes(xp(np.asarray([[0.9, 0.5, 0.5, 0.1]])), 2, 1.0))
    assert (codes != 0).tolist() == [[True, True, True, False]]


def test_a_row_of_zeros_stays_zero(xp):
    assert not np.any(to_numpy(sparse_codes(xp(np.zeros((2, 5))), 2, 2.0)))
