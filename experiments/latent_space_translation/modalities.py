"""Pictures and texts: the cross-modal matrix with scores and scales of Maiorca et al., NeurIPS 2023, on emoji.

SVM heads (the main text) and MLP heads (figure 1 of the supplement) tell the category of an emoji from its picture or
its name; each reads every other encoder, translated by orthogonal Procrustes after standard scaling. Score is a head on
its own encoder, scale the mean norm of an encoder.

The supplement leaves open why heads gain from another modality. Three controls on the heads of pictures that read
names: the head of the text encoder itself, which bounds what the names tell; anchors paired at random among those of
one class, so that only classes are in correspondence; and anchors paired at random. A random encoder shows what a head
makes of nothing.

    python -m experiments lst-figure1
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data.source import BySource, on_hub
from experiments.data.tasks import SEEN, STAND_INS, Task, load_task
from experiments.figures import COLORS, heat_map, panels
from experiments.latent_space_translation.heads import fit_mlp
from experiments.published import published
from experiments.relative_representations.stitched import RANDOM, RandomEncoder, fit_anyway
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.svm import SVC

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_ENCODERS = BySource(packages=("google", "twitter"), hub=SEEN)
NOTE = (
    "Where the findings depend on the encoders: in the paper the best text encoder scores nearly twice as much as the "
    "best of pictures, so that texts lift every head of pictures. Here the scores lie close together, and a head of "
    "pictures gains from texts only where its own score is the lower one. That the encoder decides holds among wide "
    "spaces; an orthogonal map from 1,280 to the 50 dimensions of GloVe keeps too little. Dual codes were tried on the "
    "same anchors and do not break down there."
)
ANCHORS, ORTHOGONAL, OURS, MLP = 2_000, "SVD", "dual codes (ours)", "SVD, MLP heads"
OWN, TRUE, BY_CLASS, SHUFFLED, TEXT = (
    "own pictures",
    "true pairs",
    "pairs of one class",
    "shuffled pairs",
    "text's own head",
)
Fit = Callable[[np.ndarray, np.ndarray], Any]


def run(setting: Setting) -> Result:
    """Stitch every head to every encoder, over seeds."""
    seeds = setting.pick(quick=5, full=5)
    methods = {ORTHOGONAL: rl.Translator(map="orthogonal", normalize="standard"), OURS: rl.RelativeTranslator()}
    found: dict[str, list[np.ndarray]] = {method: [] for method in (*methods, MLP)}
    controls: dict[str, list[dict[str, float]]] = {head: [] for head in HEADS}
    for seed in range(seeds):
        task = load_task("both kinds", seed)
        rows = {"anchors": task.anchors(ANCHORS), "train": task.fit, "test": task.test, "seed": seed}
        matrix = rl.stitching_matrix(task.spaces, SVC(), task.labels, methods=methods, **rows)
        mlp = rl.stitching_matrix(task.spaces, fit_mlp, task.labels, methods={ORTHOGONAL: methods[ORTHOGONAL]}, **rows)
        for method, matrices in found.items():  # rows are decoders, as in the paper
            matrices.append((mlp.values(ORTHOGONAL) if method == MLP else matrix.values(method)).T)
        for head, fit in HEADS.items():
            controls[head].append(controlled(task, fit, seed))
    values = {method: np.stack(matrices) for method, matrices in found.items()}
    scales = {name: float(np.linalg.norm(x, axis=1).mean()) for name, x in task.spaces.items()}
    theirs = np.asarray(published("lst-figure1", "matrix"))
    return Result(
        [encoder_table(values, scales), control_table(controls), published_table(theirs)],
        findings({method: found.mean(axis=0) for method, found in values.items()}, theirs, controls),
        seeds=seeds,
        data=[f"1,906 emoji in nine categories, {len(rows['anchors']):,} anchors"],
        notes=[NOTE],
        stand_ins={"N24News, pictures and texts, 2,000 anchors": f"{STAND_INS['emoji']}; {STAND_INS['emoji texts']}"},
        series={"encoders": list(scales), "scales": list(scales.values()), **{m: v.mean(0) for m, v in values.items()}},
    )


def controlled(task: Task, fit: Fit, seed: int) -> dict[str, float]:
    """Return the mean accuracy over heads of pictures and encoders of texts, by what pairs the anchors."""
    names, rng = list(task.spaces), np.random.default_rng(seed)
    anchors, labels = task.anchors(ANCHORS), task.labels
    by_class, order = rng.permutation(anchors), np.argsort(labels[anchors], kind="stable")
    by_class = by_class[np.argsort(labels[by_class], kind="stable")][np.argsort(order)]  # the same class, another row
    partners = {TRUE: anchors, BY_CLASS: by_class, SHUFFLED: rng.permutation(anchors)}
    heads = {name: fit(x[task.fit], labels[task.fit]) for name, x in task.spaces.items()}
    found: dict[str, list[float]] = {name: [] for name in (OWN, *partners, RANDOM, TEXT)}
    for picture, text in product(names[: len(PICTURE_ENCODERS)], names[len(PICTURE_ENCODERS) :]):
        x, y = task.spaces[text], task.spaces[picture]
        found[OWN].append(accuracy(heads[picture], y[task.test], labels[task.test]))
        found[TEXT].append(accuracy(heads[text], x[task.test], labels[task.test]))
        orthogonal = rl.Translator(map="orthogonal", normalize="standard")
        fitted = {name: fit_anyway(orthogonal, x[anchors], y[rows]) for name, rows in partners.items()}
        fitted[RANDOM] = RandomEncoder(orthogonal, seed).fit(x[anchors], y[anchors])
        for name, t in fitted.items():
            found[name].append(accuracy(heads[picture], t.transform(x[task.test]), labels[task.test]))
    return {name: float(np.mean(scores)) for name, scores in found.items()}


def accuracy(head: Any, x: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of rows that a head classifies correctly."""
    if isinstance(head, torch.nn.Module):
        with torch.inference_mode():
            return float(np.mean(head(torch.as_tensor(x, dtype=torch.float32)).argmax(dim=1).numpy() == labels))
    return float(head.score(x, labels))


