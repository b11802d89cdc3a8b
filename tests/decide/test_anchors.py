import numpy as np
import pytest

from relatent.decide import diagnose_anchors


def test_good_anchors_need_nothing(xp, orthogonal):
    d = diagnose_anchors(xp(orthogonal(12)))
    assert d.conditioning.condition_number == pytest.approx(1)
    assert d.conditioning.effective_rank == pytest.approx(12)
    assert d.recommendations == ("Nothing to fix.",)
    assert d.coverage is None


def test_near_duplicates_are_counted(rng):
    a = rng.normal(size=(500, 64))
    a[88:] = a[rng.integers(88, size=412)] * rng.uniform(1, 5, size=(412, 1))
    d = diagnose_anchors(a)
    assert d.duplicates == sum(
        np.any(np.delete(a @ v, i) > (1 - 1e-9) * np.linalg.norm(v) * np.delete(np.linalg.norm(a, axis=1), i))
        for i, v in enumerate(a)
    )
    assert f"{d.duplicates} of 500 anchors are within 0.02 of another: prune or pick by farthest point." in str(d)


def test_opposite_anchors_are_collinear_and_not_duplicates(rng):
    a = rng.normal(size=(30, 40))
    a[29] = -2 * a[0]
    d = diagnose_anchors(a)
    assert (d.duplicates, d.collinear) == (0, 2)
    assert "2 of 30 anchors lie within 0.02 of another's line, some opposite: prune." in d.recommendations


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda a: a + 5, "the space is off center: center first"),
        (lambda a: np.concatenate([a, np.zeros((3, 8))]), "3 of 43 anchors are zero vectors"),
        (lambda a: a * ([1.0] * 7 + [0.0]), "span 7 of 8 directions"),
        (lambda a: a * ([1.0] * 7 + [1e-6]), "prune, or use a ridge"),
        (lambda a: a[:5], "5 anchors cannot tell 8 coordinates apart"),
    ],
)
def test_what_is_wrong_is_named(rng, spoil, words):
    a = rng.normal(size=(40, 8))
    assert not any(words in line for line in diagnose_anchors(a).recommendations)
    assert any(words in line for line in diagnose_anchors(spoil(a)).recommendations)


def test_coverage_is_the_distance_to_the_nearest_anchor(xp, rng):
    a, x = rng.normal(size=(20, 6)), rng.normal(size=(100, 6))
    cos = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ (a / np.linalg.norm(a, axis=1, keepdims=True)).T
    distance = 1 - cos.max(axis=1)
    coverage = diagnose_anchors(xp(a), xp(x)).coverage
    assert coverage.mean == pytest.approx(distance.mean())
    assert coverage.median == pytest.approx(np.median(distance))
    assert coverage.worst == pytest.approx(distance.max())


def test_uncovered_samples_are_told(rng):
    a = np.abs(rng.normal(size=(60, 4)))
    x = rng.normal(size=(200, 4))
    diagnosis = diagnose_anchors(a, x)
    assert diagnosis.coverage.uncovered > 0.05
    assert any("farther than 0.75 from every anchor" in line for line in diagnosis.recommendations)


def test_one_anchor_and_another_space(rng):
    assert diagnose_anchors(rng.normal(size=(1, 4))).duplicates == 0
    with pytest.raises(ValueError, match="same last axis"):
        diagnose_anchors(rng.normal(size=(3, 4)), rng.normal(size=(9, 5)))


def test_two_anchors_can_be_the_same():
    assert diagnose_anchors(np.asarray([[1.0, 2.0], [2.0, 4.0]])).duplicates == 2
