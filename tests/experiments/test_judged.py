"""Collections with human judgments, and the run over all options, on a tiny folder with encoders made up here."""

from __future__ import annotations

import json
import sys
import zlib
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest
from experiments.data import collections
from experiments.data.collections import load_collection, split
from experiments.migration import judged
from experiments.results import Setting

DOCUMENTS, QUERIES = 400, 60


@pytest.fixture
def folder(tmp_path):
    """A folder in BEIR's layout: query i is about documents 5i and 5i + 1. Ids of both kinds overlap."""
    (tmp_path / "qrels").mkdir()
    rows = [{"_id": str(i), "title": f"title {i}", "text": f"text {i}"} for i in range(DOCUMENTS)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    asked = [{"_id": str(i), "text": f"query {i}"} for i in range(QUERIES + 1)]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
    lines = [f"{i}\t{5 * i + j}\t{2 - j}" for i in range(QUERIES) for j in (0, 1, 2)]
    (tmp_path / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines, "0\tgone\t1"]))
    return tmp_path


@pytest.fixture
def encoders(monkeypatch):
    """Two encoders whose vectors follow from the number in a text, and differ by a rotation and noise."""
    rng = np.random.default_rng(0)
    topics = rng.normal(size=(DOCUMENTS, 12))
    turns = {"old": np.eye(12), "new": np.linalg.qr(rng.normal(size=(12, 12)))[0]}

    def encoded(texts, name):
        for text in texts:
            kind, number = text.split()[0], int(text.split()[1])
            topic = topics[5 * number if kind == "query" else number]
            noise = np.random.default_rng(zlib.crc32(f"{name} {text}".encode())).normal(size=12)
            yield ((topic + 0.3 * noise) @ turns[name] + 1).astype(np.float32)

    def vectors(self, encoder):
        return tuple(np.stack(list(encoded(texts, encoder))) for texts in (self.documents, self.queries))

    monkeypatch.setattr(collections.Collection, "vectors", vectors)


def test_a_folder_is_read_with_and_without_a_header(folder):
    found = load_collection(str(folder))
    assert (found.documents[7], found.queries[3]) == ("title 7 text 7", "query 3")
    assert len(found.queries) == QUERIES  # the last was not judged
    assert found.relevant[3] == {15: 2.0, 16: 1.0}  # grade 0 is not relevant
    path = folder / "qrels" / "test.tsv"
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    assert load_collection(str(folder)).relevant == found.relevant


def test_a_name_is_looked_up_by_ir_datasets(monkeypatch):
    document, query = namedtuple("D", "doc_id title text"), namedtuple("Q", "query_id text")
    judgment = namedtuple("J", "query_id doc_id relevance iteration")
    known = SimpleNamespace(
        docs_iter=lambda: iter([document("a", "one", "text"), document("b", "", "")]),
        queries_iter=lambda: iter([query("a", "asked")]),
        qrels_iter=lambda: iter([judgment("a", "b", 1, "0"), judgment("a", "a", 0, "0")]),
    )
    monkeypatch.setitem(sys.modules, "ir_datasets", SimpleNamespace(load=lambda name: {"tiny": known}[name]))
    found = load_collection("tiny")
    assert (found.documents, found.queries, found.relevant) == (["one text", "empty"], ["asked"], [{1: 1.0}])


def test_without_ir_datasets_a_name_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(SystemExit, match="pip install ir_datasets"):
        load_collection("cranfield")


def test_anchors_are_not_searched_among(folder):
    found = load_collection(str(folder))
    anchors, gallery, asked, relevant = split(found, 100, seed=0)
    assert sorted([*anchors, *gallery]) == list(range(DOCUMENTS))
    for query, wanted in zip(asked, relevant, strict=True):
        assert {int(gallery[row]): grade for row, grade in wanted.items()}.items() <= found.relevant[query].items()


def test_the_run_scores_every_map_and_option(folder, encoders):
    result = judged.run(Setting("smoke", collections=(str(folder),), encoders=("old", "new")))
    maps, options, verdicts = result.tables
    assert [row[1] for row in maps.rows] == ["old → new", "new → old", ""]
    scores = dict(zip(maps.columns[2:], maps.rows[0][2:], strict=True))
    assert 0.3 < scores["index"] <= 1
    assert scores["index"] > scores["orthogonal"] - 0.1
    assert options.columns[2:-1] == judged.OPTIONS
    assert verdicts.rows[-1][1] == 2 * len(judged._anchors(DOCUMENTS))
    assert 0 <= verdicts.rows[-1][2] <= 1
    assert verdicts.rows[-1][3] >= 0  # a regret is never negative
    assert len(result.findings) == 3


def test_a_verdict_is_held_against_the_other_half(rng):
    """Options of known scores: the better half of the queries misleads, and the regret says by how much."""
    from relatent.decide import OptionScores

    half = np.arange(80) < 40
    stay, moved = np.full(80, 0.5), np.where(half, 0.9, 0.1) + 0.01 * rng.normal(size=80)
    scores = {"stay": stay, "translate": moved, "rerank-old": stay, "rerank": stay, "re-embed": stay}
    options = OptionScores({o: s[:, None] for o, s in scores.items()}, ("ndcg",), 10, 300, 50)
    recommended, regret, right = judged._judged(options, half)
    assert recommended == "translate"
    assert regret == pytest.approx(0.5 - np.mean(moved[~half]))
    assert not right
