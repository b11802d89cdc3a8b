from threading import Barrier, Thread

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.linalg import polar as scipy_polar
from threadpoolctl import threadpool_info

from relatent._array import to_numpy
from relatent._linalg import (
    conditioning,
    eigh,
    polar,
    positive_inverse,
    pseudo_inverse,
    row_basis,
    row_norms,
    spectrum,
    threads_for,
    unit_norm,
)

shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7)
matrices = hnp.arrays(np.float64, shapes, elements=st.floats(-1e3, 1e3, allow_subnormal=False))


@given(matrices)
def test_unit_rows_have_length_one_or_zero(x):
    lengths = np.linalg.norm(unit_norm(x), axis=1)
    assert np.allclose(lengths, np.any(x, axis=1))


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-20, 1.0, 1e20, 1e30, 1e37])
def test_length_does_not_matter_to_a_direction(xp, rng, scale):
    x = rng.normal(size=(5, 4))
    out = unit_norm(xp((x * scale).astype(np.float32)))
    # Below the normal range a float32 itself holds only a few digits.
    assert np.allclose(
        to_numpy(out), x / np.linalg.norm(x, axis=1, keepdims=True), atol=1e-6 if scale > 1e-38 else 1e-3
    )


def test_a_zero_row_stays_zero_among_others(xp):
    out = to_numpy(unit_norm(xp(np.asarray([[0.0, 0.0], [3.0, 4.0], [0.0, -2.0]]))))
    assert out.tolist() == [[0, 0], [0.6, 0.8], [0, -1]]


def test_a_zero_row_has_a_finite_gradient():
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]], dtype=torch.float64, requires_grad=True)
    unit_norm(x).sum().backward()
    assert torch.isfinite(x.grad).all()


@given(matrices)
def test_pseudo_inverse_is_that_of_numpy(a):
    expected = np.linalg.pinv(a, rcond=max(a.shape) * np.finfo(float).eps)
    assert np.allclose(pseudo_inverse(a), expected, rtol=1e-6, atol=1e-6 * max(1.0, np.max(np.abs(expected))))


def test_pseudo_inverse_on_every_kind(xp, rng):
    a = rng.normal(size=(5, 3))
    assert np.allclose(to_numpy(pseudo_inverse(xp(a))), np.linalg.pinv(a))


def test_the_threshold_drops_weak_directions():
    a = np.diag([1.0, 0.5, 0.01])
    assert np.allclose(pseudo_inverse(a, rtol=0.1), np.diag([1.0, 2.0, 0.0]))


def test_the_ridge_is_that_of_tikhonov(rng):
    a, ridge = rng.normal(size=(9, 4)), 0.3
    penalty = ridge * np.trace(a.T @ a) / 4
    assert np.allclose(pseudo_inverse(a, ridge=ridge), np.linalg.solve(a.T @ a + penalty * np.eye(4), a.T))
    with pytest.raises(ValueError, match=r"ridge is -0.1: expected 0 or more"):
        pseudo_inverse(a, ridge=-0.1)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (5, 5)])
@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_an_inverse_that_is_tracked_is_the_same_and_has_a_gradient(rng, shape, rank, ridge):
    a = torch.from_numpy(rng.normal(size=(shape[0], rank)) @ rng.normal(size=(rank, shape[1])))
    followed = a.clone().requires_grad_()
    inverse = pseudo_inverse(followed, ridge=ridge)
    assert torch.allclose(inverse, pseudo_inverse(a, ridge=ridge), atol=1e-9)
    inverse.sum().backward()
    assert torch.isfinite(followed.grad).all()


def test_directions_that_are_tracked_are_the_same_at_every_length(rng):
    x = torch.from_numpy(rng.normal(size=(5, 4)).astype(np.float32))
    lengths = torch.tensor([1e-30, 1e-10, 1.0, 1e10, 1e30])[:, None]
    followed = (x * lengths).requires_grad_()
    out = unit_norm(followed)
    assert torch.allclose(out, unit_norm(x), atol=1e-6)
    # The slope of a direction is that at length 1, divided by the length.
    slope = torch.autograd.grad(out[:, 0].sum(), followed)[0] * lengths
    start = x.clone().requires_grad_()
    assert torch.allclose(slope, torch.autograd.grad(unit_norm(start)[:, 0].sum(), start)[0], atol=1e-5)


def test_a_driver_that_gives_up_is_replaced(xp, rng, monkeypatch):
    def gives_up(*args, **kwargs):
        raise np.linalg.LinAlgError("SVD did not converge")

    a = rng.normal(size=(5, 3))
    expected = np.linalg.pinv(a)
    monkeypatch.setattr(np.linalg, "svd", gives_up)
    assert np.allclose(to_numpy(pseudo_inverse(xp(a))), expected)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_polar_is_the_nearest_semi_orthogonal_matrix(xp, rng, shape):
    m = rng.normal(size=shape)
    q = to_numpy(polar(xp(m)))
    gram = q @ q.T if shape[0] <= shape[1] else q.T @ q
    assert np.allclose(gram, np.eye(min(shape)))
    for _ in range(20):
        u, _, vt = np.linalg.svd(rng.normal(size=shape), full_matrices=False)
        assert np.linalg.norm(m - q) < np.linalg.norm(m - u @ vt)


@pytest.mark.parametrize("weakest", [0.5, 1e-2, 0.9e-3, 1.1e-3, 1e-4, 1e-6, 1e-9])
@pytest.mark.parametrize("shape", [(30, 30), (30, 20), (20, 30)])
def test_polar_keeps_its_digits_however_weak_a_direction_is(rng, shape, weakest):
    k = min(shape)
    u, v = (np.linalg.qr(rng.normal(size=(n, k)))[0] for n in shape)
    m = (u * np.geomspace(1, weakest, k)) @ v.T
    # What rounding of m itself turns: its precision over the weakest direction.
    assert np.abs(polar(m) - u @ v.T).max() < 1e-9 + 1e-14 / weakest


