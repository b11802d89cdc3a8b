"""Vector columns of Arrow batches, in every layout."""

import numpy as np
import pyarrow as pa
import pytest

from relatent.spaces.io.columns import BatchVectors, batch_vectors, with_vectors

ROWS = [[1.0, 2.0, 3.0], None, [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
LAYOUTS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "fixed_size_list": lambda value: pa.list_(value, 3),
}


@pytest.mark.parametrize("value", [pa.float16(), pa.float32(), pa.float64(), pa.int8()], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_read_alike_and_nulls_are_passed_over(layout, value):
    whole = np.float16 if value == pa.float16() else float if pa.types.is_floating(value) else int
    rows = [None if row is None else [whole(v) for v in row] for row in ROWS]
    batch = pa.record_batch({"e": pa.array(rows, LAYOUTS[layout](value))})
    for part in (batch, batch.slice(1), pa.table(batch), pa.concat_tables([pa.table(batch)] * 2)):
        found = batch_vectors(part, "e")
        expected = part.column("e").to_pylist()
        assert found.rows.tolist() == [i for i, row in enumerate(expected) if row is not None]
        assert found.vectors.tolist() == [row for row in expected if row is not None]
        assert found.vectors.dtype == (value.to_pandas_dtype() if pa.types.is_floating(value) else np.float32)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [[], [None, None]], ids=str)
def test_a_batch_without_vectors_stays_one(layout, rows):
    batch = pa.record_batch({"e": pa.array(rows, LAYOUTS[layout](pa.float32()))})
    found = batch_vectors(batch, "e", dim=3)
    assert found.vectors.shape == (0, 3)
    written = with_vectors(batch, "new", found)
    assert written.column("new").to_pylist() == rows
    assert written.schema.field("new").type == pa.list_(pa.float32(), 3)


@pytest.mark.parametrize(
    ("rows", "dim", "message"),
    [
        ([[1.0, 2.0], None, [3.0]], None, "a vector of 1 coordinates in row 2 of the batch: expected 2"),
        ([None, [1.0, 2.0]], 3, "a vector of 2 coordinates in row 1 of the batch: expected 3"),
        ([[1.0], None, [np.nan], [np.inf]], None, "Row 2 of the batch holds NaN or infinity in column 'e', as do 1"),
        ([[1.0], None, [None]], None, "Row 2 of the batch has a null inside its vector in column 'e'"),
        ([1.0, 2.0], None, "Column 'e' holds double: expected lists of numbers"),
    ],
)
def test_a_wrong_row_is_named_with_its_column(rows, dim, message):
    with pytest.raises(ValueError, match=message):
        batch_vectors(pa.record_batch({"e": pa.array(rows)}), "e", dim)


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"no column 'embeding'\. Did you mean 'embedding'"):
        batch_vectors(pa.record_batch({"embedding": [[1.0]]}), "embeding")


def test_a_column_is_replaced_only_if_that_was_asked_for():
    batch = pa.record_batch({"a": [[1.0]], "b": [2]})
    new = BatchVectors(np.asarray([[5.0, 6.0]]), np.asarray([0]))
    with pytest.raises(ValueError, match="There is a column 'a' already"):
        with_vectors(batch, "a", new)
    replaced = with_vectors(batch, "a", new, replace=True)
    assert replaced.schema.names == ["a", "b"]
    assert replaced.column("a").to_pylist() == [[5.0, 6.0]]