HEADS: dict[str, Fit] = {"SVM": lambda x, labels: SVC().fit(x, labels), "MLP": fit_mlp}


def control_table(controls: dict[str, list[dict[str, float]]]) -> Table:
    """Return what heads of pictures make of names, by what pairs the anchors."""
    columns = list(controls["SVM"][0])
    rows = [[head, *(spread(one[c] for one in found) for c in columns)] for head, found in controls.items()]
    return Table("Heads of pictures that read names, by the pairs of anchors: accuracy", ("heads", *columns), rows)


def encoder_table(values: dict[str, np.ndarray], scales: dict[str, float]) -> Table:
    """Return score and scale of each encoder, and what other heads make of it."""
    others = ~np.eye(len(scales), dtype=bool)
    rows = []
    for i, (name, scale) in enumerate(scales.items()):
        stitched = [spread(v[:, others[:, i], i].ravel()) for v in values.values()]
        rows.append([name, *(spread(values[m][:, i, i]) for m in (ORTHOGONAL, MLP)), *stitched, scale])
    head = ("encoder", "score, SVM", "score, MLP", *(f"read by other heads, {method}" for method in values), "scale")
    return Table("Accuracy of heads on emoji", head, rows)


def published_table(theirs: np.ndarray) -> Table:
    """Return the same of the paper's matrix."""
    encoders, others = published("lst-figure1", "encoders"), ~np.eye(len(theirs), dtype=bool)
    rows = [[name, float(theirs[i, i]), spread(theirs[others[:, i], i])] for i, name in enumerate(encoders)]
    return Table("Published, N24News", ("encoder", "score", "read by other heads, SVD"), rows)


def deviations(matrix: np.ndarray) -> tuple[float, float]:
    """Return how much the means of encoders (columns) differ, and the means of decoders (rows)."""
    return float(matrix.mean(axis=0).std()), float(matrix.mean(axis=1).std())


