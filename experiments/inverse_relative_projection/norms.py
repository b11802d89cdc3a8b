"""How norms are distributed in each encoder: the scale distributions of Maiorca et al. (2024).

Inverse relative projection gives every decoded vector the mean norm of the target's anchors. That costs little where
norms are narrow, have one mode and few outliers. Encoders whose vectors have norm 1 by construction are left out.

    python -m experiments irp-scales
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.data.source import BySource
from experiments.data.tasks import TASKS, load_task
from experiments.figures import COLORS, panels
from experiments.results import Finding, Result, Setting, Table
from scipy.signal import find_peaks
from scipy.stats import gaussian_kde

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = BySource(
    packages=("mnist", "cifar10", "fashion", "groceries", "emoji", "emoji texts", "trec", "newsgroups", "tweets"),
    hub=("cifar100 fine",),
)
BINS, UNIT = 30, 1e-3
# Of norms that one number may stand for: spread and outliers at most, |skew| at most.
NARROW, FEW, SYMMETRIC = 0.25, 0.05, 1.0
# A mode is a peak of the kernel density that rises by this share of the highest one above what surrounds it.
RISE, POINTS = 0.05, 200


def run(setting: Setting) -> Result:
    """Take the norms of every encoder of every task."""
    found: dict[str, rl.evaluate.NormDistribution] = {}
    peaks: dict[str, int] = {}
    for name in NAMES:
        for space, x in load_task(name).spaces.items():
            norms = rl.evaluate.norms(x, bins=BINS)
            if norms.std > UNIT * norms.mean:
                label = f"{TASKS[name].title}: {space}"
                found[label], peaks[label] = norms, modes(np.linalg.norm(x, axis=1))
    shape = ("modes", "skew", "excess kurtosis", "outliers", "Jarque–Bera", "p")
    columns = ("encoder", "n", "mean", "std", "std / mean", *shape)
    return Result(
        [Table("L2 norms", columns, [[name, *row(norms, peaks[name])] for name, norms in found.items()])],
        findings(found, peaks),
        data=[TASKS[name].title for name in NAMES],
        stand_ins={"CIFAR-100 through pre-trained vision encoders": "all encoders of the stitching tasks"},
        series={name: curve(norms) for name, norms in found.items()},
    )


def modes(norms: np.ndarray) -> int:
    """Return the number of peaks of a kernel density of Silverman's bandwidth."""
    density = gaussian_kde(norms, "silverman")(np.linspace(norms.min(), norms.max(), POINTS))
    return len(find_peaks(np.pad(density, 1), prominence=RISE * density.max())[0])


def row(norms: rl.evaluate.NormDistribution, peaks: int) -> list[Any]:
    """Return the cells of one encoder."""
    shape = [norms.skew, norms.kurtosis, norms.outlier_share, norms.normality, f"{norms.normality_p:.1g}"]
    return [str(norms.n), norms.mean, norms.std, norms.std / norms.mean, str(peaks), *shape]


def curve(norms: rl.evaluate.NormDistribution) -> dict[str, list[float]]:
    """Return the histogram in mean norms, as a density."""
    share = norms.counts / norms.n / np.diff(norms.edges) * norms.mean
    return {"at": list((norms.edges[1:] + norms.edges[:-1]) / 2 / norms.mean), "density": list(share)}


def findings(found: dict[str, rl.evaluate.NormDistribution], peaks: dict[str, int]) -> list[Finding]:
    """Judge whether one number may stand for the norms of an encoder."""
    failed = {name: reasons for name, n in found.items() if (reasons := against(n, peaks[name]))}
    normal = [n for n in found.values() if n.normality_p > 0.01]
    return [
        Finding(
            "norms have a narrow distribution with one mode and few outliers",
            not failed,
            f"{len(found) - len(failed)} of {len(found)} encoders have one mode, a std below {NARROW:.0%} of the mean, "
            f"|skew| below {SYMMETRIC:g} and fewer than {FEW:.0%} outliers. "
            + ("The others: " + "; ".join(f"{name}, {why}" for name, why in failed.items()) + "." if failed else ""),
        ),
        Finding(
            "norms are Gaussian",
            len(normal) > len(found) / 2,
            f"Jarque–Bera rejects a normal distribution at p < .01 for {len(found) - len(normal)} of {len(found)} "
            f"encoders: with thousands of rows a small skew is enough. |skew| has the median "
            f"{np.median([abs(n.skew) for n in found.values()]):.2f}.",
        ),
    ]


def against(norms: rl.evaluate.NormDistribution, peaks: int) -> str:
    """Return what speaks against one number for all norms, in words."""
    spread, outliers = norms.std / norms.mean, norms.outlier_share
    reasons = {
        f"{peaks} modes": peaks != 1,
        f"std {spread:.0%}": spread >= NARROW,
        f"skew {norms.skew:.2f}": abs(norms.skew) >= SYMMETRIC,
        f"{outliers:.1%} outliers": outliers >= FEW,
    }
    return ", ".join(reason for reason, applies in reasons.items() if applies)


def draw(result: Result) -> Figure:
    """Draw one small histogram per encoder, all in units of their mean."""
    columns = 4
    rows = -(-len(result.series) // columns)
    figure, axes = panels(rows, columns, size=(2.2, 1.5), sharex=True)
    for panel in axes.ravel()[len(result.series) :]:
        panel.set_axis_off()
    for panel, (name, found) in zip(axes.ravel(), result.series.items(), strict=False):
        panel.fill_between(found["at"], found["density"], step="mid", color=COLORS[0], alpha=0.8, linewidth=0)
        panel.axvline(1, color=COLORS[1], linewidth=1)
        panel.set_title(name.replace(": ", "\n"), fontsize=8)
        panel.set_yticks([])
        panel.set_xlim(0, 2)
    figure.supxlabel("norm, in mean norms of the encoder", fontsize=9)
    return figure
