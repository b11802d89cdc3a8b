"""Judged pairs from the files that people have."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatent._files import FileError
from relatent.decide import read_relevance


@pytest.mark.parametrize(
    ("name", "text", "grades"),
    [
        ("pairs.csv", 'item,query\n007,"x, y"\n', None),
        ("pairs.tsv", "q\td\nx, y\t007\n", None),
        ("graded.csv", 'query,grade,document\n"x, y",2,007\n', [2.0]),
        ("beir.tsv", "query-id\tcorpus-id\tscore\nx, y\t007\t1\n", [1.0]),
        ("graded.jsonl", '{"query": "x, y", "item": "007", "relevance": 3}\n', [3.0]),
    ],
)
def test_tables(tmp_path, name, text, grades):
    (tmp_path / name).write_text(text)
    found = read_relevance(tmp_path / name)
    assert (found.queries, found.items, found.grades) == (["x, y"], ["007"], grades)
    assert found.name == f"the pairs in {name}"


def test_parquet_with_integer_keys(tmp_path):
    pq.write_table(pa.table({"query": [1, 2], "item": [3, 4], "grade": [0, 2]}), tmp_path / "a.parquet")
    found = read_relevance(tmp_path / "a.parquet")
    assert (found.queries, found.items, found.grades) == ([1, 2], [3, 4], [0, 2])


@pytest.mark.parametrize("name", ["test.qrels", "qrels.txt", "qrels", "qrels.tsv"])
@pytest.mark.parametrize("gap", [" ", "\t"])
def test_trec_qrels(tmp_path, name, gap):
    lines = (("q1", "0", "d1", "2"), ("q1", "0", "d2", "0"), ("q2", "0", "d1", "-1"))
    (tmp_path / name).write_text("\n".join(gap.join(line) for line in lines) + "\n\n")
    found = read_relevance(tmp_path / name)
    assert (found.queries, found.items, found.grades) == (["q1", "q1", "q2"], ["d1", "d2", "d1"], [2, 0, -1])


@pytest.mark.parametrize("header", ["", "query-id\tcorpus-id\tscore\n"])
@pytest.mark.parametrize("inside", ["qrels", "."])
def test_beir_folders(tmp_path, header, inside):
    """The test split first; ids of queries and documents are texts of their own."""
    folder = tmp_path / "scifact"
    (folder / inside).mkdir(parents=True)
    (folder / inside / "dev.tsv").write_text(f"{header}7\t7\t1\n")
    assert read_relevance(folder).queries == ["7"]
    (folder / inside / "test.tsv").write_text(f"{header}1\tdoc one\t2\n1\t2\t0\n")
    found = read_relevance(folder)
    assert (found.queries, found.items, found.grades) == (["1", "1"], ["doc one", "2"], [2, 0])
    assert found.name == "the pairs in scifact"
    alone = read_relevance(folder / inside / "test.tsv")
    assert (alone.queries, alone.items, alone.grades) == (found.queries, found.items, found.grades)


def test_a_folder_without_judgments_is_refused(tmp_path):
    with pytest.raises(FileError, match=r"has no qrels/\*\.tsv: expected a BEIR folder"):
        read_relevance(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.tsv", "q\td\t1\nq\td\n", "Line 2 of .*f.tsv has 2 values: expected the three of BEIR"),
        ("a.tsv", "q\td\n1\t2\n3\n", r"Line 2 of .* has 1 values and the header 2"),
        ("b.tsv", "q\n1\n", "has 1 columns: expected two"),
        ("c.txt", "q 0 d 1\nq d 1\n", "Line 2 of .*c.txt has 3 values: expected the four of TREC qrels"),
        ("d.qrels", "q 0 d good\n", "Grade 1 of .*d.qrels is 'good': expected a number"),
        ("e.csv", "query,item,grade\na,b,\n", "Grade 1 of .*e.csv is '': expected a number"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(FileError, match=message):
        read_relevance(tmp_path / name)
