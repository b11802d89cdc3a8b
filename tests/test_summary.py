from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from relatent import Pairs, Translator
from relatent._files import FileError
from relatent.summary import needs_double
from relatent.translate import Summary, summarize

FIELDS = ("mean_x", "mean_y", "xx", "xy", "yy")


def pairs(n: int = 200, dx: int = 5, dy: int = 3, seed: int = 0, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, dx))
    return x + offset, x[:, :dy] + rng.normal(size=(n, dy)) - offset


def assert_same(a: Summary, b: Summary, rtol: float = 1e-10) -> None:
    assert a.n == pytest.approx(b.n, rel=rtol)
    for name in FIELDS:
        scale = np.abs(getattr(b, name)).max() or 1.0
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=rtol * scale, err_msg=name)


def test_a_summary_is_the_moments_about_the_means(xp):
    x, y = pairs()
    s = summarize(xp(x), xp(y))
    joint = np.cov(x.T, y.T) * (len(x) - 1)
    np.testing.assert_allclose(s.xx, joint[:5, :5])
    np.testing.assert_allclose(s.xy, joint[:5, 5:])
    np.testing.assert_allclose(s.yy, joint[5:, 5:])
    np.testing.assert_allclose(s.mean_x, x.mean(0))
    assert s.n == len(x)
    assert s.xx.dtype == np.float64


def test_diagonals_alone_are_those_of_the_full_summary():
    x, y = pairs()
    full, lean = summarize(x, y), summarize(x, y, full_x=False, full_y=False)
    np.testing.assert_allclose(lean.xx, np.diagonal(full.xx))
    np.testing.assert_allclose(lean.yy, np.diagonal(full.yy))
    np.testing.assert_allclose(lean.xy, full.xy)
    assert_same(lean + lean, summarize(np.tile(x, (2, 1)), np.tile(y, (2, 1)), full_x=False, full_y=False))
    with pytest.raises(ValueError, match="expected the same"):
        full + lean


def test_ten_thousand_chunks_in_any_order_agree():
    x, y = pairs(20_000, offset=50.0)
    order = np.random.default_rng(1).permutation(10_000)
    chunks = [summarize(x[2 * i : 2 * i + 2], y[2 * i : 2 * i + 2]) for i in order]
    total = chunks[0]
    for chunk in chunks[1:]:
        total = total + chunk
    assert_same(total, summarize(x, y))


@given(st.lists(st.integers(1, 60), min_size=2, max_size=6), st.integers(0, 2**31))
def test_merging_is_associative_and_subtraction_undoes_it(sizes, seed):
    x, y = pairs(sum(sizes), seed=seed)
    bounds = np.cumsum([0, *sizes])
    parts = [summarize(x[a:b], y[a:b]) for a, b in pairwise(bounds)]
    left, right = parts[0], parts[-1]
    for part in parts[1:]:
        left = left + part
    for part in reversed(parts[:-1]):
        right = part + right
    assert_same(left, right)
    assert_same(left - parts[-1], summarize(x[: bounds[-2]], y[: bounds[-2]]), rtol=1e-9)


def test_weights_are_repetitions():
    x, y = pairs(30)
    counts = np.random.default_rng(3).integers(0, 4, size=30)
    assert_same(summarize(x, y, counts), summarize(np.repeat(x, counts, axis=0), np.repeat(y, counts, axis=0)))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.full(30, -1.0), "Weight 0 is -1.0"),
        (np.r_[np.ones(29), np.nan], "Weight 29 is nan"),
        (np.zeros(30), "Every weight is zero"),
        (np.ones(29), "29 weights for 30 pairs"),
        (np.ones((30, 1)), "1-D"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        summarize(*pairs(30), weights)


def test_a_large_offset_costs_float32_data_no_digits():
    x, y = pairs(5_000)
    near = summarize(x.astype(np.float32), y.astype(np.float32))
    far_x, far_y = (x + 1e4).astype(np.float32), (y - 1e4).astype(np.float32)
    # What float32 itself rounds away at 1e4 is not the summary's doing: compare with the rounded data, exactly.
    exact = summarize(far_x.astype(np.float64) - 1e4, far_y.astype(np.float64) + 1e4)
    far = summarize(far_x, far_y)
    np.testing.assert_allclose(far.xx, exact.xx, rtol=1e-9, atol=1e-9 * exact.xx.max())
    np.testing.assert_allclose(far.xy, near.xy, atol=1e-2 * np.abs(near.xy).max())


def test_bytes_round_trip_and_refuse_damage():
    s = summarize(*pairs())
    raw = s.to_bytes()
    assert_same(Summary.from_bytes(raw), s, rtol=0)
    with pytest.raises(FileError):
        Summary.from_bytes(raw[:-3])
    with pytest.raises(FileError):
        Summary.from_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))


def test_moments_about_the_origin():
    x, y = pairs(offset=2.0)
    s = summarize(x, y).about_origin()
    np.testing.assert_allclose(s.xx, x.T @ x)
    np.testing.assert_allclose(s.xy, x.T @ y)
    np.testing.assert_allclose(s.yy, y.T @ y)
    assert not np.any(s.mean_x)


def test_different_lengths_and_dims_are_refused():
    x, y = pairs()
    with pytest.raises(ValueError, match="x has 200 rows and y has 199 rows"):
        summarize(x, y[1:])
    with pytest.raises(ValueError, match="expected the same"):
        summarize(x, y) + summarize(y, x)
    with pytest.raises(ValueError, match="some must remain"):
        summarize(x, y) - summarize(x, y)
    with pytest.raises(TypeError, match="one library"):
        summarize(x, torch.from_numpy(y))


