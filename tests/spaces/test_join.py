"""Joins on keys: what is joined on, what is left out, and when rows are paired by their order."""

import datetime
import decimal
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import relatent as rl
from relatent.spaces import Space, inspect_space, match_keys, parallel, read_space, write_space
from relatent.spaces.io.columns import KEY_NAMES
from relatent.spaces.join import align


def of(keys, d=2):
    """A space whose vectors spell their row numbers."""
    return Space(np.arange(len(keys) * d, dtype=np.float64).reshape(len(keys), d), keys=keys)


def save(path, /, rows=3, **columns):
    """Write a Parquet file as others write them: vectors that spell their row numbers, and columns."""
    vectors = pa.array([[float(i), 1.0] for i in range(rows)], pa.list_(pa.float32()))
    pq.write_table(pa.table({"embedding": vectors, **columns}), path)
    return path


def test_parallel_joins_on_keys_in_the_order_of_x():
    x, y = of(["a", "b", "c", "d"]), of(["d", "z", "b"], d=3)
    joined = parallel(x, y)
    assert joined.keys.tolist() == ["b", "d"]
    np.testing.assert_array_equal(joined.x, x.vectors[[1, 3]])
    np.testing.assert_array_equal(joined.y, y.vectors[[2, 0]])
    assert joined.only_x.tolist() == ["a", "c"]
    assert joined.only_y.tolist() == ["z"]
    assert joined.duplicates.tolist() == []
    assert joined.on == ("key", "key")
    assert joined.left_out == (2, 1)
    assert joined.summary() == (
        "2 keys in common by column 'key'; left out 2 rows of x and 1 of y: 2 only in x ('a', 'c'), 1 only in y ('z')"
    )


def test_ambiguous_keys_are_named_and_left_out():
    joined = parallel(of(["a", "b", "b", "c", "d"]), of(["d", "c", "c", "b", "a"]))
    assert joined.keys.tolist() == ["a", "d"]
    assert sorted(joined.duplicates.tolist()) == ["b", "c"]
    assert "2 ambiguous" in joined.summary()


def test_integer_keys_of_different_widths_join():
    x = Space(np.zeros((3, 2)), keys=np.asarray([1, 2, 3], dtype=np.int16))
    y = Space(np.ones((2, 2)), keys=np.asarray([3, 1], dtype=np.uint64))
    assert parallel(x, y).keys.tolist() == [1, 3]


def test_dictionary_and_large_string_keys_join():
    x = Space(np.zeros((2, 2)), keys=pa.array(["a", "b"]).dictionary_encode())
    y = Space(np.zeros((2, 2)), keys=pa.array(["b", "a"], pa.large_string()))
    assert parallel(x, y).keys.tolist() == ["a", "b"]


def test_what_cannot_be_joined_is_refused():
    with pytest.raises(ValueError, match=r"No key is in both spaces: x has 'a' and y has 'b'"):
        parallel(of(["a"]), of(["b"]))
    with pytest.raises(ValueError, match=r"first space \(1\) has no keys and the other has 'key'"):
        parallel(Space(np.zeros((1, 1))), of(["b"]))
    with pytest.raises(ValueError, match=r"1 keys of y are null, first in row 1"):
        parallel(of(["a"]), of(["a", None]))
    with pytest.raises(ValueError, match=r"1 and 2 rows cannot be paired by row order"):
        parallel(Space(np.zeros((1, 1))), Space(np.zeros((2, 1))))


def test_without_keys_rows_are_joined_by_number():
    assert parallel(Space(np.zeros((3, 1))), Space(np.zeros((3, 2)))).x_rows.tolist() == [0, 1, 2]


def test_match_keys_reads_no_vector(tmp_path, monkeypatch):
    write_space(of(["a", "b"]), tmp_path / "x.parquet")
    x = read_space(tmp_path / "x.parquet")
    monkeypatch.setattr("relatent.spaces.io.tables.as_matrix", None)
    assert match_keys(x, x).x_rows.tolist() == [0, 1]


def test_parallel_of_files_equals_parallel_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    a = Space(rng.normal(size=(500, 3)), keys=[f"k{i}" for i in rng.permutation(500)])
    b = Space(rng.normal(size=(400, 2)), keys=[f"k{i}" for i in rng.permutation(600)[:400]])
    write_space(a, tmp_path / "a.parquet")
    write_space(b, tmp_path / "b.jsonl")
    there, here = parallel(read_space(tmp_path / "a.parquet"), read_space(tmp_path / "b.jsonl")), parallel(a, b)
    np.testing.assert_array_equal(there.x, here.x)
    np.testing.assert_array_equal(there.y, here.y)
    assert there.keys.tolist() == here.keys.tolist()


@pytest.mark.parametrize("name", [*KEY_NAMES, "ID", "Doc_Id", "URL"])
def test_a_column_is_the_key_if_its_name_says_so(tmp_path, name):
    assert read_space(save(tmp_path / "x.parquet", **{name: ["a", "b", "c"]})).layout.key == name