@pytest.mark.parametrize("faint", [0.0, 1e-33, 1e-10, 1e-4])
def test_polar_of_coordinates_that_hardly_vary_is_that_of_an_svd(rng, faint):
    x, y = rng.normal(size=(200, 20)), rng.normal(size=(200, 25))
    x[:, :3] *= faint
    u, s, vt = np.linalg.svd(x.T @ y, full_matrices=False)
    kept = s > 25 * np.finfo(float).eps * s[0]
    # What rounding of the product itself turns.
    apart = 1e-9 + 1e-14 * s[0] / s[kept][-1]
    assert np.abs(polar(x.T @ y) - u[:, kept] @ vt[kept]).max() < apart


def test_a_rough_polar_factor_drops_what_is_fainter_and_keeps_the_rest(rng):
    u, v = (np.linalg.qr(rng.normal(size=(30, 30)))[0] for _ in range(2))
    s = np.geomspace(1, 1e-8, 30)
    kept = s > 1e-4
    rough = polar((u * s) @ v.T, 1e-4)
    assert np.abs(rough - u[:, kept] @ v[:, kept].T).max() < 1e-6
    assert np.abs(rough - scipy_polar((u * s) @ v.T)[0]).max() > 0.1


@pytest.mark.parametrize("order", [64, 127, 128, 256])
def test_eigenvalues_are_those_of_lapack(rng, order):
    rows = rng.normal(size=(order // 2, order))
    m = rows.T @ rows - 0.1 * np.eye(order)  # half of them are equal, and negative
    values, vectors = eigh(m)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(m), atol=1e-10 * values[-1])
    np.testing.assert_allclose((vectors * values) @ vectors.T, m, atol=1e-10 * values[-1])
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(order), atol=1e-12)


def test_the_spectrum_of_a_diagonal_is_its_order():
    values, vectors = spectrum(np.diag([2.0, 0.0, 3.0, 1.0]))
    assert values.tolist() == [1.0, 2.0, 3.0]
    assert np.argmax(vectors, axis=0).tolist() == [3, 0, 2]


@pytest.mark.parametrize("weakest", [1.0, 1e-3, 1e-6, 1e-10])
def test_a_basis_of_rows_spans_them(rng, weakest):
    rows = rng.normal(size=(12, 30)) * np.geomspace(1, weakest, 12)[:, None]
    rows = np.concatenate([rows, rows[:3], rows[:1] + rows[1:2]])
    basis = row_basis(rows)
    assert basis.shape == (30, 12)
    np.testing.assert_allclose(basis.T @ basis, np.eye(12), atol=1e-9)
    assert np.abs(rows - rows @ basis @ basis.T).max() < 1e-12


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_positive_matrix_is_inverted_in_its_precision(rng, dtype):
    rows = rng.normal(size=(40, 10))
    m = (rows.T @ rows).astype(dtype)
    inverse = positive_inverse(m.copy())
    assert inverse.dtype == dtype
    np.testing.assert_allclose(inverse @ m, np.eye(10), atol=1e3 * np.finfo(dtype).eps)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        positive_inverse(-np.eye(3))


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_small_matrices_keep_blas_to_one_thread_whoever_leaves_first():
    before = blas_threads()
    inside, first_left = Barrier(2), Barrier(2)
    seen = []

    def stay() -> None:
        with threads_for(100, 100):
            inside.wait()
            first_left.wait()
            seen.append(blas_threads())

    other = Thread(target=stay)
    other.start()
    with threads_for(100, 100):
        inside.wait()
        assert blas_threads() == {1}
    first_left.wait()
    other.join()
    assert seen == [{1}]
    assert blas_threads() == before


def test_many_rows_and_large_matrices_keep_all_threads():
    before = blas_threads()
    for rows, order in ((10**6, 100), (100, 10**4)):
        with threads_for(rows, order):
            assert blas_threads() == before


def test_polar_turns_no_direction_that_is_not_there(rng):
    thin = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 6))
    q = polar(thin)
    assert np.linalg.matrix_rank(q) == 2
    assert np.allclose(np.linalg.svd(q, compute_uv=False)[:2], 1)


def test_conditioning_of_known_spectra():
    flat = conditioning(np.eye(5)[:3])
    assert (flat.anchors, flat.rank, flat.condition_number) == (3, 3, 1.0)
    assert flat.effective_rank == pytest.approx(3)
    assert conditioning(np.diag([4.0, 2.0])).condition_number == pytest.approx(2)
    peaked = conditioning(np.diag([1.0, 1e-9, 1e-9]))
    assert 1 <= peaked.effective_rank < 1.001
    assert conditioning(np.diag([1.0, 1.0, 0.0])).condition_number == np.inf
    assert conditioning(np.zeros((2, 2))) == conditioning(np.zeros((2, 2)))
    assert conditioning(np.zeros((2, 2))).rank == 0


def test_condition_number_is_that_of_numpy(rng):
    a = rng.normal(size=(8, 5))
    assert conditioning(a).condition_number == pytest.approx(np.linalg.cond(a))
    assert str(conditioning(a)).startswith("8 anchors, rank 5, effective rank")


def test_row_norms(xp):
    assert to_numpy(row_norms(xp(np.asarray([[3.0, 4.0], [0.0, 0.0]])))).tolist() == [5, 0]
