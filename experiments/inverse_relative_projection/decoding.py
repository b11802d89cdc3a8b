"""Inverse relative projection over a grid of pruning thresholds δ and numbers of subspaces ω (Maiorca et al., 2024).

Samples and anchors are centered by the anchors' mean and scaled to unit norm. The anchors of each subspace are
inverted by themselves, decoded vectors are averaged over subspaces, then get the mean norm and the mean of the target's
anchors: what ``relatent.RelativeTranslator("cosine", delta=δ, omega=ω)`` does at one point of the grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from experiments.data.tasks import Task
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import relatent as rl

# Singular values below this share of the largest are not inverted: MiniLM has coordinates that never vary.
THRESHOLD = 1e-6
OMEGAS = (1, 2, 4, 8, 16, 32)
ANCHORS = 500
# The δ and ω to choose from.
CHOICES: tuple[tuple[float, ...], tuple[int, ...]] = (0.6, 0.7, 0.8, 0.85, 0.9, 0.95), (8, 32)
# What is scored at every point of the grid; the last is the cosine about the mean of the target's anchors.
MEASURES = ("similarity", "accuracy", "condition number", "anchors", "centered similarity")


@dataclass(frozen=True)
class Decoded:
    """Vectors decoded at one point of the grid, and how well its anchors could be inverted.

    ``condition_number`` is the geometric mean over subspaces, ``anchors`` the mean number that pruning kept.
    """

    delta: float
    omega: int
    vectors: np.ndarray
    condition_number: float
    anchors: float


def decode_grid(
    x: np.ndarray,
    source_anchors: np.ndarray,
    target_anchors: np.ndarray,
    deltas: Sequence[float],
    omegas: Sequence[int] = OMEGAS,
    seed: int = 0,
) -> Iterator[Decoded]:
    """Decode x at every point. The first ω subspaces of many are those of ω alone, so that all ω cost one."""
    source, target = (rl.Normalizer.fit(a, "center+l2") for a in (source_anchors, target_anchors))
    a, b = source.apply(source_anchors), target.apply(target_anchors)
    relative = rl.relative_projection(source.apply(x), a)
    for delta in deltas:
        subspaces = rl.anchors.subspaces(a, max(omegas), delta, seed)
        parts = [rl.inverse_relative_projection(relative[:, rows], b[rows], THRESHOLD) for rows in subspaces]
        conditions = [condition_number(b[rows]) for rows in subspaces]
        for omega in omegas:
            vectors = target.undo(rl.evaluate.rescale(np.mean(parts[:omega], axis=0), 1.0))
            kept = np.mean([len(rows) for rows in subspaces[:omega]])
            yield Decoded(delta, omega, vectors, float(np.exp(np.mean(np.log(conditions[:omega])))), float(kept))


def choose_delta(
    pairs: Iterable[tuple[np.ndarray, np.ndarray]],
    anchors: np.ndarray,
    rows: np.ndarray,
    deltas: Sequence[float],
    omega: int,
    seed: int = 0,
) -> float:
    """Return the δ of the highest cosine on rows to choose by, over pairs of a source and a target."""
    scores = np.zeros(len(deltas))
    for x, y in pairs:
        decoded = decode_grid(x[rows], x[anchors], y[anchors], deltas, (omega,), seed)
        scores += [float(rl.evaluate.mean_cosine(one.vectors, y[rows])) for one in decoded]
    return deltas[int(np.argmax(scores))]


def condition_number(anchors: np.ndarray) -> float:
    """Return the ratio of the largest to the smallest singular value that is inverted.

    >>> condition_number(np.diag([4.0, 2.0, 1e-9]))
    2.0
    """
    a = np.asarray(anchors, dtype=np.float64)
    squares = np.linalg.eigvalsh(a @ a.T if len(a) < a.shape[1] else a.T @ a)
    return float(np.sqrt(squares[-1] / squares[squares > THRESHOLD**2 * squares[-1]][0]))


def head_of_directions(strength: float) -> Pipeline:
    """Return an unfitted classifier that cannot see norms, which a relative code has lost."""
    return make_pipeline(Normalizer(), LogisticRegression(C=strength, max_iter=300))


def standardizing_head() -> Pipeline:
    """Return an unfitted classifier that divides every coordinate by its spread, weak ones too."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))


def score_grid(
    task: Task,
    pair: tuple[str, str],
    head: Pipeline,
    rows: np.ndarray,
    deltas: Sequence[float],
    omegas: Sequence[int],
    *,
    anchors: int = ANCHORS,
    seed: int = 0,
) -> np.ndarray:
    """Return MEASURES × δ × ω for rows of a task: the head of the pair's target reads what its source sees."""
    (x, y), chosen = (task.spaces[name] for name in pair), task.anchors(anchors)
    center = y[chosen].mean(axis=0)
    found = [
        (
            float(rl.evaluate.mean_cosine(one.vectors, y[rows])),
            float(head.score(one.vectors, task.labels[rows])),
            one.condition_number,
            one.anchors,
            float(rl.evaluate.mean_cosine(one.vectors - center, y[rows] - center)),
        )
        for one in decode_grid(x[rows], x[chosen], y[chosen], deltas, omegas, seed)
    ]
    return np.asarray(found).reshape(len(deltas), len(omegas), len(MEASURES)).transpose(2, 0, 1)


def fit_heads(task: Task, head: Pipeline) -> dict[str, Pipeline]:
    """Return one fitted head per space of a task."""
    return {name: clone(head).fit(x[task.fit], task.labels[task.fit]) for name, x in task.spaces.items()}


def neighbors(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return each name with the next, the last with the first: enough pairs to choose a setting by.

    >>> neighbors(["a", "b", "c"])
    [('a', 'b'), ('b', 'c'), ('c', 'a')]
    """
    return list(zip(names, [*names[1:], names[0]], strict=True))


@dataclass(frozen=True)
class Choice:
    """What stitches best on the rows to choose by: an unfitted head, and δ and ω."""

    head: Pipeline
    delta: float
    omega: int
    accuracy: float


def choose(task: Task, *, anchors: int = ANCHORS) -> Choice:
    """Return the best head, δ and ω on the rows to choose by, averaged over some pairs."""
    heads = (*map(head_of_directions, (1, 10, 100)), standardizing_head())
    fitted = [fit_heads(task, head) for head in heads]
    scores = [accuracies(task, pair, [one[pair[1]] for one in fitted], anchors) for pair in neighbors([*task.spaces])]
    accuracy = np.mean(scores, axis=0)
    h, i, j = np.unravel_index(np.argmax(accuracy), accuracy.shape)
    return Choice(heads[h], CHOICES[0][i], CHOICES[1][j], float(accuracy[h, i, j]))


def accuracies(task: Task, pair: tuple[str, str], heads: Sequence[Pipeline], anchors: int) -> np.ndarray:
    """Return heads × δ × ω: the accuracy of heads of the pair's target on the rows to choose by."""
    chosen, rows = task.anchors(anchors), task.choice
    x, y = (task.spaces[name] for name in pair)
    found = [
        [float(head.score(one.vectors, task.labels[rows])) for head in heads]
        for one in decode_grid(x[rows], x[chosen], y[chosen], *CHOICES)
    ]
    return np.asarray(found).T.reshape(len(heads), *map(len, CHOICES))
