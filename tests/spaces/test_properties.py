"""Whatever the keys and numbers are, they come back."""

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

from relatent.spaces import Space, parallel, read_space, write_space

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
word = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8)
number = st.integers(-(2**63), 2**63 - 1)


def spaces(keys):
    def with_keys(keys):
        dtype = st.sampled_from([np.float16, np.float32, np.float64])
        shape = st.integers(1, 5).map(lambda d: (len(keys), d))
        vectors = st.tuples(dtype, shape).flatmap(
            lambda a: arrays(*a, elements={"allow_nan": False, "allow_infinity": False})
        )
        return vectors.map(lambda v: Space(v, keys=keys))

    return st.lists(keys, min_size=1, max_size=6, unique=True).flatmap(with_keys)


@pytest.mark.parametrize("name", ["x.parquet", "x.npy", "x.npz", "x.arrow", "x.safetensors", "x.jsonl"])
@settings(max_examples=30, deadline=None)
@given(space=spaces(text) | spaces(number))
def test_any_key_and_any_number_survive(name, space):
    with tempfile.TemporaryDirectory() as folder:
        write_space(space, Path(folder, name))
        back = read_space(Path(folder, name))
        np.testing.assert_array_equal(back.vectors, space.vectors)
        assert back.dtype == space.dtype
        assert back.keys.tolist() == space.keys.tolist()


@pytest.mark.parametrize("name", ["x.txt", "x.vec"])
@settings(max_examples=30, deadline=None)
@given(space=spaces(word))
def test_any_word_survives(name, space):
    with tempfile.TemporaryDirectory() as folder:
        write_space(space, Path(folder, name))
        back = read_space(Path(folder, name))
        np.testing.assert_array_equal(back.vectors, space.vectors)
        assert back.keys.tolist() == space.keys.tolist()


@settings(max_examples=50, deadline=None)
@given(x=st.lists(st.integers(0, 9), max_size=8), y=st.lists(st.integers(0, 9), max_size=8))
def test_a_join_keeps_exactly_the_keys_that_stand_once_on_both_sides(x, y):
    a, b = (Space(np.asarray(keys, dtype=np.float64).reshape(-1, 1), keys=np.asarray(keys, int)) for keys in (x, y))
    expected = [key for key in x if x.count(key) == 1 and y.count(key) == 1]
    if not expected:
        with pytest.raises(ValueError, match="No key is in both"):
            parallel(a, b)
        return
    joined = parallel(a, b)
    assert joined.keys.tolist() == expected
    assert joined.x.ravel().tolist() == joined.y.ravel().tolist() == expected
    assert set(joined.only_x) == set(x) - set(y)
    assert set(joined.only_y) == set(y) - set(x)
    assert set(joined.duplicates) == {key for key in {*x, *y} if x.count(key) > 1 or y.count(key) > 1}
