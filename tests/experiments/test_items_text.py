"""What the items on texts, words and images share, against brute force and on spaces whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from experiments.beyond import geodesic
from experiments.relative_representations import (
    anchor_counts,
    anchor_refresh,
    domains,
    image_heads,
    language_tasks,
    languages,
    lookup,
    points,
    stitched,
)
from experiments.results import Setting
from sklearn.metrics import f1_score

import relatent as rl

N, D = 120, 12


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def turned(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A space, and the same turned and rescaled."""
    x = rng.normal(size=(N, D))
    return x, 3 * x @ np.linalg.qr(rng.normal(size=(D, D)))[0]


@pytest.mark.parametrize(("kind", "finds"), [("absolute", False), *((kind, True) for kind in lookup.KINDS[1:])])
def test_a_turned_space_is_found_in_every_description_but_the_absolute(
    turned: tuple[np.ndarray, np.ndarray], kind: str, finds: bool
) -> None:
    jaccard, mrr, cosine = lookup.compared(kind, *turned, np.arange(40), np.arange(N))
    assert (mrr > 0.95 and jaccard > 0.5 and cosine > 0.9) is finds


@pytest.mark.parametrize("k", [5, lookup.K])
def test_lookup_agrees_with_sets(rng: np.random.Generator, k: int) -> None:
    x, y = rng.normal(size=(2, N, D))
    queries = lookup.sample(N, 30)
    found = lookup.compared("absolute", x, y, np.arange(0), queries, k)

    def near(vector: np.ndarray) -> list[int]:
        cosines = y @ vector / np.linalg.norm(y, axis=1)
        return np.argsort(-cosines)[:k].tolist()

    pairs = [(near(x[i]), near(y[i])) for i in queries]
    jaccard = np.mean([len({*a} & {*b}) / len({*a} | {*b}) for a, b in pairs])
    reciprocal = [1 / (1 + a.index(i)) if i in a else 0.0 for i, (a, _) in zip(queries.tolist(), pairs, strict=True)]
    assert found[:2] == pytest.approx([jaccard, np.mean(reciprocal)])


