"""Heads under encoders that they were not trained on: what tables 4, 5 and 6 and the anchors of other domains share.

A head is trained on each space, on absolute and on relative vectors, and reads the test rows of every other space. It
is the paper's: LayerNorm, Linear, activation, Linear, with Adam at 1e-3. A seed draws the anchors and its weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from experiments.models.heads import norm_head
from experiments.models.training import batches
from experiments.published import published
from experiments.results import Finding, spread
from sklearn.base import BaseEstimator, clone
from torch import nn

import relatent as rl
from relatent.stitching import StitchingMatrix

ANCHORS, BATCH, HIDDEN = 768, 64, 64
EPOCHS = 6
OWN, OWN_RELATIVE = "own", "own, relative"
ABSOLUTE, CENTERED, TRANSLATED = "absolute, as is", "relative, centered (ours)", "translated (ours)"
# Of what rl.stitching_matrix scores for the wrong reasons, and the methods for which tables show it.
CONTROLS, CONTROLLED = ("shuffled pairs", "random encoder"), ("relative", TRANSLATED)


class Untranslated(BaseEstimator):
    """Absolute vectors as they are; where the widths differ, cut or filled up with zeros."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Self:
        """Take the width of the target."""
        self.width_ = y.shape[1]
        return self

    def transform(self, x: np.ndarray) -> np.ndarray:
        """Return as many coordinates as the target has."""
        return np.pad(x[:, : self.width_], ((0, 0), (0, max(0, self.width_ - x.shape[1]))))


class ShuffledPairs(BaseEstimator):
    """A control: a translator that is fitted on the same anchors, paired at random."""

    def __init__(self, translator: Any, seed: int = 0) -> None:
        self.translator, self.seed = translator, seed

    def fit(self, x: np.ndarray, y: np.ndarray) -> Self:
        """Exchange the targets of the pairs."""
        self.fitted_ = fit_anyway(self.translator, x, np.random.default_rng(self.seed).permutation(y))
        return self

    def transform(self, x: np.ndarray) -> np.ndarray:
        """Translate."""
        return np.asarray(self.fitted_.transform(x))


def fit_anyway(translator: Any, x: np.ndarray, y: np.ndarray) -> Any:
    """Fit a copy of a translator, also where the anchors do not look like pairs: the controls mean it."""
    force = {"force": True} if isinstance(translator, rl.Translator) else {}
    return clone(translator).fit(x, y, **force)


METHODS: dict[str, Any] = {
    ABSOLUTE: Untranslated(),
    "relative": rl.RelativeProjection(normalize="none"),
    CENTERED: rl.RelativeProjection(),
    TRANSLATED: rl.Translator("stitching"),
}