@pytest.mark.parametrize("name", ["rank", "label", "text", "title", "split", "n", "user_id"])
@pytest.mark.parametrize("values", [["a", "b", "c"], [3, 1, 2]])
def test_the_only_column_of_text_or_integers_is_no_key(tmp_path, name, values):
    space = read_space(save(tmp_path / "x.parquet", **{name: values}))
    assert not space.has_keys
    assert read_space(tmp_path / "x.parquet", key=name).keys.tolist() == values


@pytest.mark.parametrize("ending", [".parquet", ".npz", ".jsonl", ".arrow", ".safetensors", ".h5", ".npy"])
def test_no_format_takes_a_rank_for_a_key(tmp_path, ending):
    write_space(Space(np.eye(3), others={"rank": [3, 1, 2]}), tmp_path / f"x{ending}")
    assert not read_space(tmp_path / f"x{ending}").has_keys


def test_files_with_a_rank_are_paired_by_row_order_and_say_so(tmp_path):
    x = read_space(save(tmp_path / "x.parquet", rank=[1, 2, 3]))
    y = read_space(save(tmp_path / "y.parquet", rank=[3, 2, 1]))
    matched = match_keys(x, y)
    assert matched.y_rows.tolist() == [0, 1, 2]
    assert matched.on is None
    assert matched.summary() == "3 rows paired by row order"


def test_files_of_unequal_length_without_keys_are_refused_with_the_remedy(tmp_path):
    x = read_space(save(tmp_path / "x.parquet", rank=[1, 2, 3]))
    y = read_space(save(tmp_path / "y.parquet", rows=2, rank=[2, 1]))
    with pytest.raises(ValueError, match=r"3 and 2 rows cannot be paired by row order.*key=, one of: rank"):
        parallel(x, y)


def test_row_order_when_asked_overrules_keys():
    x, y = of(["a", "b"]), of(["b", "a"])
    assert match_keys(x, y).y_rows.tolist() == [1, 0]
    assert match_keys(x, y, by_row=True).y_rows.tolist() == [0, 1]
    assert match_keys(x.without_keys(), y.without_keys()).summary() == "2 rows paired by row order"
    with pytest.raises(ValueError, match="2 and 1 rows cannot be paired by row order"):
        parallel(x, of(["a"]), by_row=True)


def test_a_guessed_key_that_is_not_unique_is_refused(tmp_path):
    path = save(tmp_path / "x.parquet", name=["cat", "dog", "cat"])
    x = read_space(path)
    with pytest.raises(ValueError, match=r"'name' of x is named like a key and is not unique: 1 of .* \('cat'\)"):
        match_keys(x, of(["cat", "dog"]))
    assert match_keys(x, x, by_row=True).on is None
    named = match_keys(read_space(path, key="name"), of(["cat", "dog"]))
    assert named.keys.tolist() == ["dog"]
    assert named.left_out == (2, 1)
    assert named.on == ("name", "key")


KEY_TYPES = {
    "uuid": pa.array([uuid.UUID(int=i).bytes for i in range(3)], pa.uuid()),
    "binary": pa.array([b"\xff", b"\xfe", b"c"]),
    "fixed-size binary": pa.array([b"\xff1", b"\xff2", b"\xff3"], pa.binary(2)),
    "float": pa.array([1.5, 2.0, 3.0]),
    "date": pa.array([datetime.date(2026, 1, 1 + i) for i in range(3)]),
    "timestamp": pa.array([datetime.datetime(2026, 1, 1, i) for i in range(3)]),
    "decimal": pa.array([decimal.Decimal(i) for i in range(3)]),
    "string_view": pa.array(["a", "b", "c"], pa.string_view()),
    "large_string": pa.array(["a", "b", "c"], pa.large_string()),
    "dictionary": pa.array(["a", "b", "c"]).dictionary_encode(),
    "integer dictionary": pa.array([5, 6, 7]).dictionary_encode(),
    "uint64": pa.array([2**63, 1, 2], pa.uint64()),
}


