from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from experiments.data.tasks import Task, split
from experiments.inverse_relative_projection import activations, matrix, modalities
from experiments.inverse_relative_projection.decoding import condition_number, decode_grid
from experiments.inverse_relative_projection.layers import Classifier
from experiments.items import ITEMS
from experiments.latent_space_translation.heads import fit_mlp
from experiments.latent_space_translation.modalities import (
    BY_CLASS,
    HEADS,
    MLP,
    ORTHOGONAL,
    OURS,
    RANDOM,
    TEXT,
    TRUE,
    controlled,
    findings,
)
from experiments.latent_space_translation.scale import RATIOS, kind
from experiments.published import MISSING, published, source
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


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (lambda r: np.where(r > 0, 0.9, 0.1), "flat"),
        (lambda r: np.abs(np.cos(np.pi * r)), "oscillating"),
        (lambda r: np.clip(r, 0, 4) / 4, "neither"),
    ],
)
def test_kinds_of_curves(curve: object, expected: str) -> None:
    ratios = np.asarray(RATIOS)
    assert kind({"unchanged": [1.0], "accuracies": [curve(ratios)]})[0] == expected  # type: ignore[operator]


def test_mlp_head_learns_and_leaves_the_random_state_alone(rng: np.random.Generator) -> None:
    x = rng.normal(size=(600, 32)).astype(np.float32)
    labels = (x[:, 0] > 0).astype(np.int64)
    before = torch.random.get_rng_state()
    head = fit_mlp(x, labels)
    assert torch.equal(before, torch.random.get_rng_state())
    assert not head.training
    assert float((head(torch.from_numpy(x)).argmax(1).numpy() == labels).mean()) > 0.8  # chance is 0.5


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


def test_the_published_matrix_holds_what_the_paper_says_of_it() -> None:
    theirs = np.asarray(published("lst-figure1", "matrix"))
    assert theirs.shape == (len(published("lst-figure1", "encoders")),) * 2
    pictures = published("lst-figure1", "pictures")
    order = [0, 1, *range(pictures, len(theirs))]  # our figure has two encoders of pictures
    kept = theirs[np.ix_(order, order)]
    by_class = {head: [{TRUE: 0.6, BY_CLASS: 0.55, RANDOM: 0.1, TEXT: 0.7}] for head in HEADS}
    assert all(one.held for one in findings(dict.fromkeys((ORTHOGONAL, OURS, MLP), kept), kept, by_class))
    flat, alike = np.full((4, 4), 0.5), {head: [dict.fromkeys((TRUE, BY_CLASS, RANDOM, TEXT), 0.5)] for head in HEADS}
    assert not any(one.held for one in findings(dict.fromkeys((ORTHOGONAL, OURS, MLP), flat), flat, alike))


def test_controls_tell_classes_from_pairs(rng: np.random.Generator) -> None:
    """Where the classes are all that two modalities share, pairs of one class serve as well as true ones."""
    labels, centers = np.arange(400) % 4, 3 * rng.normal(size=(4, 10))
    spaces = {name: centers[labels] + rng.normal(size=(400, 10)) for name in ("picture", "drawing", "text")}
    task = Task("made up", spaces, labels, np.arange(300), np.arange(0), np.arange(300, 400))
    found = controlled(task, HEADS["SVM"], 0)
    assert found[BY_CLASS] > 0.8 < found[TRUE]
    assert found[RANDOM] < 0.6


@pytest.mark.parametrize("name", [name for name in ITEMS if name.startswith(("irp-", "lst-")) and name != "lst-table1"])
def test_every_item_has_a_module_and_a_source(name: str) -> None:
    assert callable(ITEMS[name].load().run)
    assert source(name) != MISSING
