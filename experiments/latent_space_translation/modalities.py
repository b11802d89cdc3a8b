"""Pictures and texts: the cross-modal matrix with scores and scales of Maiorca et al., NeurIPS 2023, on emoji.

SVM heads (the main text) and MLP heads (figure 1 of the supplement) tell the category of an emoji from its picture or
its name; each reads every other encoder, translated by orthogonal Procrustes after standard scaling. Score is a head on
its own encoder, scale the mean norm of an encoder.

The supplement leaves open why heads gain from another modality. Controls on the heads of pictures that read names, of
each text encoder: the head of the text encoder itself, which bounds what the names tell; anchors paired at random among
those of one class, so that only classes are in correspondence; anchors paired at random; and a layer with random
weights over the pictures in place of an encoder.

    python -m experiments lst-figure1
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data.source import BySource, on_hub
from experiments.data.tasks import SEEN, STAND_INS, Task, load_task
from experiments.figures import COLORS, heat_map, panels
from experiments.latent_space_translation.heads import fit_mlp
from experiments.published import published
from experiments.relative_representations.stitched import fit_anyway
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.svm import SVC

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_ENCODERS = BySource(packages=("google", "twitter"), hub=SEEN)
ANCHORS, ORTHOGONAL, OURS, MLP = 2_000, "SVD", "dual codes (ours)", "SVD, MLP heads"
OWN, TEXT, TRUE, BY_CLASS = "own pictures", "text's own head", "true pairs", "pairs of one class"
SHUFFLED, RANDOM = "shuffled pairs", "random encoder"
SVD = {"map": "orthogonal", "normalize": "standard"}
COLUMNS = (OWN, TEXT, TRUE, BY_CLASS, SHUFFLED, RANDOM)
Fit = Callable[[np.ndarray, np.ndarray], Any]
# Of each kind of heads and each text encoder: mean accuracies over heads of pictures, of each seed.
Controls = dict[tuple[str, str], list[dict[str, float]]]


def run(setting: Setting) -> Result:
    """Stitch every head to every encoder, over seeds."""
    seeds = setting.pick(quick=5, full=5)
    methods = {ORTHOGONAL: rl.Translator(**SVD), OURS: rl.RelativeTranslator()}
    found: dict[str, list[np.ndarray]] = {method: [] for method in (*methods, MLP)}
    controls: Controls = defaultdict(list)
    for seed in range(seeds):
        task = load_task("both kinds", seed)
        rows = {"anchors": task.anchors(ANCHORS), "train": task.fit, "test": task.test, "seed": seed}
        matrix = rl.stitching_matrix(task.spaces, SVC(), task.labels, methods=methods, **rows)
        mlp = rl.stitching_matrix(task.spaces, fit_mlp, task.labels, methods={ORTHOGONAL: methods[ORTHOGONAL]}, **rows)
        for method, matrices in found.items():  # rows are decoders, as in the paper
            matrices.append((mlp.values(ORTHOGONAL) if method == MLP else matrix.values(method)).T)
        for head, fit in HEADS.items():
            for text, scores in controlled(task, fit, seed).items():
                controls[head, text].append(scores)
    values = {method: np.stack(matrices) for method, matrices in found.items()}
    scales = {name: float(np.linalg.norm(x, axis=1).mean()) for name, x in task.spaces.items()}
    theirs = np.asarray(published("lst-figure1", "matrix"))
    return Result(
        [encoder_table(values, scales), control_table(controls), published_table(theirs)],
        [*findings({method: found.mean(axis=0) for method, found in values.items()}, theirs), why(controls)],
        seeds=seeds,
        data=[
            f"{len(task.labels):,} emoji in {len(np.unique(task.labels))} categories, {len(rows['anchors']):,} anchors"
        ],
        notes=[note(theirs)],
        stand_ins={"N24News, pictures and texts, 2,000 anchors": f"{STAND_INS['emoji']}; {STAND_INS['emoji texts']}"},
        series={"encoders": list(scales), "scales": list(scales.values()), **{m: v.mean(0) for m, v in values.items()}},
    )


def controlled(task: Task, fit: Fit, seed: int) -> dict[str, dict[str, float]]:
    """Return the mean accuracy over heads of pictures, by text encoder and by what pairs the anchors."""
    names, anchors, orthogonal = list(task.spaces), task.anchors(ANCHORS), rl.Translator(**SVD)
    pictures, texts = names[: len(PICTURE_ENCODERS)], names[len(PICTURE_ENCODERS) :]
    partners, labels = of_one_class(task.labels[anchors], seed), task.labels
    heads = {name: fit(x[task.fit], labels[task.fit]) for name, x in task.spaces.items()}
    found: dict[str, dict[str, list[float]]] = {text: {column: [] for column in COLUMNS} for text in texts}
    for picture in pictures:
        y, spaces = task.spaces[picture], {name: task.spaces[name] for name in (picture, *texts)}
        rows = {"anchors": anchors, "train": task.fit, "test": task.test, "seed": seed, "samples": task.inputs}
        stitches = {"decoders": {picture: heads[picture]}, "methods": {ORTHOGONAL: orthogonal}, "controls": True}
        matrix = rl.stitching_matrix(spaces, labels=labels, progress=False, **stitches, **rows)
        shuffled = {one.encoder: one.value for one in matrix.controls if one.control == SHUFFLED}
        for text in texts:
            x = task.spaces[text]
            by_class = fit_anyway(orthogonal, x[anchors], y[anchors[partners]]).transform(x[task.test])
            scores = (
                matrix.own(picture),
                accuracy(heads[text], x[task.test], labels[task.test]),
                matrix[text, picture, ORTHOGONAL].value,
                accuracy(heads[picture], by_class, labels[task.test]),
                shuffled[text],
                matrix.control(RANDOM, ORTHOGONAL),
            )
            for column, score in zip(COLUMNS, scores, strict=True):
                found[text][column].append(score)
    return {text: {column: float(np.mean(one)) for column, one in by.items()} for text, by in found.items()}


def of_one_class(labels: np.ndarray, seed: int) -> np.ndarray:
    """Return row numbers in a random order that leaves the labels as they are.

    >>> labels = np.asarray([0, 1, 0, 1])
    >>> labels[of_one_class(labels, 0)].tolist()
    [0, 1, 0, 1]
    """
    drawn, order = np.random.default_rng(seed).permutation(len(labels)), np.argsort(labels, kind="stable")
    partners = np.empty(len(labels), dtype=int)
    partners[order] = drawn[np.argsort(labels[drawn], kind="stable")]
    return partners


def accuracy(head: Any, x: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of rows that a head classifies correctly."""
    if isinstance(head, torch.nn.Module):
        with torch.inference_mode():
            return float(np.mean(head(torch.as_tensor(x, dtype=torch.float32)).argmax(dim=1).numpy() == labels))
    return float(head.score(x, labels))


