from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf

from relatent.monitor import tell_apart


@pytest.fixture
def two(rng):
    a, b = (rng.normal(size=(12, 12)) for _ in range(2))
    return rng.normal(size=(600, 12)) @ a, rng.normal(size=(600, 12)) @ b + 0.3


def test_the_ratio_is_that_of_two_normal_densities(two):
    old, new = two
    found = tell_apart(np.concatenate(two), old[:300], new[:300])
    densities = [
        multivariate_normal(sample.mean(axis=0), ledoit_wolf(sample)[0]).logpdf(np.concatenate(two))
        for sample in (old[:300], new[:300])
    ]
    np.testing.assert_allclose(found.ratio, densities[1] - densities[0], rtol=1e-5, atol=1e-5)


def test_rows_of_two_spaces_are_told_apart_and_those_of_one_are_not(two, rng):
    old, new = two
    x, is_new = np.concatenate([old[300:], new[300:]]), np.repeat([False, True], 300)
    found = tell_apart(x, old[:300], new[:300])
    assert np.mean(found.is_new == is_new) > 0.98
    assert "two spaces" in str(found)
    assert found.to_dict()["old"] + found.to_dict()["new"] == 600
    same = tell_apart(x[:300], old[:150], old[150:300])
    assert 0.2 < same.is_new.mean() < 0.8  # a coin toss: there is nothing to tell
    assert same.unsure.mean() > 0.9


def test_equal_moments_cannot_be_told_apart(rng):
    """Whitened rows have the same mean and covariance in every rotation."""
    x = rng.normal(size=(2_000, 10))
    x = (x - x.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T))).T
    y = x @ np.linalg.qr(rng.normal(size=(10, 10)))[0]
    found = tell_apart(np.concatenate([x[1000:], y[1000:]]), x[:1000], y[:1000])
    assert np.mean(found.is_new == np.repeat([False, True], 1000)) < 0.65


def test_fewer_rows_than_coordinates_and_dead_coordinates(rng):
    scale = np.geomspace(1, 30, 60)
    x, y = rng.normal(size=(400, 60)) * scale, rng.normal(size=(400, 60)) * scale[::-1]
    x[:, 7] = y[:, 7] = 0
    assert tell_apart(x[40:], x[:40], y[:40]).is_new.mean() < 0.02
    assert tell_apart(y[40:], x[:40], y[:40]).is_new.mean() > 0.98


def test_samples_must_fit(two):
    old, new = two
    with pytest.raises(ValueError, match="expected at least 20"):
        tell_apart(old, old[:19], new)
    with pytest.raises(ValueError, match="same last axis"):
        tell_apart(old, old, new[:, :5])