def findings(
    values: dict[str, np.ndarray], theirs: np.ndarray, controls: dict[str, list[dict[str, float]]]
) -> list[Finding]:
    """Judge that the encoder decides, that texts lift heads of pictures, and why."""
    svd, dual, mlp = values[ORTHOGONAL], values[OURS], values[MLP]
    mean = {head: {c: np.mean([one[c] for one in found]) for c in found[0]} for head, found in controls.items()}
    (by_encoder, by_decoder), in_words = deviations(svd), "{:.3f} and {:.3f}"
    pictures = len(PICTURE_ENCODERS)
    without = in_words.format(*deviations(svd[:-1, :-1]))
    best, own = svd[:pictures, pictures:].max(axis=1), np.diagonal(svd)[:pictures]
    return [
        Finding(
            "the encoder decides: columns vary, rows hardly do",
            bool(by_encoder > 2 * by_decoder),
            f"Means of encoders have a std of {by_encoder:.3f}, means of decoders {by_decoder:.3f} (paper "
            f"{in_words.format(*deviations(theirs))})."
            + f" The exception is GloVe with its 50 dimensions: without it {without}." * (not on_hub())
            + f" With dual codes and all spaces: {in_words.format(*deviations(dual))}.",
        ),
        Finding(
            "text → image stitching beats the image's own head",
            bool((best > own).all()),
            f"The best text encoder read by heads of pictures: {', '.join(f'{b:.2f}' for b in best)}; these heads on "
            f"their own pictures: {', '.join(f'{o:.2f}' for o in own)}.",
            headline=True,
        ),
        Finding(
            "MLP heads of pictures gain from texts as well",
            bool((mlp[:pictures, pictures:].max(axis=1) > np.diagonal(mlp)[:pictures]).all()),
            f"The best text encoder: {', '.join(f'{b:.2f}' for b in mlp[:pictures, pictures:].max(axis=1))}; on their "
            f"own pictures: {', '.join(f'{o:.2f}' for o in np.diagonal(mlp)[:pictures])}.",
        ),
        Finding(
            "what a head gains from another modality is what the other encoder knows of the classes, and pairs that "
            "agree in nothing but their class carry most of it (our question)",
            all(
                m[SHUFFLED] < 0.6 * m[BY_CLASS] and m[BY_CLASS] > 0.8 * m[TRUE] and m[TRUE] < m[TEXT]
                for m in mean.values()
            ),
            "; ".join(
                f"{head}: true pairs {m[TRUE]:.2f}, pairs of one class {m[BY_CLASS]:.2f}, shuffled pairs "
                f"{m[SHUFFLED]:.2f}, a random encoder {m[RANDOM]:.2f}, the text's own head {m[TEXT]:.2f}"
                for head, m in mean.items()
            ),
        ),
    ]


def draw(result: Result) -> Figure:
    """Draw the matrices of both kinds of heads, the scores beside them and the scales."""
    figure, axes = panels(1, 4, size=(2.9, 3.0), width_ratios=[2.2, 2.2, 1, 1])
    names = result.series["encoders"]
    for panel, kind, method in zip(axes[0], ("SVM", "MLP"), (ORTHOGONAL, MLP), strict=False):
        heat_map(panel, np.asarray(result.series[method]), names, names)
        panel.set(title=f"Stitched {kind} heads (SVD)", xlabel="encoder", ylabel="head trained on")
    scores = np.diagonal(np.asarray(result.series[MLP]))
    for panel, title, values in zip(
        axes[0, 2:], ("score (MLP)", "scale"), (scores, result.series["scales"]), strict=True
    ):
        colors = [COLORS[1] if i < len(PICTURE_ENCODERS) else COLORS[0] for i in range(len(names))]
        panel.barh(range(len(names)), values, color=colors)
        panel.set_yticks(range(len(names)), names)
        panel.invert_yaxis()
        panel.set_title(title)
    figure.suptitle("Emoji: pictures (orange) and names (blue)", fontsize=10)
    return figure
