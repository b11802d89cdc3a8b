"""Tables as pandas, spreadsheets and batch services write them: CSV, numbered columns, nested JSON."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatent._files import FileError
from relatent.spaces import Space, match_keys, read_space, write_space

pd = pytest.importorskip("pandas")
NAMES = ["k007", "8", "日本", "d, e"]


@pytest.fixture
def frame(rng):
    """A data frame of four vectors of nine coordinates, with numbers as column names."""
    return pd.DataFrame(rng.normal(size=(4, 9)).astype(np.float32))


def read_text(folder, text, name="x.csv", **options):
    (folder / name).write_text(text, "utf8")
    return read_space(folder / name, **options)


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("index", [None, NAMES])
@pytest.mark.parametrize(("name", "delimiter"), [("x.csv", ","), ("x.csv", ";"), ("x.tsv", "\t")])
def test_a_data_frame_as_pandas_writes_it(tmp_path, frame, header, index, name, delimiter):
    frame.index = frame.index if index is None else index
    if ";" in delimiter:
        frame.index = frame.index.map(lambda k: str(k).replace(",", "")) if index else frame.index
    text = frame.to_csv(sep=delimiter, header=header, index=index is not None)
    back = read_text(tmp_path, text, name)
    np.testing.assert_array_equal(back.vectors, frame.to_numpy())
    assert back.dtype == np.float32
    assert back.has_keys is (index is not None)
    if index:
        assert back.keys.tolist() == frame.index.tolist()


@pytest.mark.parametrize("write", [lambda row: json.dumps(row.tolist()), str], ids=["JSON", "as NumPy prints"])
def test_a_column_of_lists(tmp_path, frame, write):
    lists = [write(row) for row in frame.to_numpy()]
    pd.DataFrame({"id": NAMES, "embedding": lists, "topic": list("abca")}).to_csv(tmp_path / "x.csv", index=False)
    back = read_space(tmp_path / "x.csv")
    np.testing.assert_allclose(back.vectors, frame.to_numpy(), rtol=1e-6, atol=1e-7)
    assert back.keys.tolist() == NAMES
    assert back.others.column("topic").to_pylist() == list("abca")


def test_keys_are_texts_with_their_zeros(tmp_path):
    assert read_text(tmp_path, "id,v0,v1\n007,1,2\n7,3,4\n").keys.tolist() == ["007", "7"]


def test_integers_that_differ_before_other_numbers_are_keys_without_a_header(tmp_path):
    assert read_text(tmp_path, "17,0.5,1\n4,1,0.25\n").keys.tolist() == ["17", "4"]
    assert not read_text(tmp_path, "1,2\n3,4\n").has_keys


def test_texts_may_have_commas_quotes_and_lines(tmp_path):
    back = read_text(tmp_path, 'id,note,v0,v1\na,"one, ""two""\nthree",1,2\nb,,3,4\nc,"",5,6\n')
    assert back.others.column("note").to_pylist() == ['one, "two"\nthree', None, ""]
    assert back.vectors.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_gzip_and_a_byte_order_mark(tmp_path):
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfid,v0,v1\r\na,1,2\r\n"))
    back = read_space(tmp_path / "x.csv.gz")
    assert (back.keys.tolist(), back.vectors.tolist()) == (["a"], [[1, 2]])


def test_a_column_that_is_whole_at_first_may_have_fractions_later(tmp_path):
    lines = "".join(f"{i},{i},1\n" for i in range(3_000))
    assert read_text(tmp_path, f"id,v0,v1\n{lines}x,0.5,2\n").vectors[-1].tolist() == [0.5, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,v0,v1\na,1,2\nb,1\n", "cannot be read.*Expected 3 columns, got 2"),
        ("id,v0,v1\na,1,2\nb,x,2\n", "another type.*'x'"),
        ("id,v0,v1\na,1,2\nb,,2\n", "no number under 'v0' in row 1"),
        ("id,v0,v0\na,1,2\n", "two columns 'v0'"),
        ("id,v0,v1\na,1,2\nb,1e39,2\n", "float32 cannot hold in row 1"),
        ('id,e\na,"[1, 2]"\nb,"[1, 2, 3]"\n', "different lengths: 2 coordinates at first, 3 in row 1"),
        ('id,e\na,"[1, 2]"\nb,"[1, x]"\n', r"'\[1, x\]' under 'e' in row 1"),
        ('id,e\na,"[1, 2]"\nb,\n', "1 null vectors, first in row 1"),
        ("id,price\na,1\n", r"no column of vectors.*id \(string\), price \(int64\)"),
        ("id,score1,score2\na,1,2\n", "If these columns are one vector, say vector='score'"),
        ("id,v0\n", "no column of vectors"),
        ("\n", "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_csv_is_named(tmp_path, text, message):
    with pytest.raises(FileError, match=message):
        _ = read_text(tmp_path, text).vectors


def test_few_numbered_columns_are_read_when_asked_for(tmp_path):
    back = read_text(tmp_path, "id,score1,score2\na,1,2\n", vector="score")
    assert (back.vectors.tolist(), back.keys.tolist()) == ([[1, 2]], ["a"])


def test_a_number_beyond_float32_is_read_as_float64(tmp_path):
    assert read_text(tmp_path, "v0,v1\n1e39,1\n", dtype="float64").vectors[0, 0] == 1e39


def test_types_of_our_csv_come_back(tmp_path, rng):
    others = {"zip": ["01", "02"], "n": [1, None], "flag": [True, False], "list": ["[1]", "[2]"], "note": [None, ""]}
    write_space(Space(rng.normal(size=(2, 3)), keys=["1", "2"], others=others), tmp_path / "x.csv")
    back = read_space(tmp_path / "x.csv")
    assert {name: back.others.column(name).to_pylist() for name in others} == others
    assert back.keys.tolist() == ["1", "2"]
    assert pd.read_csv(tmp_path / "x.csv")["vector"].map(json.loads).map(len).tolist() == [3, 3]


@pytest.mark.parametrize(
    ("name", "others", "message"),
    [
        ("x.csv", {"tags": [["a"], []]}, "cannot keep the columns tags"),
        ("x.tsv", {"note": ["a\tb", ""]}, "tabs, quotes or line ends"),
        ("x.tsv", {"note": ["a", None]}, "missing text from an empty one"),
    ],
)
def test_what_a_table_cannot_hold_is_refused(tmp_path, name, others, message):
    with pytest.raises(FileError, match=message):
        write_space(Space(np.eye(2), keys=["a", "b"], others=others), tmp_path / name)
    assert not list(tmp_path.iterdir())


# Numbered columns and the index of pandas, in Parquet.


def test_numbered_columns_are_one_vector(tmp_path, rng):
    x = rng.normal(size=(500, 12)).astype(np.float32)
    shuffled = rng.permutation(12)
    columns = {f"v_{i}": x[:, i] for i in shuffled} | {"id": range(500), "year": range(500)}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=100)
    back = read_space(tmp_path / "x.parquet")
    np.testing.assert_array_equal(back.vectors, x)
    np.testing.assert_array_equal(back.take([400, 3]), x[[400, 3]])
    assert back.dtype == np.float32
    assert back.others.column_names == ["id", "year"]
    np.testing.assert_array_equal(np.concatenate([c.vectors for c in back.chunks(rows=70)]), x)


def test_two_groups_of_numbered_columns_must_be_chosen_from(tmp_path, rng):
    x = rng.normal(size=(3, 10))
    pq.write_table(pa.table({f"{stem}{i}": x[:, i] for stem in ("old", "new_") for i in range(10)}), tmp_path / "x.pq")
    with pytest.raises(FileError, match=r"several columns of vectors: old, new\. Say which one with vector='old'"):
        read_space(tmp_path / "x.pq")
    np.testing.assert_array_equal(read_space(tmp_path / "x.pq", vector="new").vectors, x)


def test_a_null_coordinate_is_named_by_row_and_column(tmp_path):
    columns = {f"v{i}": [1.0, 2.0] for i in range(8)} | {"v5": [1.0, None]}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with pytest.raises(FileError, match="no number under 'v5' in row 1"):
        _ = read_space(tmp_path / "x.parquet").vectors


def test_hundreds_of_columns_are_not_listed(tmp_path):
    columns = {f"c{i}": [1.0] for i in range(384) if i != 77} | {f"name{'x' * i}": ["a"] for i in range(1, 50)}
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    with pytest.raises(FileError, match="has no column of vectors") as caught:
        read_space(tmp_path / "x.parquet")
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    ("index", "found"),
    [
        (["a", "b", "c"], True),
        ([5, 9, 7], False),
        (pd.Index([5, 9, 7], name="item"), True),
        (None, False),
        (pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]), False),
    ],
    ids=["text", "integers", "named", "range", "two levels"],
)
def test_the_index_of_pandas_is_the_key_where_it_is_named_or_text(tmp_path, index, found):
    pd.DataFrame({"vector": list(np.eye(3))}, index=index).to_parquet(tmp_path / "x.parquet")
    back = read_space(tmp_path / "x.parquet")
    assert back.has_keys is found
    if found:
        assert back.keys.tolist() == list(index)


def test_an_index_with_repeated_texts_is_refused_by_a_join(tmp_path):
    pd.DataFrame({"vector": list(np.eye(3))}, index=["a", "a", "b"]).to_parquet(tmp_path / "x.parquet")
    back = read_space(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="not unique"):
        match_keys(back, back)


# JSON lines.


def write_lines(path, objects):
    path.write_text("".join(json.dumps(one) + "\n" for one in objects), "utf8")
    return path


def batch_line(i, vectors=1, failed=False):
    """One line as OpenAI's Batch API writes it for /v1/embeddings."""
    data = [{"object": "embedding", "index": j, "embedding": [0.5, float(i), j]} for j in range(vectors)]
    body = {"object": "list", "data": data, "model": "text-embedding-3-small", "usage": {"total_tokens": 3}}
    answer = None if failed else {"status_code": 200, "request_id": f"r{i}", "body": body}
    error = {"code": "server_error", "message": "try again"} if failed else None
    return {"id": f"batch_req_{i}", "custom_id": f"item-{i}", "response": answer, "error": error}