@pytest.mark.parametrize("keys", KEY_TYPES.values(), ids=KEY_TYPES)
def test_every_type_of_key_is_read_and_joined_out_of_order(tmp_path, keys):
    if not pa.types.is_string_view(keys.type):  # which Parquet stores as string
        save(tmp_path / "x.parquet", id=keys)
    else:
        vectors = pa.array([[float(i), 1.0] for i in range(3)], pa.list_(pa.float32()))
        table = pa.table({"embedding": vectors, "id": keys})
        with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    x = read_space(next(tmp_path.iterdir()))
    y = of(x.keys[::-1].copy())
    assert x.layout.key == "id"
    assert match_keys(x, y).y_rows.tolist() == [2, 1, 0]
    assert inspect_space(x).duplicate_keys == 0


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".h5", ".npy", ".arrow", ".parquet"])
@pytest.mark.parametrize("kind", ["large_string", "dictionary", "date", "binary", "integer dictionary"])
def test_keys_are_not_lost_on_writing(tmp_path, ending, kind):
    space = Space(np.eye(3), keys=KEY_TYPES[kind])
    write_space(space, tmp_path / f"x{ending}")
    back = read_space(tmp_path / f"x{ending}")
    assert back.keys.tolist() == space.keys.tolist()
    assert len(match_keys(space, back)) == 3


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (np.asarray(["a", None, "c"], dtype=object), "holds Python objects, which would have to be unpickled"),
        (np.asarray(["a", "b"]), r"has shape \(2,\) beside 3 vectors"),
        (np.asarray([["a"], ["b"], ["c"]]), r"has shape \(3, 1\) beside 3 vectors"),
    ],
)
def test_ids_in_an_npz_that_cannot_serve_are_refused_with_the_reason(tmp_path, ids, reason):
    np.savez(tmp_path / "x.npz", vectors=np.eye(3), ids=ids, allow_pickle=True)
    with pytest.raises(ValueError, match=f"'ids', which is named like the keys, and {reason}"):
        read_space(tmp_path / "x.npz")


def test_a_key_column_of_a_type_that_cannot_be_one_is_refused_when_joined(tmp_path):
    x = read_space(save(tmp_path / "x.parquet", id=[True, False, True]))
    with pytest.raises(ValueError, match="Column 'id' of x cannot be joined on: bool cannot be a key"):
        match_keys(x, x)
    assert match_keys(x, x, by_row=True).on is None
    assert "bool cannot be keys" in str(inspect_space(x))
    both = read_space(save(tmp_path / "y.parquet", key=[True, False, True], id=["a", "b", "c"]))
    assert both.layout.key == "id"


def test_unicode_keys_are_compared_normalized(tmp_path):
    composed, decomposed = ["caf\N{LATIN SMALL LETTER E WITH ACUTE}", "b"], ["b", "cafe\N{COMBINING ACUTE ACCENT}"]
    assert match_keys(of(composed), of(decomposed)).y_rows.tolist() == [1, 0]


def test_an_integer_and_its_text_are_one_key():
    assert match_keys(of([7, 8]), of(["8", "7"])).y_rows.tolist() == [1, 0]
    assert of([7, 8]).rows_of(["8"]).tolist() == [1]


def test_a_folder_with_keys_of_two_kinds_names_both_files(tmp_path):
    save(tmp_path / "a.parquet", id=["a", "b", "c"])
    save(tmp_path / "b.parquet", id=[1, 2, 3])
    with pytest.raises(ValueError, match=r"a\.parquet has keys of type 'text' and .*b\.parquet has 'integer'"):
        read_space(tmp_path)


def test_a_folder_with_keys_of_two_layouts_is_one_space(tmp_path):
    save(tmp_path / "a.parquet", id=pa.array(["a", "b", "c"]).dictionary_encode())
    save(tmp_path / "b.parquet", id=pa.array(["d", "e", "f"], pa.large_string()))
    assert read_space(tmp_path).keys.tolist() == list("abcdef")


def test_a_folder_whose_other_columns_clash_names_both_files(tmp_path):
    save(tmp_path / "a.parquet", n=[1, 2, 3])
    save(tmp_path / "b.parquet", n=["x", "y", "z"])
    with pytest.raises(ValueError, match=r"Column 'n' is int64 in .*a\.parquet and string in .*b\.parquet"):
        _ = read_space(tmp_path).others


def test_spaces_are_aligned_on_the_keys_that_all_have(rng):
    x = np.arange(30.0).reshape(10, 3)
    keys = np.asarray([f"k{i}" for i in range(10)])
    orders = {name: rng.permutation(10)[:8] for name in ("a", "b", "c")}
    spaces = {name: rl.Space(x[order], keys[order]) for name, order in orders.items()}
    found = align(spaces)
    shared = set(orders["a"]) & set(orders["b"]) & set(orders["c"])
    expected = [i for i in orders["a"] if i in shared]
    assert found.keys.tolist() == keys[expected].tolist()
    for vectors in found.vectors.values():
        np.testing.assert_array_equal(vectors, x[expected])


def test_what_cannot_be_aligned_is_refused(rng):
    keyed = rl.Space(np.eye(3), keys=["a", "b", "c"])
    by_row = align({"x": keyed, "y": np.eye(3)})
    assert by_row.keys.tolist() == ["a", "b", "c"]
    assert align({"x": np.eye(3), "y": rl.Space(np.eye(3))}).keys is None
    with pytest.raises(ValueError, match="x and y have keys and z has none: expected keys in all"):
        align({"x": keyed, "y": keyed, "z": np.eye(3)})
    parts = {"y": rl.Space(np.eye(2), keys=["a", "z"]), "z": rl.Space(np.eye(2), keys=["b", "z"])}
    with pytest.raises(ValueError, match="No key is in all of x, y, z"):
        align({"x": keyed, **parts})
