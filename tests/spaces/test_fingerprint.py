"""A fingerprint tells spaces of equal dimension apart, and says why."""

import numpy as np
import pytest

from relatent.spaces import Fingerprint


def model(seed, d=128):
    """A made-up encoder: anisotropic, off-center, as real ones are."""
    rng = np.random.default_rng(seed)
    offset, spread = rng.normal(size=d), np.exp(0.5 * rng.normal(size=d))
    return lambda n, seed: np.random.default_rng(seed).normal(size=(n, d)) * spread + offset


def test_two_samples_of_one_model_match_and_two_models_do_not():
    a, b = model(0), model(1)
    first = Fingerprint.of(a(500, 2))
    assert first.matches(Fingerprint.of(a(300, 3)))
    assert first.matches(Fingerprint.of(a(40, 4)))
    told = first.matches(Fingerprint.of(b(500, 5)))
    assert not told
    assert "different models" in told.reason


def test_a_rotated_space_does_not_match():
    a = model(0)
    rotation = np.linalg.qr(np.random.default_rng(9).normal(size=(128, 128)))[0]
    assert not Fingerprint.of(a(500, 2)).matches(Fingerprint.of(a(500, 3) @ rotation))


def test_unit_rows_do_not_match_others():
    x = model(0)(500, 2)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    told = Fingerprint.of(x).matches(Fingerprint.of(unit))
    assert not told
    assert "one space is normalized and the other is not" in told.reason


def test_an_isotropic_space_cannot_be_told_apart():
    rng = np.random.default_rng(0)
    told = Fingerprint.of(rng.normal(size=(500, 64))).matches(Fingerprint.of(rng.normal(size=(500, 64))))
    assert told
    assert "cannot tell" in told.reason


@pytest.mark.parametrize(
    ("name", "mine", "theirs"),
    [
        ("dim", 3, 4),
        ("model", "a", "b"),
        ("revision", "1", "2"),
        ("pooling", "cls", "mean"),
        ("normalization", "none", "l2"),
        ("layer", -1, -2),
    ],
)
def test_what_both_record_must_be_equal(name, mine, theirs):
    a = Fingerprint(**{"dim": 3, "model": "a", name: mine})
    told = a.matches(Fingerprint(**{"dim": 3, "model": "a", name: theirs}))
    assert not told
    assert told.reason == f"the {name} is {mine!r} in one and {theirs!r} in the other"
    assert a.matches(a)


def test_a_recorded_model_outweighs_the_probe():
    a = Fingerprint.of(model(0)(500, 2), model="m")
    assert a.matches(Fingerprint.of(model(1)(500, 2), model="m"))
    assert not a.matches(Fingerprint.of(model(1)(500, 3)))


def test_json_round_trip():
    made = Fingerprint.of(model(0)(50, 1), model="größe", revision="1", pooling="mean", normalization="l2", layer=-1)
    assert Fingerprint.from_json(made.to_json()) == made
    assert Fingerprint.from_json('{"dim": 3, "of_a_later_version": 1}') == Fingerprint(dim=3)
    for wrong in ("", "[]", "{}", '{"dim": "x"}', '{"dim": 3, "probe": {"rows": 1}}'):
        with pytest.raises(ValueError, match="not a fingerprint"):
            Fingerprint.from_json(wrong)


def test_rows_that_are_not_finite_are_passed_over():
    x = model(0)(50, 1)
    x[3] = np.nan
    assert Fingerprint.of(x).probe.rows == 49
    assert Fingerprint.of(np.full((2, 3), np.nan)).probe is None
    assert Fingerprint.of(np.empty((0, 3))).probe is None
