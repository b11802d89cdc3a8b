"""Ranges of rows that can be read apart: they cover every row once, and begin where a file can be entered."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import relatent as rl
from relatent.spaces.chunks import row_ranges


@given(st.integers(0, 500), st.integers(1, 100), st.none() | st.sets(st.integers(1, 499)))
def test_ranges_cover_every_row_once(count, size, inner):
    entries = None if inner is None else [0, *sorted(entry for entry in inner if entry < count)]
    found = row_ranges(count, size, entries)
    assert (found[0][0], found[-1][1]) == (0, count)
    assert all(stop == start for (_, stop), (start, _) in pairwise(found))
    assert all(stop - start >= size for start, stop in found[:-1])
    if entries is not None:
        assert {start for start, _ in found} <= set(entries)
    elif count:
        assert all(stop - start <= size for start, stop in found)


def test_a_huge_row_group_is_cut_all_the_same():
    found = row_ranges(3 * 2**20, 1000, [0])
    assert [stop - start for start, stop in found] == [2**20] * 3


@pytest.fixture
def folder(tmp_path):
    """Two Parquet files of four row groups and one, 450 rows."""
    for name, rows, group in (("a", 400, 100), ("b", 50, 50)):
        lists = pa.array(list(np.full((rows, 2), rows, np.float32)), pa.list_(pa.float32(), 2))
        pq.write_table(
            pa.table({"id": np.arange(rows), "vector": lists}), tmp_path / f"{name}.parquet", row_group_size=group
        )
    return tmp_path


def test_ranges_of_files_begin_at_row_groups(folder):
    assert rl.read_space(folder / "a.parquet").ranges(150) == [(0, 200), (200, 400)]
    assert rl.read_space(folder).ranges(150) == [(0, 200), (200, 400), (400, 450)]
    assert rl.read_space(folder).ranges(10_000) == [(0, 450)]


@pytest.mark.parametrize("within", [(0, 450), (120, 130), (390, 410), (449, 450), (0, 0)])
def test_a_range_is_read_as_it_stands_in_the_whole(folder, within):
    space = rl.read_space(folder)
    start, stop = within
    chunks = list(space.chunks(60, within=within))
    assert chunks[0].start == start
    np.testing.assert_array_equal(np.concatenate([chunk.vectors for chunk in chunks]), space.vectors[start:stop])
    rows = np.arange(start, stop)[::-3]
    np.testing.assert_array_equal(rl.read_space(folder).take(rows), space.vectors[rows])