HEADS: dict[str, Fit] = {"SVM": lambda x, labels: SVC().fit(x, labels), "MLP": fit_mlp}


def control_table(controls: Controls) -> Table:
    """Return what heads of pictures make of names, by what pairs the anchors."""
    rows = [[*key, *(spread(one[c] for one in found) for c in COLUMNS)] for key, found in controls.items()]
    title = "Heads of pictures that read names, by the pairs of anchors: accuracy"
    return Table(title, ("heads", "text encoder", *COLUMNS), rows)


def encoder_table(values: dict[str, np.ndarray], scales: dict[str, float]) -> Table:
    """Return score and scale of each encoder, what other heads make of it, and what its own head makes of others."""
    others = ~np.eye(len(scales), dtype=bool)
    rows = []
    for i, (name, scale) in enumerate(scales.items()):
        stitched = [spread(v[:, others[:, i], i].ravel()) for v in values.values()]
        reads = [spread(values[m][:, i, others[i]].ravel()) for m in (ORTHOGONAL, OURS)]
        rows.append([name, *(spread(values[m][:, i, i]) for m in (ORTHOGONAL, MLP)), *stitched, *reads, scale])
    titles = (
        *(f"read by other heads, {method}" for method in values),
        *(f"reads others, {m}" for m in (ORTHOGONAL, OURS)),
    )
    head = ("encoder", "score, SVM", "score, MLP", *titles, "scale")
    return Table("Accuracy of heads on emoji", head, rows)


def published_table(theirs: np.ndarray) -> Table:
    """Return the same of the paper's matrix."""
    encoders, others = published("lst-figure1", "encoders"), ~np.eye(len(theirs), dtype=bool)
    rows = [[name, float(theirs[i, i]), spread(theirs[others[:, i], i])] for i, name in enumerate(encoders)]
    return Table("Published, N24News", ("encoder", "score", "read by other heads, SVD"), rows)


def deviations(matrix: np.ndarray) -> tuple[float, float]:
    """Return how much the means of encoders (columns) differ, and the means of decoders (rows)."""
    return float(matrix.mean(axis=0).std()), float(matrix.mean(axis=1).std())


def findings(values: dict[str, np.ndarray], theirs: np.ndarray) -> list[Finding]:
    """Judge that the encoder decides, and that texts lift heads of pictures."""
    svd, dual = values[ORTHOGONAL], values[OURS]
    (by_encoder, by_decoder), in_words = deviations(svd), "{:.3f} and {:.3f}"
    without = in_words.format(*deviations(svd[:-1, :-1]))
    return [
        Finding(
            "the encoder decides: columns vary, rows hardly do",
            bool(by_encoder > 2 * by_decoder),
            f"Means of encoders have a std of {by_encoder:.3f}, means of decoders {by_decoder:.3f} (paper "
            f"{in_words.format(*deviations(theirs))})."
            + f" The exception is GloVe with its 50 dimensions: without it {without}." * (not on_hub())
            + f" With dual codes and all spaces: {in_words.format(*deviations(dual))}.",
        ),
        lifted("text → image stitching beats the image's own head", svd, theirs, headline=True),
        lifted("MLP heads of pictures gain from texts as well", values[MLP], theirs),
    ]