def head_of(seed: int, epochs: int) -> Callable[[np.ndarray, np.ndarray], nn.Module]:
    """Return a function that trains a head on vectors and their labels."""

    def fit(x: np.ndarray, labels: np.ndarray) -> nn.Module:
        vectors, classes = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)), torch.from_numpy(labels).long()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            head = norm_head(x.shape[1], int(labels.max()) + 1, HIDDEN)
            optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
            for rows in batches(len(x), BATCH, epochs * max(1, len(x) // BATCH)):
                optimizer.zero_grad()
                nn.functional.cross_entropy(head(vectors[rows]), classes[rows]).backward()
                optimizer.step()
        return head.eval()

    return fit


def stitch_all(
    spaces: Mapping[str, np.ndarray],
    labels: np.ndarray,
    seed: int,
    *,
    train: np.ndarray,
    test: np.ndarray,
    anchors: int | np.ndarray = ANCHORS,
    methods: Mapping[str, Any] = METHODS,
    epochs: int = EPOCHS,
    heads: Sequence[str] | None = None,
    metric: str | Callable[[Any, Any], float] = "weighted F1",
    samples: np.ndarray | None = None,
    controls: bool = True,
) -> StitchingMatrix:
    """Stitch every space to the head of every other, scored by weighted F1 as in the paper, or :func:`mean_error`.

    ``heads`` names the spaces that have one, if not all, and these then read absolute vectors only. ``samples`` are
    what the random encoder of the controls reads; without them it knows nothing of the rows.
    """
    fit = head_of(seed, epochs)
    decoders: Any = fit if heads is None else {name: fit(spaces[name][train], labels[train]) for name in heads}
    if isinstance(anchors, int):
        anchors = np.random.default_rng(seed).choice(train, min(anchors, len(train)), replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # raw cosines of an off-center space: that is what is measured
        return rl.stitching_matrix(
            spaces,
            decoders,
            labels,
            anchors=anchors,
            train=train,
            test=test,
            methods=methods,
            metric=metric,
            larger_is_better=None if isinstance(metric, str) else False,
            samples=samples,
            controls=controls,
            seed=seed,
            progress=False,
        )


def mean_error(truth: Any, answer: Any) -> float:
    """Return the mean absolute difference of classes that have an order: the paper's MAE.

    >>> mean_error([0, 4], [1, 2])
    1.5
    """
    return float(np.mean(np.abs(np.asarray(truth) - np.asarray(answer))))


def split(n: int, train: int | None, sizes: tuple[int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows to train on and rows to test on: of the data's own split where there is one, else of a drawn one."""
    rng = np.random.default_rng(seed)
    if train is None:
        order, first = rng.permutation(n), n - min(sizes[1], n // 5)
        return order[:first][: sizes[0]], order[first:]
    return rng.permutation(train)[: sizes[0]], train + rng.permutation(n - train)[: sizes[1]]


def own_and_stitched(matrix: StitchingMatrix) -> dict[str, float]:
    """Return the heads on their own encoders, each method's mean over all other pairs, and the controls of some."""
    own = {OWN: "absolute", OWN_RELATIVE: "relative"}
    means = {
        name: float(np.mean([matrix.own(decoder, kind) for decoder in matrix.decoders]))
        for name, kind in own.items()
        if kind in ("absolute", *matrix.methods)
    }
    means |= {method: matrix.mean(method) for method in matrix.methods}
    shown = [method for method in CONTROLLED if method in matrix.methods]
    controls = CONTROLS if matrix.controls else ()
    return means | {f"{method}, {one}": matrix.control(one, method) for method in shown for one in controls}


def control_values(matrix: StitchingMatrix, name: str, method: str) -> dict[str, list[float]]:
    """Return what a control of a method scores, by the head that read it."""
    found = [one for one in matrix.controls if (one.control, one.method) == (name, method)]
    return {decoder: [number(one.value) for one in found if one.decoder == decoder] for decoder in matrix.decoders}


def mean_rows(runs: Sequence[StitchingMatrix]) -> dict[str, dict[str, float]]:
    """Return the mean and deviation over seeds of :func:`own_and_stitched`, by row of a table."""
    found = [own_and_stitched(run) for run in runs]
    return {name: spread(one[name] for one in found) for name in found[0]}


def means(runs: Sequence[StitchingMatrix]) -> dict[str, float]:
    """Return the means of :func:`mean_rows` alone."""
    return {name: cell["mean"] for name, cell in mean_rows(runs).items()}


def pair_values(runs: Sequence[StitchingMatrix], method: str) -> np.ndarray:
    """Return the mean over seeds, encoders × heads; on the diagonal stand the heads on their own encoders."""
    return np.asarray(np.mean([run.values(method) for run in runs], axis=0))


def pair_rows(runs: Sequence[StitchingMatrix], methods: Iterable[str]) -> list[list[Any]]:
    """Return a row per pair of different encoders: the encoder, the head's own, and each method over seeds."""
    first, methods = runs[0], list(methods)
    return [
        [
            encoder,
            decoder,
            spread(number(run.own(decoder)) for run in runs),
            *(spread(number(run[encoder, decoder, method].value) for run in runs) for method in methods),
        ]
        for encoder in first.encoders
        for decoder in first.decoders
        if encoder != decoder
    ]


def control_findings(mean: Mapping[str, Mapping[str, float]], chance: Mapping[str, float]) -> Iterator[Finding]:
    """Judge the controls, by data and by what the head reads: none gets half way from guessing to its method.

    An encoder with random weights reads words that are counted, or small pixels: what it reaches needs no training.
    """
    titles = ("anchors paired at random do", "an encoder with random weights does")
    for control, title in zip(CONTROLS, titles, strict=True):
        reached = {
            (name, method): (row[f"{method}, {control}"], row[method])
            for name, row in mean.items()
            for method in CONTROLLED
        }
        yield Finding(
            f"{title} not come close (our question)",
            all(found < (chance[name] + true) / 2 for (name, _), (found, true) in reached.items()),
            "; ".join(
                f"{name}: "
                + ", ".join("{} {:.2f} of {:.2f}".format(method, *reached[name, method]) for method in CONTROLLED)
                + f", guessing {chance[name]:.2f}"
                for name in mean
            ),
        )


def paper_abroad(row: str) -> float:
    """Return a row of the published table 4, as a share, over the languages that the English head never saw."""
    return float(np.mean([value for language, value in published("rr-table4", row).items() if language != "en"])) / 100


def guessing(labels: np.ndarray, train: np.ndarray, test: np.ndarray) -> float:
    """Return the weighted F1 of guessing classes as often as they occur."""
    share = np.bincount(labels[train], minlength=int(labels.max()) + 1) / len(train)
    true = np.bincount(labels[test], minlength=len(share)) / len(test)
    # A guess hits a class of share p with probability q: precision p, recall q.
    with np.errstate(invalid="ignore"):
        f1 = np.nan_to_num(2 * true * share / (true + share))
    return float(true @ f1)


def number(value: float | None) -> float:
    """Return a score, NaN where there is none."""
    return float("nan") if value is None else value
