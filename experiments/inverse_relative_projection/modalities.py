"""Pictures and texts: the cross-modal stitching matrix of Maiorca et al. (2024), on emoji.

A head per encoder tells the category of an emoji from its picture or from its name. Every head then reads every other
encoder through inverse relative projection, head, ω and δ chosen on validation rows, and through relatent's dual codes.

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


def run(setting: Setting) -> Result:
    """Stitch every head to every encoder, over seeds."""
    seeds = setting.pick(quick=5, full=5)
    first = load_task("both kinds")
    chosen = choose(first)
    found: dict[str, list[np.ndarray]] = {INVERSE: [], OURS: []}
    for seed in range(seeds):
        task = load_task("both kinds", seed)
        inverse = rl.RelativeTranslator("cosine", delta=chosen.delta, omega=chosen.omega, seed=seed)
        matrix = rl.stitching_matrix(
            task.spaces,
            chosen.head,
            task.labels,
            anchors=task.anchors(ANCHORS),
            train=task.fit,
            test=task.test,
            methods={INVERSE: inverse, OURS: rl.RelativeTranslator()},
        )
        for method, matrices in found.items():
            matrices.append(matrix.values(method))
    values, encoders = {method: np.stack(m) for method, m in found.items()}, list(first.spaces)
    chance = float(np.bincount(first.labels).max() / len(first.labels))
    return Result(
        [table(values, encoders, chance)],
        findings(values, encoders, chance),
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


def table(values: dict[str, np.ndarray], encoders: list[str], chance: float) -> Table:
    """Average over the pairs of each kind."""
    ways = [(a, b) for a in ("picture", "text") for b in ("picture", "text")]
    rows = [
        [
            method,
            *(spread(by_kind(m, encoders, *way)) for way in ways),
            spread(np.diagonal(m, axis1=1, axis2=2).ravel()),
        ]
        for method, m in values.items()
    ]
    columns = ("stitched by", *(f"{a} → {b}" for a, b in ways), "own encoder")
    return Table(f"Accuracy; the largest category alone gives {chance:.2f}", columns, rows)


def findings(values: dict[str, np.ndarray], encoders: list[str], chance: float) -> list[Finding]:
    """Judge what the paper reads from its matrix."""
    m = values[INVERSE]
    from_text, from_picture = (by_kind(m, encoders, *way).mean() for way in (("text", "picture"), ("picture", "text")))
    apart = m.mean(axis=0)[~np.eye(len(encoders), dtype=bool)]
    return [
        Finding(
            "language encoders are the better sources across modalities",
            bool(from_text > from_picture),
            f"Text → picture {from_text:.2f}, picture → text {from_picture:.2f}.",
        ),
        Finding(
            "cross-modal stitching works",
            bool(min(from_text, from_picture) > 2 * chance),
            f"{min(from_text, from_picture):.2f} at least on average, the largest category gives {chance:.2f}; "
            f"the worst pair of all reaches {apart.min():.2f}.",
        ),
    ]


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