def lifted(claim: str, matrix: np.ndarray, theirs: np.ndarray, *, headline: bool = False) -> Finding:
    """Judge whether all heads of pictures gain from the text encoder of the best own head."""
    pictures, own = len(PICTURE_ENCODERS), np.diagonal(matrix)
    best, lifting = pictures + int(np.argmax(own[pictures:])), lifting_texts(matrix, pictures)
    of_paper = lifting_texts(theirs, published("lst-figure1", "pictures"))
    read, alone = (", ".join(f"{a:.2f}" for a in part) for part in (matrix[:pictures, best], own[:pictures]))
    return Finding(
        claim,
        bool(lifting[best - pictures]),
        f"The text encoder of the best own head, read by heads of pictures: {read}; these heads on their own pictures: "
        f"{alone}. {sum(lifting)} of {len(lifting)} text encoders lift every head of pictures (paper, SVM: "
        f"{sum(of_paper)} of {len(of_paper)}).",
        headline=headline,
    )


def lifting_texts(matrix: np.ndarray, pictures: int) -> np.ndarray:
    """Return of each text encoder whether every head of pictures reads it better than its own pictures."""
    return np.all(matrix[:pictures, pictures:] > np.diagonal(matrix)[:pictures, None], axis=0)


def why(controls: Controls) -> Finding:
    """Judge what a head gains where it gains: whether pairs that agree in their class alone carry most of it."""
    mean = {key: {c: float(np.mean([one[c] for one in found])) for c in COLUMNS} for key, found in controls.items()}
    gains = {key: m for key, m in mean.items() if m[TRUE] > m[OWN]}
    return Finding(
        "where a head gains from another modality, pairs that agree in nothing but their class carry most of the gain, "
        "and the text's own head is its bound (our question)",
        bool(gains)
        and all(m[BY_CLASS] - m[OWN] > (m[TRUE] - m[OWN]) / 2 and m[TRUE] < m[TEXT] for m in gains.values()),
        f"Heads gain in {len(gains)} of {len(mean)} cases. "
        + "; ".join(f"{', '.join(key)}: {', '.join(f'{c} {m[c]:.2f}' for c in COLUMNS)}" for key, m in gains.items()),
    )


def note(theirs: np.ndarray) -> str:
    """Return on what it depends, in the published matrix, whether texts lift heads of pictures."""
    pictures, names = published("lst-figure1", "pictures"), published("lst-figure1", "encoders")
    own, lifting = np.diagonal(theirs), lifting_texts(theirs, published("lst-figure1", "pictures"))
    others = [names[pictures + i] for i in np.flatnonzero(~lifting)]
    scores = ", ".join(f"{name} {own[names.index(name)]:.2f}" for name in others)
    return (
        f"In the published matrix {sum(lifting)} of {len(lifting)} text encoders lift every head of pictures. A higher "
        f"own score is not enough: the others score {scores}, and the best of pictures {own[:pictures].max():.2f}."
    )


def draw(result: Result) -> Figure:
    """Draw the matrices of SVM heads, ours and the published, that of MLP heads, and scores and scales."""
    figure, axes = panels(2, 3, size=(4.0, 3.4))
    names, theirs = result.series["encoders"], published("lst-figure1", "encoders")
    matrices = (
        ("SVM heads (SVD)", result.series[ORTHOGONAL], names),
        ("MLP heads (SVD)", result.series[MLP], names),
        ("SVM heads (dual codes, ours)", result.series[OURS], names),
        ("Published, N24News: SVM heads (SVD)", published("lst-figure1", "matrix"), theirs),
    )
    for panel, (title, values, encoders) in zip(axes.flat, matrices, strict=False):
        heat_map(panel, np.asarray(values), encoders, encoders)
        panel.set(title=title, xlabel="encoder", ylabel="head trained on")
    scores = np.diagonal(np.asarray(result.series[MLP]))
    colors = [COLORS[1] if i < len(PICTURE_ENCODERS) else COLORS[0] for i in range(len(names))]
    for panel, title, values in zip(
        axes[1, 1:], ("score (MLP)", "scale"), (scores, result.series["scales"]), strict=True
    ):
        panel.barh(range(len(names)), values, color=colors)
        panel.set_yticks(range(len(names)), names)
        panel.invert_yaxis()
        panel.set_title(title)
    figure.suptitle("Emoji: pictures (orange) and names (blue); the published matrix below", fontsize=10)
    return figure
