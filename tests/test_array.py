import array_api_compat
import array_api_strict
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from relatent._array import (
    array_namespace,
    as_float,
    as_labels,
    as_matrices,
    as_matrix,
    as_parallel,
    as_rows,
    as_same_space,
    check_count,
    is_exported,
    is_traced,
    is_tracked,
    like,
    random_generator,
    row_chunks,
    seed_sequence,
    suggest,
    take_rows,
    to_numpy,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("longdouble", "float64"),
        ("bool", "float32"),
        ("int8", "float32"),
        ("uint16", "float32"),
        ("int32", "float64"),
        ("int64", "float64"),
        (">f4", "float32"),
        ("object", "float64"),
    ],
)
def test_every_number_becomes_the_smaller_float_that_holds_it(given, expected):
    out = as_matrix(np.asarray([[1, 0], [0, 1]]).astype(given))
    assert out.dtype == np.dtype(expected)
    assert out.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.bool, torch.float32),
        (torch.int16, torch.float32),
        (torch.int64, torch.float64),
        (torch.float64, torch.float64),
    ],
)
def test_torch_numbers_too(given, expected):
    assert as_matrix(torch.eye(2).to(given)).dtype == expected


def test_lists_and_frames_become_numpy():
    assert as_matrix([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]


def test_a_subclass_with_rules_of_its_own_becomes_a_plain_array():
    class Odd(np.ndarray):
        def __mul__(self, other):
            raise AssertionError

    assert type(as_matrix(np.eye(2).view(Odd))) is np.ndarray


def test_what_fits_passes_uncopied(xp):
    x = xp(np.eye(3))
    assert as_matrix(x) is x


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (np.zeros(3), ValueError, r"x has shape \(3,\): expected 2-D, .* x\[None, :\]"),
        (np.zeros((1, 2, 3)), ValueError, r"x has shape \(1, 2, 3\): expected 2-D"),
        (3.0, ValueError, r"x has shape \(\): expected 2-D"),
        (None, ValueError, "expected 2-D"),
        (np.zeros((0, 3)), ValueError, r"x has 0 sample\(s\) \(shape=\(0, 3\)\)"),
        (np.zeros((3, 0)), ValueError, r"x has 0 feature\(s\) \(shape=\(3, 0\)\)"),
        ([[1, 2], [3]], ValueError, "x cannot be read as a matrix .* rows of equal length"),
        ([["a", "b"]], TypeError, "x has dtype <U1 .*: expected numbers"),
        (np.asarray([["2020"]], dtype="M8[D]"), TypeError, "x has dtype datetime64.*: expected numbers"),
        (np.asarray([[{}]], dtype=object), TypeError, "x has dtype object .*: expected numbers"),
        (np.eye(2) * 1j, ValueError, "x has dtype complex128. Complex data not supported"),
        (torch.eye(2) * 1j, ValueError, "x has dtype torch.complex64. Complex data not supported"),
        (array_api_strict.asarray([[1j]]), ValueError, "Complex data not supported"),
        (scipy.sparse.eye_array(3, format="csr"), TypeError, r"x is a sparse matrix: .*\.toarray\(\)"),
        (scipy.sparse.csc_matrix(np.eye(3)), TypeError, "x is a sparse matrix"),
        (torch.eye(3).to_sparse(), TypeError, "x is a sparse matrix"),
        (np.ma.masked_array(np.eye(2), mask=np.eye(2)), TypeError, "x is a masked array"),
    ],
)
def test_what_is_no_matrix_is_refused_with_a_reason(bad, error, message):
    with pytest.raises(error, match=message):
        as_matrix(bad)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_first_row_that_is_not_finite_is_named(xp, value, dtype):
    x = np.ones((5, 3), dtype=dtype)
    x[2, 1] = x[4, 0] = value
    with pytest.raises(ValueError, match="space holds NaN or infinity in 2 of 5 rows, first in row 2"):
        as_matrix(xp(x), "space")


def test_opposite_infinities_do_not_cancel(xp):
    with pytest.raises(ValueError, match="in 2 of 3 rows, first in row 0"):
        as_matrix(xp(np.asarray([[np.inf], [-np.inf], [0.0]])))


def test_a_sum_that_overflows_is_no_infinity(xp):
    x = np.full((4, 4), np.finfo(np.float32).max)
    assert as_matrix(xp(x)).shape == (4, 4)


def test_two_libraries_are_refused():
    with pytest.raises(TypeError, match="x is a numpy array and anchors is a torch array: expected one library"):
        as_matrices(x=np.eye(2), anchors=torch.eye(2))
    with pytest.raises(TypeError, match="x is a array_api_strict array and y is a torch array"):
        as_matrices(x=array_api_strict.eye(2), y=torch.eye(2))


def test_two_devices_are_refused():
    with pytest.raises(ValueError, match="x is on cpu and anchors is on meta: expected one device"):
        as_matrices(x=torch.eye(2), anchors=torch.eye(2, device="meta"))


def test_different_spaces_are_refused(xp):
    with pytest.raises(
        ValueError, match=r"x \(10, 3\) and anchors \(5, 7\): expected the same last axis. Take anchors"
    ):
        as_same_space(x=xp(np.zeros((10, 3))), anchors=xp(np.zeros((5, 7))))


def test_one_space_has_one_dtype(xp):
    a, b = as_same_space(a=xp(np.eye(2, dtype=np.float32)), b=xp(np.eye(2)))
    assert a.dtype == b.dtype
    assert to_numpy(a).dtype == np.float64


