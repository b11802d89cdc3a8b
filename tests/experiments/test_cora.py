from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from itertools import combinations, islice

import numpy as np
import pytest
import scipy.sparse
import torch
from experiments.data.graphs import Citations
from experiments.models.graph import Graph
from experiments.relative_representations import cora, nodes, training
from experiments.relative_representations.cora import (
    GRID,
    balanced,
    complete,
    follow,
    good,
    models,
    pearson,
    similarity,
)
from experiments.relative_representations.nodes import Run, Task, make_task
from experiments.results import Record as RunRecord
from experiments.results import Result, write_record
from filelock import FileLock

N, CLASSES = 90, 3
TINY = Run(layers=2, width=40)


@pytest.fixture(scope="module")
def papers() -> Citations:
    """Three groups of nodes that share words, and edges mostly within groups; the last node has no words."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % CLASSES
    near = np.where(y[:, None] == y, 0.15, 0.01)
    words = rng.random((N, 12)) < np.where(np.arange(12) % CLASSES == y[:, None], 0.6, 0.2)
    words[:, 0] = True
    words[-1] = False
    edges = np.argwhere(np.triu(rng.random((N, N)) < near, 1))
    return Citations(scipy.sparse.csr_matrix(words.astype(np.float32)), edges, y)


@pytest.fixture(scope="module")
def task(papers: Citations) -> Task:
    return make_task(papers, test=0.2, n_anchors=20)


@pytest.fixture(scope="module")
def reference(task: Task) -> torch.Tensor:
    return list(nodes.train(*TINY.build(task), task, 12))[-1].embedding


def test_the_grid_holds_1920_models_and_the_reference_without_its_epochs():
    assert len(set(GRID)) * len(cora.EPOCHS) == 1920
    assert Run() in GRID


def unevenness(runs: list[Run]) -> int:
    """How much more often the most frequent pair of two settings occurs than the rarest, at worst."""
    worst = 0
    for a, b in combinations(list(asdict(Run()))[1:], 2):
        often = Counter((getattr(run, a), getattr(run, b)) for run in runs)
        counts = [often[getattr(run, a), getattr(run, b)] for run in GRID]
        worst = max(worst, max(counts) - min(counts))
    return worst


@pytest.mark.parametrize("count", [10, 34])
def test_a_subset_has_every_pair_of_settings_about_equally_often(count):
    chosen = list(islice(balanced(GRID, seed=3), count))
    assert len(set(chosen)) == count
    assert unevenness(chosen) <= 3
    assert unevenness(GRID[:count]) > 3


def test_the_order_holds_every_run_once_and_changes_with_the_seed():
    small = GRID[:40]
    assert Counter(balanced(small)) == Counter(small)
    assert list(balanced(small, seed=1)) != list(balanced(small, seed=2))


def test_nodes_train_or_validate_or_test_and_anchors_train(task, papers):
    parts = [task.train, task.validation, task.test]
    assert sorted(np.concatenate(parts)) == list(range(N))
    assert [len(part) for part in parts] == [63, 9, 18]
    assert set(task.anchors) <= set(task.train)
    assert len(set(task.anchors)) == 20
    assert not np.array_equal(task.train, make_task(papers, seed=1, test=0.2, n_anchors=20).train)


def test_features_of_a_node_sum_to_one_and_a_node_without_words_stays_zero(task):
    sums = task.graph.features.to_dense().sum(dim=1)
    assert torch.allclose(sums[:-1], torch.ones(N - 1))
    assert sums[-1] == 0


def test_a_short_training_is_the_beginning_of_a_long_one_and_of_no_other_seed(task, reference):
    short, long = (follow(TINY, task, reference, epochs) for epochs in (3, 6))
    other = follow(replace(TINY, seed=2), task, reference, 6)
    for name in ("accuracy", "similarity", "centered"):
        assert short[name] == long[name][:3]
        assert len(long[name]) == 6
    assert other["similarity"] != long["similarity"]


def test_training_learns_the_groups(task, reference):
    record = follow(TINY, task, reference, 12)
    assert max(record["accuracy"]) > 0.6
    assert record["similarity"][-1] == pytest.approx(1, abs=1e-5)


def test_a_training_that_overflows_is_cut_short_and_has_no_similarity(task, reference):
    large = replace(task, graph=Graph(1e38 * task.graph.features, task.graph.neighbors, task.graph.normalized))
    record = follow(replace(TINY, conv="GINConv", layers=4), large, reference, 5)
    assert len(record["accuracy"]) < 5
    assert set(record["similarity"]) == {None}
    assert not good(models(record))


@pytest.mark.parametrize(("change", "kept"), [(lambda x, q: -2 * x @ q, True), (lambda x, q: x**3, False)])
def test_similarity_is_one_for_a_turned_space_only(rng, orthogonal, change, kept):
    x, turn = rng.normal(size=(50, 6)), orthogonal(6)
    a, b = (torch.from_numpy(space) for space in (x, change(x, turn)))
    found = similarity(a, b, np.arange(20), center=False)
    assert (found == pytest.approx(1)) is kept


@pytest.mark.parametrize("spoil", [torch.nan, torch.inf])
def test_a_space_that_overflowed_or_collapsed_has_no_similarity(spoil):
    x = torch.randn(9, 3)
    spoilt = x.clone()
    spoilt[4, 1] = spoil
    assert similarity(spoilt, x, np.arange(4), center=False) is None
    assert similarity(torch.ones(9, 3), x, np.arange(4), center=False) is None


def test_pearson_leaves_out_epochs_without_a_similarity():
    rising = [0.1, 0.2, 0.4, 0.3]
    assert pearson(rising, [1 - 2 * a for a in rising]) == pytest.approx(-1)
    assert pearson(rising, [0.2, None, 0.8, 0.6]) == pytest.approx(1)
    assert pearson(rising, [0.5] * 4) is None
    assert pearson(rising, [None, None, None, 0.1]) is None


def test_models_are_beginnings_with_their_own_best_epoch():
    record = {"run": asdict(Run()), "accuracy": [0.2, 0.6, 0.1, 0.9], "similarity": [0.3, 0.5, 0.2, 0.7]}
    first, whole = models(record, lengths=(3, 4))
    assert (first.best_accuracy, first.similarity_at_best) == (0.6, 0.5)
    assert (whole.best_accuracy, whole.similarity_at_best) == (0.9, 0.7)
    assert good([first, whole, replace(whole, best_accuracy=0.5), replace(whole, correlation=None)]) == [first, whole]


def test_a_second_call_trains_only_what_is_missing(task, reference, tmp_path, monkeypatch):
    monkeypatch.setattr(cora, "EPOCHS", (4,))
    monkeypatch.setattr(cora, "follow", counted := Counted(follow))
    runs = [TINY, replace(TINY, seed=2), replace(TINY, optimizer="SGD")]
    complete(tmp_path, runs[:2], task, reference, 2)
    records = complete(tmp_path, runs, task, reference, len(runs))
    assert counted.calls == 3
    assert [Run(**record["run"]) for record in records] == runs
    assert len(complete(tmp_path, runs[1:2], task, reference, 1)) == 1
    assert len(complete(tmp_path, [*runs, replace(TINY, seed=3)], task, reference, 4, hours=0)) == len(runs)
    assert counted.calls == 3
    assert not list(tmp_path.glob("*.part"))


def test_a_training_that_another_process_is_running_is_skipped(task, reference, tmp_path):
    runs = [TINY, replace(TINY, seed=2)]
    with FileLock(tmp_path / f"{cora.name_of(runs[0])}.lock"):
        assert [Run(**record["run"]) for record in complete(tmp_path, runs, task, reference, 2)] == runs[1:]
    assert [Run(**record["run"]) for record in complete(tmp_path, runs, task, reference, 2)] == runs


def test_curves_survive_their_text_but_for_a_step():
    record = {"run": asdict(TINY), "accuracy": [0.0, 0.5, 1.0], "similarity": [-1.0, None, 0.3], "centered": [1.0] * 3}
    found = cora.unpacked(TINY, cora.packed(record))
    assert found["run"] == record["run"]
    for name in cora.CURVES:
        assert found[name] == pytest.approx(record[name], abs=0.5 / cora.STEPS)


@pytest.mark.parametrize(("changed", "restored"), [(False, True), (True, False)])
def test_trainings_of_the_committed_record_are_restored_unless_their_sources_changed(
    task, reference, tmp_path, monkeypatch, changed, restored
):
    text = cora.packed(follow(TINY, task, reference, 2))
    known = cora.sources.digests(cora.TRAINED_BY) | ({cora.TRAINED_BY[0]: "0"} if changed else {})
    result = Result([], series={"trainings": {cora.name_of(TINY): text}})
    monkeypatch.setattr(cora, "COMMITTED", tmp_path / "kept")
    write_record(tmp_path / "kept", RunRecord("rr-figure3", "full", "c", 1.0, {}, result, sources=known))
    cora.restore(tmp_path, "full")
    assert (tmp_path / cora.name_of(TINY)).is_file() is restored


def test_no_more_are_trained_than_asked_for(task, reference, tmp_path):
    assert complete(tmp_path, [TINY], task, reference, 0) == []
    runs = [TINY, replace(TINY, seed=2), replace(TINY, seed=3)]
    first = complete(tmp_path, runs, task, reference, 2)
    assert len(first) == 2
    assert complete(tmp_path, runs, task, reference, 2) == first  # whatever the folder holds, the table is the same


class Counted:
    def __init__(self, function) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *arguments):
        self.calls += 1
        return self.function(*arguments)


def test_the_table_and_the_picture_tell_of_all_models(task, reference):
    records = [follow(replace(TINY, seed=seed), task, reference, 12) for seed in range(2)]
    every = {name: [m for r in records for m in models(r, name)] for name in cora.VARIANTS}
    rows = cora.table(every, 0.9).rows
    assert rows[0][2].endswith(f"of {len(records) * len(cora.EPOCHS)}")
    assert rows[0][-1] == 0.955
    assert len(cora.points(every["similarity"])) == len(every["similarity"])
    weak, *_, strong = cora.over_time(records)
    assert weak["correlation"] <= strong["correlation"]
    assert strong["accuracy"] in [r["accuracy"] for r in records]


@pytest.mark.parametrize(("kind", "learns"), [("absolute", True), ("relative", False), (training.CENTERED, True)])
def test_a_relative_head_learns_a_small_graph_in_few_epochs_only_when_centered(task, kind, learns):
    options = training.GRAPH_KINDS[kind]
    relative = {} if options is None else {"anchor_rows": task.anchors, **options}
    assert (training.best_epoch(task, TINY, 12, relative) > 0.5) is learns
