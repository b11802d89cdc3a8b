"""Relative similarity as supervision, which Moschella et al., ICLR 2023 (section 4.2), propose and do not run.

A teacher, a convolutional classifier of digits, is trained on labels. Students of another architecture, a perceptron on
the pixels, see the same images and no label: they are trained to describe each image by the same cosines to 100 anchors
as the teacher does (:class:`relatent.nn.RelativeSimilarityLoss`). Then a head that was fitted on the teacher's relative
representations reads the student's, as it is. Beside it: a student before training, one that copies the teacher's
coordinates, and one trained on labels, whose space is its own.

    python -m experiments rr-supervision
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from experiments.data.images import Images, load_images
from experiments.figures import panels
from experiments.models.classifier import classification_loss, classifier
from experiments.models.training import Loss, Training, train
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ANCHORS, EVERY = 100, 20
KINDS = ("not trained", "labels", "coordinates", "relative similarity")
COLUMNS = ("similarity to the teacher", "the teacher's head reads it", "a head of its own")


def run(setting: Setting) -> Result:
    """Train a teacher and four students per seed."""
    torch.set_num_threads(1)
    seeds, how = setting.pick(
        quick=(5, Training(300, 5e-3)), full=(5, Training(2_000, 5e-3)), smoke=(2, Training(60, 1e-2))
    )
    images = load_images("digits")
    scores: dict[str, list[list[float]]] = {name: [] for name in ("teacher", *KINDS)}
    for seed in range(seeds):
        found, curve = one_seed(images, how, seed)
        for name, values in found.items():
            scores[name].append(values)
    rows = [[name, *map(spread, np.asarray(values).T)] for name, values in scores.items()]
    table = Table("Digits: students of another architecture, test images", ("student trained on", *COLUMNS), rows)
    return Result(
        [table],
        findings({name: np.mean(values, axis=0) for name, values in scores.items()}),
        seeds=seeds,
        data=["scikit-learn's digits: 1,437 images to train, 360 to test"],
        notes=["The paper names this use of its measure and shows no figure for it."],
        series={"steps": EVERY, "curve": curve},
    )


def one_seed(images: Images, how: Training, seed: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return the scores of the teacher and of the students, and how one student came about."""
    x, labels = torch.from_numpy(images.train), torch.from_numpy(images.train_labels)
    build = partial(classifier, "plain", images.side, 10)
    teacher = train(build, x, labels, classification_loss, how, seed=seed).encoder
    rows = rl.anchors.stratified(images.train_labels, ANCHORS, seed=seed)
    judge = partial(judged, images, rows, teacher_head(images, rows, teacher), teacher)
    curve: dict[str, list[float]] = {"similarity": [], "accuracy": []}
    found = {"teacher": judge(teacher)}
    for kind in KINDS:
        loss = supervised(kind, teacher, x[rows])
        if kind == "relative similarity":
            loss = watched(loss, judge, curve)
        lessons = replace(how, steps=1 if kind == "not trained" else how.steps)
        student = train(partial(classifier, "mlp", images.side, 10), x, labels, loss, lessons, seed=seed + 100)
        found[kind] = judge(student.encoder)
    return found, curve


def supervised(kind: str, teacher: nn.Module, anchors: Tensor) -> Loss:
    """Return the loss of a student; only "labels" looks at labels."""
    similarity = rl.nn.RelativeSimilarityLoss()

    def loss(student: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        if kind == "labels":
            return classification_loss(student, x, labels)
        with torch.no_grad():
            wanted, wanted_anchors = teacher(x), teacher(anchors)
        if kind == "coordinates":
            return nn.functional.mse_loss(student.encoder(x), wanted)
        both = student.encoder(torch.cat([x, anchors]))
        weight = 0.0 if kind == "not trained" else 1.0
        return weight * similarity(both[: len(x)], wanted, both[len(x) :], wanted_anchors)

    return loss


def watched(loss: Loss, judge: Callable[[nn.Module], list[float]], curve: dict[str, list[float]]) -> Loss:
    """Return the loss, noting every few steps how similar the student is and what the teacher's head makes of it."""
    steps = 0

    def noted(student: nn.Module, x: Tensor, labels: Tensor) -> Tensor:
        nonlocal steps
        if steps % EVERY == 0:
            student.eval()
            for values, value in zip(curve.values(), judge(student.encoder), strict=False):
                values.append(value)
            student.train()
        steps += 1
        return loss(student, x, labels)

    return noted


def teacher_head(images: Images, rows: np.ndarray, teacher: nn.Module) -> LogisticRegression:
    """Fit a linear head on the teacher's relative representations."""
    vectors = embed(teacher, images.train)
    relative = rl.RelativeProjection().fit(vectors[rows]).transform(vectors)
    return LogisticRegression(C=10, max_iter=1_000).fit(relative, images.train_labels)


def judged(
    images: Images, rows: np.ndarray, head: LogisticRegression, teacher: nn.Module, student: nn.Module
) -> list[float]:
    """Return the student's similarity to the teacher, and the accuracy of the teacher's head and of its own on it."""
    train_x, test_x = embed(student, images.train), embed(student, images.test)
    reference = embed(teacher, np.concatenate([images.train[rows], images.test]))
    space = np.concatenate([train_x[rows], test_x])
    similarity = rl.evaluate.relative_similarity(space, reference, np.arange(len(rows)))
    relative = rl.RelativeProjection().fit(train_x[rows]).transform(test_x)
    own = LogisticRegression(max_iter=200).fit(train_x[:500], images.train_labels[:500])
    return [float(similarity), head.score(relative, images.test_labels), own.score(test_x, images.test_labels)]


@torch.no_grad()
def embed(encoder: nn.Module, images: np.ndarray) -> np.ndarray:
    """Return one vector per image."""
    return encoder(torch.from_numpy(images)).numpy()


def findings(mean: dict[str, np.ndarray]) -> list[Finding]:
    """Judge whether similarity is a signal to train by."""
    student, teacher, before, labels = (mean[n] for n in ("relative similarity", "teacher", "not trained", "labels"))
    return [
        Finding(
            "relative similarity can supervise a student without labels",
            bool(student[1] > 0.9 * teacher[1]),
            f"the teacher's head reads the student at {student[1]:.3f}, the teacher at {teacher[1]:.3f}, "
            f"a student before training at {before[1]:.3f}, one trained on labels at {labels[1]:.3f}",
        ),
        Finding(
            "a student trained on labels ends up less similar to the teacher (our question)",
            bool(labels[0] < student[0]),
            f"similarity {labels[0]:.3f} against {student[0]:.3f}",
        ),
    ]


def draw(result: Result) -> Figure:
    """Draw how one student comes to resemble its teacher."""
    figure, axes = panels(1, 1, size=(4.8, 3.2))
    panel = axes[0, 0]
    names = {"similarity": "similarity to the teacher", "accuracy": "accuracy of the teacher's head on the student"}
    for name, values in result.series["curve"].items():
        panel.plot(np.arange(len(values)) * result.series["steps"], values, label=names[name])
    panel.set(xlabel="step, without labels", ylim=(0, 1.02), title="A student learns the teacher's relative space")
    panel.legend(loc="lower right")
    return figure
