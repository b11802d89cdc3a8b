from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from experiments.data.tasks import split
from experiments.inverse_relative_projection import activations, matrix, modalities, norms, sensitivity
from experiments.inverse_relative_projection import stitching_findings as stitching
from experiments.inverse_relative_projection.decoding import condition_number, decode_grid
from experiments.inverse_relative_projection.layers import Classifier
from experiments.items import ITEMS
from experiments.latent_space_translation.scale import kind
from experiments.published import MISSING, source
from experiments.results import Setting
from sklearn.linear_model import LogisticRegression
from torch import nn

import relatent as rl


@pytest.fixture
def spaces(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(120, 12)) + 1
    return x, np.tanh(x @ rng.normal(size=(12, 8))) + 2


@pytest.mark.filterwarnings("ignore:Decoding these codes")  # of nearly all anchors
def test_every_point_of_the_grid_is_the_translator_with_its_options(spaces: tuple[np.ndarray, np.ndarray]) -> None:
    (x, y), rows = spaces, np.arange(60)
    for one in decode_grid(x, x[rows], y[rows], (0.3, 0.7), (1, 3), seed=5):
        translator = rl.RelativeTranslator("cosine", delta=one.delta, omega=one.omega, seed=5).fit(x[rows], y[rows])
        assert np.allclose(one.vectors, translator.transform(x))
        assert one.anchors == np.mean([len(s) for s in translator.encoder_.subspaces_])


def test_stronger_pruning_leaves_fewer_and_better_conditioned_anchors(spaces: tuple[np.ndarray, np.ndarray]) -> None:
    _, y = spaces
    weak, strong = decode_grid(y, y, y, (0.1, 0.8), (1,))
    assert strong.anchors < weak.anchors
    assert strong.condition_number < weak.condition_number


@pytest.mark.parametrize("shape", [(30, 6), (6, 30)])
def test_condition_number_is_that_of_numpy(shape: tuple[int, int], rng: np.random.Generator) -> None:
    a = rng.normal(size=shape)
    assert condition_number(a) == pytest.approx(np.linalg.cond(a))


def test_condition_number_leaves_out_what_is_not_inverted(rng: np.random.Generator) -> None:
    a = rng.normal(size=(30, 6))
    dead = np.hstack([a, np.zeros((30, 2))])
    assert condition_number(dead) == pytest.approx(np.linalg.cond(a))
    assert not np.isclose(np.linalg.cond(dead), np.linalg.cond(a))


@pytest.mark.parametrize("train", [None, 80])
def test_rows_to_fit_choose_and_test_share_none(train: int | None) -> None:
    fit, choice, test = split(100, train, seed=3)
    assert sorted(np.concatenate([fit, choice, test])) == list(range(100))
    if train is not None:
        assert np.concatenate([fit, choice]).max() < train <= test.min()
    assert not np.array_equal(fit, split(100, train, seed=4)[0])


def test_digits_show_that_only_monotone_activations_ignore_norms() -> None:
    pytest.importorskip("matplotlib")
    result = activations.run(Setting("smoke"))
    assert [kind(curve)[0] for curve in result.series.values()] == ["flat", "flat", "oscillating"]
    assert activations.draw(result).axes[0].get_lines()