def rows_of(kind: str, n: int = 12_000, d: int = 40, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d))
    mixed = {
        "decaying spectrum": x * np.arange(1, d + 1) ** -1.0,
        "correlated": x @ rng.normal(size=(d, d)),
        "far from zero": x + 100.0,
        "of unequal scale": x * np.logspace(0, 2, d),
        "one direction missing": x - x.mean(axis=1, keepdims=True),
        "one direction hardly reached": np.column_stack([x[:, 1:], x[:, 1] + 1e-5 * x[:, 0]]),
        "a constant coordinate": np.column_stack([x[:, 1:], np.full(n, 0.1)]),
    }
    return mixed[kind].astype(np.float32)


SINGLE = ["decaying spectrum", "correlated", "far from zero", "of unequal scale"]
DOUBLE = ["one direction missing", "one direction hardly reached", "a constant coordinate"]


@pytest.mark.parametrize(("kind", "double"), [*((k, False) for k in SINGLE), *((k, True) for k in DOUBLE)])
def test_only_well_conditioned_float32_rows_are_multiplied_in_float32(kind, double):
    x = rows_of(kind)
    assert needs_double(x, x) is double
    assert needs_double(x.astype(np.float64), x)
    assert needs_double(x, x.astype(np.float64))
    assert needs_double(x, x, full_x=False)
    assert needs_double(x[:40], x[:40])  # too few rows to tell


@pytest.mark.parametrize("kind", [*SINGLE, *DOUBLE])
@pytest.mark.parametrize("offset", [False, True])
def test_least_squares_of_many_float32_rows_is_that_of_float64(kind, offset):
    """Residual within 1 + 1e-6, predictions within 1e-4 of their norm, of numpy.linalg.lstsq in float64."""
    x = rows_of(kind)
    rng = np.random.default_rng(1)
    y = (x @ rng.normal(size=(40, 30)) + rng.normal(size=(len(x), 30))).astype(np.float32)
    t = Translator(map="affine" if offset else "least_squares", normalize="none").fit(x, y)
    assert not t.pairs_.complete  # or nothing is summed up before solving
    wide, target = x.astype(np.float64), y.astype(np.float64)
    wide = np.column_stack([wide, np.ones(len(wide))]) if offset else wide
    theirs = wide @ np.linalg.lstsq(wide, target, rcond=1e-6)[0]
    ours = t.transform(x).astype(np.float64)
    spread = np.linalg.norm(theirs - theirs.mean(axis=0) if offset else theirs)
    assert np.linalg.norm(target - ours) <= (1 + 1e-6) * np.linalg.norm(target - theirs)
    assert np.linalg.norm(ours - theirs) <= 1e-4 * spread


@pytest.mark.parametrize(("kind", "double"), [*((k, False) for k in SINGLE), *((k, True) for k in DOUBLE)])
def test_only_a_well_conditioned_cross_product_is_formed_in_float32(kind, double):
    lean = {"full_x": False, "full_y": False}
    x = rows_of(kind)
    wide = np.column_stack([x, np.random.default_rng(1).normal(size=(len(x), 5))]).astype(np.float32)
    for a, b in ((x, x), (x, wide), (wide, x)):
        assert needs_double(a, b, **lean) is double
        assert needs_double(a.astype(np.float64), b, **lean)
        assert needs_double(a, b.astype(np.float64), **lean)
        assert needs_double(a[:40], b[:40], **lean)  # too few rows to tell


@pytest.mark.parametrize("scale", [1e-25, 1e25])
@pytest.mark.parametrize("full", [False, True])
def test_products_that_float32_cannot_hold_are_formed_in_float64(scale, full):
    x = rows_of("correlated") * np.float32(scale)
    assert needs_double(x, x, full_x=full, full_y=full)
    summed = Pairs.of(x, x, full_x=full, full_y=full).summary
    assert_same(summed, summarize(x.astype(np.float64), x.astype(np.float64), full_x=full, full_y=full))


@pytest.mark.parametrize("kind", [*SINGLE, *DOUBLE])
@pytest.mark.parametrize("dim", [25, 40, 60])
def test_the_rotation_of_many_float32_rows_is_that_of_float64(kind, dim):
    """Residual within 1 + 1e-6, predictions within 1e-4 of their norm, of the SVD of XᵀY in float64."""
    x = rows_of(kind)
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.normal(size=(60, 60)))[0][:40, :dim]
    y = (x @ turn + 0.3 * np.std(x) * rng.normal(size=(len(x), dim))).astype(np.float32)
    t = Translator(map="orthogonal", normalize="none").fit(x, y)
    assert not t.pairs_.complete
    wide, target = x.astype(np.float64), y.astype(np.float64)
    u, s, vt = np.linalg.svd(wide.T @ target, full_matrices=False)
    kept = s > 1e-12 * s[0]
    theirs, ours = wide @ (u[:, kept] @ vt[kept]), wide @ t.matrix_.astype(np.float64)
    assert np.linalg.norm(target - ours) <= (1 + 1e-6) * np.linalg.norm(target - theirs)
    assert np.linalg.norm(ours - theirs) <= 1e-4 * np.linalg.norm(theirs)


def test_products_in_float32_are_sums_in_float64():
    x = rows_of("correlated")
    summed = Pairs.of(x, x).summary
    assert summed.xx.dtype == np.float64
    assert_same(summed, summarize(x.astype(np.float64), x.astype(np.float64)), rtol=1e-6)
