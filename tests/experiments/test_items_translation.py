from __future__ import annotations

import numpy as np
import pytest
import torch
from experiments.data.tasks import Task
from experiments.latent_space_translation.heads import fit_mlp
from experiments.latent_space_translation.inner_scale import READ, reading_finding, readings, threshold_finding
from experiments.latent_space_translation.modalities import (
    BY_CLASS,
    COLUMNS,
    HEADS,
    MLP,
    ORTHOGONAL,
    OURS,
    OWN,
    RANDOM,
    SHUFFLED,
    TEXT,
    TRUE,
    controlled,
    findings,
    why,
)
from experiments.latent_space_translation.pairs import control_findings, control_table, mean, stitched
from experiments.latent_space_translation.scale import (
    RATIOS,
    cos_findings,
    kind,
    temperature_finding,
)
from experiments.latent_space_translation.svm import AffineByAdam
from experiments.published import published

import relatent as rl


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


def test_the_published_matrix_holds_what_the_paper_says_of_it() -> None:
    theirs = np.asarray(published("lst-figure1", "matrix"))
    assert theirs.shape == (len(published("lst-figure1", "encoders")),) * 2
    pictures = published("lst-figure1", "pictures")
    order = [0, 1, *range(pictures, len(theirs))]  # our figure has two encoders of pictures
    kept = theirs[np.ix_(order, order)]
    assert all(one.held for one in findings(dict.fromkeys((ORTHOGONAL, OURS, MLP), kept), kept))
    flat = np.full((4, 4), 0.5)
    assert not any(one.held for one in findings(dict.fromkeys((ORTHOGONAL, OURS, MLP), flat), flat))


def test_a_gain_is_explained_where_there_is_one() -> None:
    gained = {OWN: 0.5, TRUE: 0.6, BY_CLASS: 0.58, TEXT: 0.7, SHUFFLED: 0.1, RANDOM: 0.2}
    lost = dict.fromkeys(COLUMNS, 0.5)
    assert why({("SVM", "a"): [gained], ("SVM", "b"): [lost]}).held
    assert not why({("SVM", "b"): [lost]}).held
    assert not why({("SVM", "a"): [gained | {BY_CLASS: 0.5}]}).held


def made_up(rng: np.random.Generator) -> Task:
    """Return a task whose spaces share nothing but the classes of their rows."""
    labels, centers = np.arange(400) % 4, 3 * rng.normal(size=(4, 10))
    spaces = {name: centers[labels] + rng.normal(size=(400, 10)) for name in ("picture", "drawing", "text")}
    return Task("made up", spaces, labels, np.arange(300), np.arange(0), np.arange(300, 400))


def test_controls_tell_classes_from_pairs(rng: np.random.Generator) -> None:
    """Where the classes are all that two modalities share, pairs of one class serve as well as true ones."""
    found = controlled(made_up(rng), HEADS["SVM"], 0)["text"]
    assert found[BY_CLASS] > 0.8 < found[TRUE]
    assert max(found[SHUFFLED], found[RANDOM]) < 0.6


def test_controls_stand_beside_what_is_stitched(rng: np.random.Generator) -> None:
    methods = {"SVD": rl.Translator(map="orthogonal"), "relative": rl.RelativeProjection(normalize="none")}
    found = stitched([made_up(rng)], HEADS["SVM"], methods, ["SVD"])
    assert mean(found, "SVD") > 0.8 < mean(found, "relative")
    assert mean(found, "SVD, shuffled pairs") < 0.6 > mean(found, "SVD, random encoder")
    assert np.isnan(mean(found, "relative, shuffled pairs"))
    assert [one.held for one in control_findings({"trec": found}, ["SVD"])] == [True, True]
    assert len(control_table({"trec": found}, ["SVD"]).rows[0]) == 5


def test_many_steps_of_adam_approach_the_closed_form(rng: np.random.Generator) -> None:
    x = rng.normal(size=(200, 6)) * np.arange(1, 7) + 3
    y = x @ rng.normal(size=(6, 4)) + rng.normal(size=(200, 4))
    exact = rl.Translator(map="affine").fit(x, y).transform(x)
    few, many = (AffineByAdam(steps, rate=0.02).fit(x, y).transform(x) for steps in (20, 2_000))
    assert np.allclose(many, exact, atol=0.01 * y.std())
    assert np.mean((few - y) ** 2) > 1.1 * np.mean((exact - y) ** 2)


def test_classes_carried_by_angles_and_by_norms_are_told_apart(rng: np.random.Generator) -> None:
    labels, x = np.arange(400) % 2, rng.normal(size=(400, 8))
    by_angle, by_norm = x.copy(), x * np.where(labels, 4, 1)[:, None] / np.linalg.norm(x, axis=1, keepdims=True)
    by_angle[:, 0] = np.where(labels, 5, -5)
    angles, norms = (readings(one, labels, 2) for one in (by_angle, by_norm))
    assert reading_finding({("a", "b"): angles}).held
    assert not reading_finding({("a", "b"): norms}).held
    assert norms[:, READ.index("norms alone")].min() > 0.95 > 0.6 > norms[:, READ.index("unit vectors")].max()


def test_curves_are_judged_where_the_paper_makes_its_claims() -> None:
    ratios = np.asarray(RATIOS)
    curve = {"unchanged": [0.9], "accuracies": [0.9 * np.abs(np.cos(np.pi * ratios))]}
    fading = curve | {"accuracies": [0.9 * np.exp(-4 * (np.abs(ratios) - 1) ** 2)]}
    assert [one.held for one in cos_findings({"a": {"cos": curve}})] == [True, True]
    assert [one.held for one in cos_findings({"a": {"cos": fading}})] == [True, False]
    flat = {"unchanged": [0.9], "accuracies": [np.full(len(ratios), 0.9)], "confidences": [np.tanh(np.abs(ratios))]}
    assert temperature_finding({"a": {"ReLU": flat}}).held
    assert not temperature_finding({"a": {"ReLU": flat | {"confidences": flat["accuracies"]}}}).held
    layers = {"unchanged": 0.9, "accuracies": [[0.2, 0.5, 0.88, 0.9, 0.9, 0.9, 0.9]]}
    assert threshold_finding("", layers).held
    assert not threshold_finding("", layers | {"accuracies": [[0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.2]]}).held
