import numpy as np
import pytest

from relatent.decide import Search, Storage, storage_costs, storages

RNG = np.random.default_rng(2)
Y = RNG.normal(size=(300, 48)).astype(np.float32)
SAME = Search(Y, Y)


def cost(*stored, search=SAME, **options):
    return storage_costs({"x": search}, stored, truth=SAME, own=np.arange(len(Y)), **options).lines


def test_float32_costs_nothing_and_bits_cost_most():
    whole, half, small, bits = cost(Storage("float16"), Storage("int8"), Storage("binary"))
    assert whole.score.value == 1
    assert whole.change.value == 0
    assert half.score.value > 0.99
    assert 0.9 < small.score.value <= 1
    assert bits.score.value < small.score.value
    assert bits.change.high < 0


def test_the_score_is_the_overlap_with_the_neighbors_of_rounded_vectors():
    rounded = Y.astype(np.float16).astype(np.float32)[:, :20]
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (Y, rounded, Y[:, :20])]
    scores = unit[0] @ unit[0].T, unit[2] @ unit[1].T
    for each in scores:
        np.fill_diagonal(each, -2)
    best = [set_of(np.argsort(-each, axis=1)[:, :10]) for each in scores]
    expected = np.mean([len(a & b) / 10 for a, b in zip(*best, strict=True)])
    assert cost(Storage("float16", 20))[1].score.value == pytest.approx(expected, abs=1e-3)


def set_of(rows):
    return [set(row.tolist()) for row in rows]


def test_judged_items_are_scored_by_ndcg():
    relevant = [[(i + 1) % 300] for i in range(300)]
    report = storage_costs({"x": SAME}, [Storage("int8")], truth=SAME, own=np.arange(300), relevant=relevant)
    assert report.measure == "nDCG@10"
    assert "int8" in str(report)


@pytest.mark.parametrize(("kind", "dims", "size"), [("float32", None, 192), ("binary", None, 6), ("int8", 20, 20)])
def test_bytes_of_a_vector(kind, dims, size):
    assert Storage(kind, dims).nbytes(48) == size


def test_a_prefix_that_is_no_prefix_is_left_out():
    assert [line.storage for line in cost(*storages(["int8"], [48, 16]))] == [
        "float32",
        "int8",
        "float32, first 16",
        "int8, first 16",
    ]


def test_more_coordinates_than_there_are_is_an_error():
    with pytest.raises(ValueError, match="first 49 coordinates were asked for of 48"):
        cost(*storages(["int8"], [49]))


@pytest.mark.parametrize("wrong", [{"kind": "int4"}, {"dims": 0}])
def test_what_cannot_be_stored_is_refused(wrong):
    with pytest.raises(ValueError, match=r"no storage|at least 1"):
        Storage(**wrong)