class Words(nn.Module):
    """A transformer of no layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(20, 4)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=self.embeddings(input_ids))


@pytest.mark.parametrize("classes", [2, 3])
def test_the_transformer_reads_words_and_not_padding(classes: int) -> None:
    torch.manual_seed(0)
    model = Classifier(Words(), padding=0)
    ids = torch.randint(1, 20, (60, 5))
    padded = torch.cat([ids, torch.zeros(60, 3, dtype=torch.int64)], dim=1)
    labels = (ids[:, 0] % classes).numpy()
    with torch.no_grad():
        vectors = model(ids)
        assert torch.allclose(vectors, model(padded))
        expected = LogisticRegression(C=1.0, max_iter=500).fit(vectors.numpy(), labels).predict(vectors.numpy())
        model.fit(ids, labels)
        assert np.array_equal(model(padded).argmax(1).numpy(), expected)


def test_pairs_of_encoders_are_told_apart_by_kind() -> None:
    m = np.arange(9.0).reshape(1, 3, 3)
    encoders = ["google", "usem3", "para3"]
    assert modalities.by_kind(m, encoders, "picture", "text").tolist() == [1, 2]
    assert modalities.by_kind(m, encoders, "text", "picture").tolist() == [3, 6]
    assert modalities.by_kind(m, encoders, "text", "text").tolist() == [5, 7]
    assert matrix.within(m).tolist() == [0, 4, 8]
    assert matrix.between(m).tolist() == [1, 2, 3, 5, 6, 7]


def stitched(own: float, decoded: float, control: float, absolute: float = np.nan) -> stitching.Found:
    """One seed of three encoders with the same scores everywhere."""
    same = lambda value: [np.where(np.eye(3, dtype=bool), own, value)]  # noqa: E731
    methods = (stitching.UNTUNED, stitching.PAPER, stitching.CHOSEN, stitching.OURS)
    controls = {(method, one): [control] for method in methods for one in stitching.CONTROLS}
    return (
        {stitching.ABSOLUTE: same(absolute), stitching.MAJORITY: [0.2]} | {m: same(decoded) for m in methods} | controls
    )


def test_shares_of_a_stitch_are_those_of_the_heads_own_accuracy() -> None:
    m = [np.asarray([[0.8, 0.4], [0.6, 0.5]])]  # encoders × heads
    assert np.allclose(stitching.shares(m)[0], [[np.nan, 0.8], [0.75, np.nan]], equal_nan=True)
    assert stitching.kept(m) == pytest.approx(0.5 / 0.65)
    assert stitching.apart([np.asarray([[0.8, np.nan], [0.6, 0.5]])]).tolist() == [0.6]


@pytest.mark.parametrize(
    ("found", "held"),
    [
        (stitched(0.9, 0.85, 0.2, 0.2), [True, True, True, False, True, True, True, True]),  # absolute: every pair
        (stitched(0.9, 0.85, 0.2), [True, True, True, True, True, True, True, True]),
        (stitched(0.9, 0.6, 0.55), [False, True, True, True, True, False, True, True]),
        (stitched(0.9, 0.5, 0.2), [False, False, False, True, True, True, True, True]),
        (stitched(0.9, 0.95, 0.2), [True, True, True, True, False, True, True, True]),
    ],
)
def test_findings_of_the_stitching_table_can_fail(found: stitching.Found, held: list[bool]) -> None:
    assert [one.held for one in stitching.findings({"trec": found})] == held


@pytest.mark.parametrize(("at", "expected"), [((1,), 1), ((1, 5), 2)])
def test_modes_of_norms_are_counted(at: tuple[float, ...], expected: int, rng: np.random.Generator) -> None:
    assert norms.modes(np.concatenate([rng.normal(center, 0.4, 2_000) for center in at])) == expected


def test_true_norms_change_no_direction(rng: np.random.Generator) -> None:
    y, found, center = rng.normal(size=(20, 5)), rng.normal(size=(20, 5)), rng.normal(size=5)
    changed = sensitivity.with_norms_of(y, found, center)
    assert np.allclose(np.linalg.norm(changed - center, axis=1), np.linalg.norm(y - center, axis=1))
    assert rl.evaluate.mean_cosine(changed - center, found - center) == pytest.approx(1)


def test_spaces_below_the_mean_of_the_anchors_are_named() -> None:
    mean = np.full((3, 3), 0.5)
    decoded = np.asarray([[0.1, 0.6, 0.4], [0.7, 0.1, 0.4], [0.7, 0.6, 0.1]])
    assert matrix.below(decoded, mean, ["a", "b", "c"]) == " (below the mean into c from 2 of 2)"
    assert matrix.below(mean + 0.1, mean, ["a", "b", "c"]) == ""


@pytest.mark.parametrize("name", [name for name in ITEMS if name.startswith(("irp-", "lst-")) and name != "lst-table1"])
def test_every_item_has_a_module_and_a_source(name: str) -> None:
    assert callable(ITEMS[name].load().run)
    assert source(name) != MISSING