def test_rows_that_are_not_parallel_are_refused():
    with pytest.raises(ValueError, match="x has 3 rows and y has 4 rows: expected the same number"):
        as_parallel(x=np.zeros((3, 2)), y=np.zeros((4, 5)))
    assert [a.shape for a in as_parallel(x=np.zeros((3, 2)), y=np.zeros((3, 5)))] == [(3, 2), (3, 5)]


def test_labels_have_one_axis():
    assert as_labels(["a", "b"]).tolist() == ["a", "b"]
    with pytest.raises(ValueError, match=r"labels has shape \(2, 1\): expected one entry per row"):
        as_labels([["a"], ["b"]])


@pytest.mark.parametrize("k", [0, -1, 2.5, True, None, "3", float("nan"), float("inf")])
def test_a_count_is_a_whole_number(k):
    with pytest.raises(ValueError, match="anchors were asked for: expected a whole number of at least 1"):
        check_count(k, 10)


def test_more_than_there_are_reports_both_numbers():
    with pytest.raises(ValueError, match="11 anchors were asked for but there are only 10 rows"):
        check_count(11, 10)
    assert [check_count(k, 10) for k in (1, 10, np.int64(3), 4.0)] == [1, 10, 3, 4]


def test_like_gives_kind_dtype_and_device(xp):
    x = xp(np.zeros((2, 2), dtype=np.float32))
    for value in (np.eye(2), torch.eye(2, dtype=torch.float64), array_api_strict.eye(2)):
        out = like(value, x)
        assert type(out) is type(x)
        assert out.dtype == x.dtype
        assert out.device == x.device
        assert to_numpy(out).tolist() == [[1, 0], [0, 1]]


def test_to_numpy_reads_bfloat16_and_gradients():
    assert to_numpy(torch.ones(2, dtype=torch.bfloat16)).tolist() == [1, 1]
    assert to_numpy(torch.ones(2, requires_grad=True)).tolist() == [1, 1]


def test_take_rows_takes_rows(xp):
    x = np.arange(12.0).reshape(4, 3)
    assert to_numpy(take_rows(xp(x), np.asarray([3, 0]))).tolist() == x[[3, 0]].tolist()


@given(n=st.integers(0, 50), size=st.integers(1, 60))
def test_chunks_cover_all_rows_once_and_stay_within(n, size):
    chunks = list(row_chunks(n, size))
    assert [row for chunk in chunks for row in range(chunk.start, chunk.stop)] == list(range(n))
    assert all(chunk.stop - chunk.start <= size for chunk in chunks)


def test_the_nearest_name_is_suggested():
    assert suggest("cosin", ["cosine", "inner"]) == " Did you mean 'cosine'? There are: cosine, inner."
    assert suggest("zzz", ["cosine", "inner"]) == " There are: cosine, inner."


def test_a_seed_is_an_integer_a_generator_or_nothing():
    generator = np.random.default_rng(3)
    assert random_generator(generator) is generator
    assert random_generator(5).integers(100) == random_generator(np.int64(5)).integers(100)
    assert random_generator(None) is not None
    with pytest.raises(TypeError, match="seed is 'a': expected an integer"):
        random_generator("a")


def test_consecutive_seeds():
    assert seed_sequence(7, 3) == [7, 8, 9]
    drawn = seed_sequence(np.random.default_rng(0), 3)
    assert np.diff(drawn).tolist() == [1, 1]
    assert drawn == seed_sequence(np.random.default_rng(0), 3)


def test_the_namespace_is_that_of_the_standard(xp):
    a = xp(np.eye(2))
    assert array_namespace(a, a) is (np if isinstance(a, np.ndarray) else array_api_compat.array_namespace(a, a))
    with pytest.raises(TypeError):
        array_namespace(np.eye(2), torch.eye(2))
    with pytest.raises(TypeError):
        array_namespace()


def test_what_torch_tracks():
    plain, graded, shape = torch.eye(2), torch.eye(2).requires_grad_(), torch.empty(2, 2, device="meta")
    seen = {}

    class Look(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen["export"] = [f(x) for f in (is_traced, is_exported, is_tracked)]
            return x + 1

    torch.export.export(Look(), (plain,))
    assert seen["export"] == [True, True, True]
    for arrays, expected in (
        ([np.eye(2)], [False, False, False]),
        ([plain], [False, False, False]),
        ([plain, graded], [False, False, True]),
        ([np.eye(2), shape], [True, False, True]),
    ):
        assert [f(*arrays) for f in (is_traced, is_exported, is_tracked)] == expected


def test_float16_stays_float16_for_what_casts_blocks():
    info = np.finfo(np.float16)
    x = np.asarray([[info.max, -info.max], [info.smallest_subnormal, -0.0]], dtype=np.float16)
    assert as_rows(x) is x
    assert as_matrix(x).dtype == np.float32
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="first in row 1"):
            as_rows(np.asarray([[1, 2], [3, bad]], dtype=np.float16))
    with pytest.raises(ValueError, match="expected 2-D"):
        as_rows(x[0])


def test_every_float16_is_widened_to_the_number_that_it_is():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite, rest = every[np.isfinite(every)], every[~np.isfinite(every)]
    np.testing.assert_array_equal(as_float(finite).view(np.uint32), finite.astype(np.float32).view(np.uint32))
    np.testing.assert_array_equal(as_float(rest), rest.astype(np.float32))
    assert as_float(finite.reshape(-1, 2)[::2]).dtype == np.float32
    for dtype in (np.float32, np.float64):
        assert as_float(kept := np.ones(2, dtype=dtype)) is kept
