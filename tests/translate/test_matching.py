import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from relatent._linalg import polar
from relatent.translate.unpaired import centered_unit_rows, in_principal_axes, mutual_matches, refine_rotation


def test_principal_axes_keep_all_products_where_they_are_enough(rng):
    x = rng.normal(size=(50, 8)) + 3
    units = centered_unit_rows(x)
    assert np.allclose(in_principal_axes(x, 8) @ in_principal_axes(x, 9).T, units @ units.T, atol=1e-5)


def test_principal_axes_are_those_of_the_svd(rng):
    x = rng.normal(size=(60, 6)) * [9, 5, 3, 0.1, 0.1, 0.1]
    units = centered_unit_rows(x)
    u, s, _ = np.linalg.svd(units, full_matrices=False)
    kept = u[:, :3] * s[:3]
    kept /= np.linalg.norm(kept, axis=1, keepdims=True)
    found = in_principal_axes(x, axes=3)
    assert np.allclose(found @ found.T, kept @ kept.T, atol=1e-5)


def test_rows_that_choose_each_other_by_brute_force(rng):
    queries, targets = (rng.normal(size=(n, 12)).astype(np.float32) for n in (80, 70))
    scores = queries @ targets.T
    hubness = [np.mean(np.sort(scores, axis=a).take(range(-10, 0), axis=a), axis=a, keepdims=True) for a in (0, 1)]
    adjusted = 2 * scores - hubness[0] - hubness[1]
    expected = [(i, j) for i, j in enumerate(np.argmax(adjusted, axis=1)) if np.argmax(adjusted[:, j]) == i]
    found = mutual_matches(queries, targets)
    assert list(zip(found.rows_x, found.rows_y, strict=True)) == expected
    assert np.all((found.confidence > 0) & (found.confidence <= 1))


def test_a_rotation_nearly_found_is_found(rng, orthogonal):
    x = np.exp(rng.normal(size=(300, 10)))
    x -= np.mean(x, axis=0)
    truth = orthogonal(10)
    near = polar(truth + 0.2 * rng.normal(size=(10, 10)))
    found = refine_rotation(x, x @ truth, near, rounds=20)
    assert np.allclose(found, truth, atol=1e-6)
    i, j = linear_sum_assignment(x @ found @ (x @ truth).T, maximize=True)
    assert np.array_equal(i, j)


@pytest.mark.parametrize("known", [None, np.eye(4) / 2])
def test_a_rotation_stays_orthogonal(rng, known):
    x, y = (centered_unit_rows(rng.normal(size=(n, 4))) for n in (40, 30))
    found = refine_rotation(x, y, np.eye(4), known, rounds=3)
    assert np.allclose(found.T @ found, np.eye(4), atol=1e-6)