def test_anchors_are_not_looked_up(turned: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = turned
    wrong = y.copy()
    wrong[:40] = np.roll(y[:40], 1, axis=0)  # anchors that are paired wrongly
    queries = np.arange(40, N)
    assert lookup.compared("absolute", x, wrong, np.arange(40), np.arange(N)) == lookup.compared(
        "absolute", x, wrong, np.arange(40), queries
    )


def test_points_survive_their_text_but_for_a_step(rng: np.random.Generator) -> None:
    x = rng.normal(size=(50, 2))
    scaled = (x - x.min(axis=0)) / np.ptp(x, axis=0)
    assert np.abs(points.unpack(points.pack(x)) - scaled).max() <= 0.5 / 255 + 1e-12


def test_one_plane_shows_turned_spaces_apart_and_relative_ones_alike(turned: tuple[np.ndarray, np.ndarray]) -> None:
    for kind, alike in (("absolute", False), ("relative", True)):
        a, b = points.planes(*lookup.described(kind, *turned, np.arange(40)), "PCA")
        assert np.allclose(a, b, atol=1e-6) is alike


def test_untranslated_vectors_are_cut_or_filled_up() -> None:
    x = np.ones((2, 3))
    for width, kept in ((2, 2), (5, 3)):
        found = stitched.Untranslated().fit(x, np.zeros((1, width))).transform(x)
        assert found.shape == (2, width)
        assert found.sum(axis=1).tolist() == [kept, kept]


def test_guessing_scores_what_random_guesses_score(rng: np.random.Generator) -> None:
    labels = rng.choice(3, 40_000, p=[0.6, 0.3, 0.1])
    train, test = np.arange(20_000), np.arange(20_000, 40_000)
    guesses = rng.permutation(labels[train])
    expected = f1_score(labels[test], guesses, average="weighted")
    assert stitched.guessing(labels, train, test) == pytest.approx(expected, abs=0.01)


def test_a_split_keeps_the_datas_own() -> None:
    train, test = stitched.split(100, 70, (1_000, 20))
    assert sorted(train) == list(range(70))
    assert len(set(test) & set(range(70, 100))) == 20
    train, test = stitched.split(100, None, (50, 30))
    assert (len(train), len(test)) == (50, 20)  # a fifth at most
    assert set(train).isdisjoint(test)


def test_a_relative_head_reads_a_turned_space_and_an_absolute_one_does_not(
    turned: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> None:
    x = rng.normal(size=(600, D)).astype(np.float32)
    spaces = {"one": x, "turned": x @ np.linalg.qr(rng.normal(size=(D, D)))[0].astype(np.float32)}
    labels = np.argmax(x[:, :3], axis=1)
    train, test = stitched.split(600, None, (400, 120))
    matrix = stitched.stitch_all(spaces, labels, 0, train=train, test=test, anchors=60, epochs=15)
    found = stitched.own_and_stitched(matrix)
    assert min(found[stitched.OWN], found[stitched.OWN_RELATIVE]) > 0.8
    assert min(found["relative"], found[stitched.CENTERED], found[stitched.TRANSLATED]) > 0.75
    assert found[stitched.ABSOLUTE] < 0.6
    assert max(found[f"{m}, {control}"] for m in stitched.CONTROLLED for control in stitched.CONTROLS) < 0.6
    assert list(stitched.mean_rows([matrix])) == list(found)


@pytest.mark.parametrize("curve", [geodesic.spiral, geodesic.s_curve])
def test_bending_a_sheet_stretches_nothing(curve) -> None:
    along = np.linspace(0, 4 * np.pi, 3_000)
    steps = np.linalg.norm(np.diff(curve(along)), axis=0)
    assert np.allclose(steps.sum(), 4 * np.pi, rtol=1e-3)
    assert np.allclose(steps, steps.mean(), rtol=0.02)


def test_paths_along_a_sheet_match_where_straight_ones_do_not() -> None:
    result = geodesic.run(Setting("smoke"))
    mrr = {(row[0], row[1]): row[2]["mean"] for row in result.tables[0].rows}
    sheet = next(iter(geodesic.PAIRS))
    assert mrr[sheet, "geodesic"] > 1.5 * max(mrr[sheet, one] for one in ("cosine", "euclidean"))
    figure = geodesic.draw(result)
    assert len(figure.axes) == 3


def test_shuffled_pairs_carry_nothing(turned: tuple[np.ndarray, np.ndarray]) -> None:
    x, y = turned
    true, control = rl.Translator(map="orthogonal"), stitched.ShuffledPairs(rl.Translator(map="orthogonal"))
    assert rl.evaluate.mean_cosine(true.fit(x, y).transform(x), y) > 1 - 1e-6
    assert rl.evaluate.mean_cosine(control.fit(x, y).transform(x), y) < 0.5


def test_anchors_of_the_posts_cover_them_and_those_of_one_direction_do_not(rng: np.random.Generator) -> None:
    posts = rng.normal(size=(200, 10))
    line = np.outer(rng.normal(size=50), np.eye(10)[0]) + 1e-3 * rng.normal(size=(50, 10))
    x = np.concatenate([posts, line])
    spaces = {"one": x, "turned": x @ np.linalg.qr(rng.normal(size=(10, 10)))[0]}
    inside, outside = (domains.measured(spaces, rows, np.arange(200)) for rows in (np.arange(100), np.arange(200, 250)))
    assert inside[0] > 8 > 2 > outside[0]  # breadth: the effective number of axes
    assert inside[1] > 0.9 > 0.3 > outside[1]  # coverage
    assert inside[2] == pytest.approx(1, abs=1e-6)  # a turned space agrees


def test_a_fall_is_as_steep_as_its_standard_errors() -> None:
    scores = np.asarray([[0.5, 0.6, 0.7], [0.1, 0.9, 0.6], [0.08, 0.87, 0.58]])
    at, change, error = anchor_counts.steepest_fall(scores)
    assert at == 1  # the first step falls by more and is noise
    assert change == pytest.approx(-0.07 / 3)
    assert error == pytest.approx(np.std([0.02, 0.03, 0.02], ddof=1) / np.sqrt(3))
    assert not anchor_counts.steepest_fall(scores[::-1])[1] < 0


def test_what_collapsed_is_judged_in_the_same_measure() -> None:
    labels = np.repeat([0, 1, 2], [50, 30, 20])
    guessed = anchor_counts.weighted_f1(labels, np.zeros_like(labels))
    assert guessed < np.mean(labels == 0)  # F1 of always guessing is less than the share of the largest class
    assert anchor_counts.collapsed(np.asarray([guessed, guessed + 0.1]), guessed).tolist() == [True, False]


def test_heads_keep_a_share_of_their_own_score_in_the_published_matrix() -> None:
    kept = image_heads.kept_in_paper("CIFAR-100 coarse")
    assert kept["RexNet"] == pytest.approx((0.5498 + 0.5333 + 0.5982) / 3 / 0.8022)
    assert min(kept, key=lambda head: kept[head]) == image_heads.WIDEST


def test_an_english_head_reads_pairs_that_are_right_and_not_pairs_that_are_wrong(rng: np.random.Generator) -> None:
    x = rng.normal(size=(600, D)).astype(np.float32)
    spaces = {"en": x, "es": x @ np.linalg.qr(rng.normal(size=(D, D)))[0].astype(np.float32)}
    task = language_tasks.Task(np.argmax(x[:, :3], axis=1), *stitched.split(600, None, (400, 120)))
    anchored = language_tasks.Anchored(spaces)
    read = {
        wrong: language_tasks.both(anchored, task, "emoji", range(1), names=("en", "es"), wrong=wrong, epochs=15)[1]
        for wrong in (0.0, 1.0)
    }
    assert languages.abroad(read[0.0], "relative") > 0.75
    assert languages.abroad(read[1.0], "relative") < 0.6
    assert read[0.0]["relative"]["en"] == read[1.0]["relative"]["en"]  # English is as it was
    controls = {row: cells for row, cells in read[0.0].items() if row.endswith(stitched.CONTROLS)}
    assert len(controls) == 4
    assert max(languages.abroad(controls, row) for row in controls) < 0.6


@pytest.mark.parametrize(("every", "embedded"), [(1, 4), (2, 2), (10**9, 1)])
def test_anchors_are_embedded_again_at_every_so_many_steps(every: int, embedded: int) -> None:
    encoder = Counting(torch.nn.Linear(3, 2))
    layer = anchor_refresh.Refreshed(torch.randn(5, 3), encoder, every).train()
    for _ in range(4):
        assert layer(torch.randn(7, 2)).shape == (7, 5)
    assert encoder.calls == embedded
    layer.eval()(torch.randn(7, 2))
    assert encoder.calls == embedded + (every < 10**9)  # those that are never embedded again stay as they are
    assert list(layer.parameters()) == []


class Counting(torch.nn.Module):
    """Count the calls of a module."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Call it."""
        self.calls += 1
        return self.inner(x)
