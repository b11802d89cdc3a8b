"""Pictures and texts: the cross-modal stitching matrix of Maiorca et al. (2024), on emoji.

A head per encoder tells the category of an emoji from its picture or from its name. Every head then reads every other
encoder through inverse relative projection, head, ω and δ chosen on validation rows, and through relatent's dual codes.
Controls are anchors that are paired at random, and a layer with random weights over the pictures in place of the
encoder.

    python -m experiments irp-modalities
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from experiments.data.source import BySource
from experiments.data.tasks import SEEN, STAND_INS, load_task
from experiments.figures import heat_map, panels
from experiments.inverse_relative_projection.decoding import ANCHORS, choose
from experiments.results import Finding, Result, Setting, Table, spread

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = BySource(packages=("google", "twitter"), hub=SEEN)
INVERSE, OURS = "inverse relative projection", "dual codes (ours)"
CONTROLS, MARGIN = ("shuffled pairs", "random encoder"), 0.1
KINDS = ("picture", "text")
# One per method, seeds × encoders × heads, with heads on their own encoder on the diagonal.
Matrices = dict[str, np.ndarray]


def run(setting: Setting) -> Result:
    """Stitch every head to every encoder, over seeds."""
    seeds = setting.pick(quick=5, full=5)
    first = load_task("both kinds")
    chosen = choose(first)
    found: dict[str, list[np.ndarray]] = {INVERSE: [], OURS: []}
    controls: dict[tuple[str, str], list[float]] = {(method, one): [] for method in found for one in CONTROLS}
    for seed in range(seeds):
        task = load_task("both kinds", seed)
        inverse = rl.RelativeTranslator("cosine", delta=chosen.delta, omega=chosen.omega, seed=seed)
        matrix = rl.stitching_matrix(
            task.spaces,
            chosen.head,
            task.labels,
            samples=task.inputs,
            anchors=task.anchors(ANCHORS),
            train=task.fit,
            test=task.test,
            methods={INVERSE: inverse, OURS: rl.RelativeTranslator()},
            controls=True,
            seed=seed,
        )
        for method, matrices in found.items():
            matrices.append(matrix.values(method))
        for (method, control), scores in controls.items():
            scores.append(matrix.control(control, method))
    values, encoders = {method: np.stack(m) for method, m in found.items()}, list(first.spaces)
    chance = float(np.bincount(first.labels).max() / len(first.labels))
    return Result(
        [table(values, controls, encoders, chance)],
        [*findings(values, encoders, chance), control_finding(values, controls)],
        seeds=seeds,
        data=[
            f"1,906 emoji in nine categories, {ANCHORS} anchors, chosen on validation rows: the head, "
            f"δ = {chosen.delta} and ω = {chosen.omega}"
        ],
        stand_ins={"N24News, pictures and texts": f"{STAND_INS['emoji']}; {STAND_INS['emoji texts']}"},
        series={"encoders": encoders} | {method: m.mean(axis=0) for method, m in values.items()},
    )


def by_kind(m: np.ndarray, encoders: list[str], source: str, target: str) -> np.ndarray:
    """Return the values of pairs of different encoders from one kind to another; m is seeds × encoders × decoders."""
    kind = np.asarray(["picture" if name in PICTURES else "text" for name in encoders])
    pairs = np.outer(kind == source, kind == target) & ~np.eye(len(encoders), dtype=bool)
    return m[:, pairs].ravel()


def table(values: Matrices, controls: dict[tuple[str, str], list[float]], encoders: list[str], chance: float) -> Table:
    """Average over the pairs of each kind."""
    ways = [(a, b) for a in KINDS for b in KINDS]
    rows = [
        [
            method,
            *(spread(by_kind(m, encoders, *way)) for way in ways),
            spread(np.diagonal(m, axis1=1, axis2=2).ravel()),
            *(spread(controls[method, control]) for control in CONTROLS),
        ]
        for method, m in values.items()
    ]
    columns = ("stitched by", *(f"{a} → {b}" for a, b in ways), "own encoder", *CONTROLS)
    return Table(f"Accuracy; the largest category alone gives {chance:.2f}", columns, rows)


def findings(values: Matrices, encoders: list[str], chance: float) -> list[Finding]:
    """Judge what the paper reads from its matrix. Sources are compared under the same heads, since heads differ."""
    m = values[INVERSE]
    mean = {way: float(by_kind(m, encoders, *way).mean()) for way in ((a, b) for a in KINDS for b in KINDS)}
    across = min(mean["text", "picture"], mean["picture", "text"])
    apart = m.mean(axis=0)[~np.eye(len(encoders), dtype=bool)]
    return [
        Finding(
            "language encoders are the better sources",
            all(mean["text", target] > mean["picture", target] for target in KINDS),
            "; ".join(
                f"heads of {target}s on texts {mean['text', target]:.2f}, on pictures {mean['picture', target]:.2f}"
                for target in KINDS
            )
            + ".",
        ),
        Finding(
            "cross-modal stitching works",
            across > 2 * chance,
            f"{across:.2f} at least on average, the largest category gives {chance:.2f}; "
            f"the worst pair of all reaches {apart.min():.2f}.",
        ),
    ]


def control_finding(values: Matrices, controls: dict[tuple[str, str], list[float]]) -> Finding:
    """Judge whether stitches need true pairs and a trained encoder."""
    apart = {method: m[:, ~np.eye(m.shape[1], dtype=bool)] for method, m in values.items()}
    lead = min(float(apart[INVERSE].mean() - np.mean(controls[INVERSE, control])) for control in CONTROLS)
    return Finding(
        f"stitches beat {' and '.join(CONTROLS)} by {MARGIN:g} (our question)",
        lead >= MARGIN,
        "; ".join(
            f"{method} {m.mean():.2f}, "
            + ", ".join(f"{control} {np.mean(controls[method, control]):.2f}" for control in CONTROLS)
            for method, m in apart.items()
        )
        + ".",
    )


def draw(result: Result) -> Figure:
    """Draw both matrices."""
    figure, axes = panels(1, 2, size=(3.9, 3.2))
    for panel, method in zip(axes[0], (INVERSE, OURS), strict=True):
        names = result.series["encoders"]
        heat_map(panel, result.series[method], names, names, vmin=0.2, vmax=0.9)
        panel.set_title(method)
        panel.set_xlabel("head trained on")
    axes[0, 0].set_ylabel("encoder")
    figure.suptitle("Emoji: accuracy of heads reading pictures (google, twitter) and names", fontsize=10)
    return figure