def test_results_of_a_batch(tmp_path):
    back = read_space(write_lines(tmp_path / "x.jsonl", map(batch_line, (2, 0, 1))))
    assert back.keys.tolist() == ["item-2", "item-0", "item-1"]
    assert back.vectors.tolist() == [[0.5, 2, 0], [0.5, 0, 0], [0.5, 1, 0]]
    write_space(back, tmp_path / "x.parquet")
    np.testing.assert_array_equal(read_space(tmp_path / "x.parquet").vectors, back.vectors)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize(
    ("odd", "message"), [({"failed": True}, "null vector in row"), ({"vectors": 2}, "2 objects in the list.*one text")]
)
def test_a_request_that_failed_or_had_several_texts_is_named(tmp_path, odd, message, at):
    lines = [batch_line(i, **odd) if i == at else batch_line(i) for i in range(3)]
    with pytest.raises(FileError, match=message) as caught:
        _ = read_space(write_lines(tmp_path / "x.jsonl", lines)).vectors
    assert f"row {at}" in str(caught.value)


def test_nested_keys_and_vectors(tmp_path):
    lines = [{"meta": {"id": f"k{i}", "lang": "en"}, "out": {"vec": [i, 0.5]}} for i in range(3)]
    path = write_lines(tmp_path / "x.jsonl", lines)
    back = read_space(path, key="meta.id")
    assert back.keys.tolist() == ["k0", "k1", "k2"]
    assert back.others.column("meta").to_pylist() == [one["meta"] for one in lines]
    assert read_space(path, key="meta.id", vector="out.vec").vectors.tolist() == [[i, 0.5] for i in range(3)]
    with pytest.raises(FileError, match=r"no column 'meta\.di'. Did you mean 'meta\.id'"):
        read_space(path, key="meta.di")


def test_a_name_with_a_dot_is_found_first(tmp_path):
    lines = [{"meta.id": "outer", "meta": {"id": "inner"}, "vector": [1, 2]}]
    assert read_space(write_lines(tmp_path / "x.jsonl", lines), key="meta.id").keys.tolist() == ["outer"]
