"""What the stitching table of Maiorca et al. (2024) says, judged: the findings of irp-stitching."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from experiments.data.tasks import TASKS
from experiments.published import published
from experiments.results import Cell, Finding, Table, spread

OWN, ABSOLUTE, RELATIVE, DIRECT = (
    "own",
    "absolute",
    "relative, heads of their own, one seed",
    "orthogonal (SVD), both spaces",
)
UNTUNED, PAPER, CHOSEN, OURS = "paper's ω, δ, SVM", "paper's ω, δ", "chosen ω, δ", "dual codes (ours)"
MAJORITY, CONTROLS = "majority", ("shuffled pairs", "random encoder")
# The paper's ω and δ of TREC, for data that it does not have.
OMEGA, DELTA = 8, 0.7
# By how much a stitch has to beat a control, and how near to random absolute vectors are.
MARGIN = 0.1

# By method, one matrix of encoders × heads per seed, heads on their own encoder on the diagonal; controls are numbers.
Found = dict[Any, list[Any]]


def setting_of(name: str) -> tuple[int, float]:
    """Return the paper's ω and δ for a data set."""
    found = published("irp-stitching", name)
    return (found["omega"], found["delta"]) if isinstance(found, dict) else (OMEGA, DELTA)


def own(matrices: list[np.ndarray]) -> np.ndarray:
    """Return the heads on their own encoders, over seeds."""
    return np.diagonal(matrices, axis1=1, axis2=2).ravel()


def apart(matrices: list[np.ndarray]) -> np.ndarray:
    """Return the pairs of different encoders that could be stitched, over seeds."""
    found = np.asarray(matrices)
    values = found[:, ~np.eye(found.shape[1], dtype=bool)].ravel()
    return values[np.isfinite(values)]


def kept(matrices: list[np.ndarray]) -> float:
    """Return the share of the heads' own accuracy that pairs keep, mean over mean, as the paper's table gives it."""
    return float(apart(matrices).mean() / own(matrices).mean())


def shares(matrices: list[np.ndarray]) -> np.ndarray:
    """Return what each pair keeps of its head's own accuracy, seeds × encoders × heads, NaN on the diagonal."""
    found = np.asarray(matrices)
    share = found / np.diagonal(found, axis1=1, axis2=2)[:, None]
    return np.where(np.eye(found.shape[1], dtype=bool), np.nan, share)


def by_encoder(found: Mapping[str, Found], encoders: Mapping[str, list[str]]) -> Table:
    """Return the share that is kept of the heads' own accuracy, from each encoder and into it."""
    rows: list[list[Cell]] = []
    for name, one in found.items():
        both = [shares(one[method]) for method in (UNTUNED, CHOSEN)]
        for i, encoder in enumerate(encoders[name]):
            cells = [values for share in both for values in (share[:, i], share[:, :, i])]
            alone = spread(np.asarray(one[UNTUNED])[:, i, i])
            rows.append([TASKS[name].title, encoder, alone, *(spread(v[np.isfinite(v)]) for v in cells)])
    ways = (f"{way}, {method}" for method in (UNTUNED, CHOSEN) for way in ("as source", "as target"))
    return Table(
        "Share of the heads' own accuracy that is kept, by encoder; mean ± std over pairs and seeds",
        ("data", "encoder", "own, SVM", *ways),
        rows,
    )


def findings(found: Mapping[str, Found]) -> list[Finding]:
    """Judge the table: the paper's setting first."""
    return [
        keeps_as_published(found),
        *(keeps_a_share(found, method) for method in (UNTUNED, CHOSEN)),
        absolute_fails(found),
        own_is_above(found),
        beats_controls(found),
        nowhere_below(found, "choosing ω and δ on validation rows is nowhere worse than the paper's", PAPER, CHOSEN),
        nowhere_below(found, "dual codes are nowhere worse than the paper's method with chosen ω, δ", CHOSEN, OURS),
    ]


def published_share(name: str) -> float | None:
    """Return the share that the paper's table keeps of a data set, None where it does not have it."""
    figures = [published("irp-stitching", name, key) for key in ("stitched", OWN)]
    if not isinstance(published("irp-stitching", name), dict):
        return None
    stitched, alone = (float(one.split()[0]) for one in figures)
    return stitched / alone


def keeps_as_published(found: Mapping[str, Found]) -> Finding:
    """Judge the share that is kept, data set by data set."""
    theirs = {name: share for name in found if (share := published_share(name)) is not None}
    ours = {name: kept(found[name][UNTUNED]) for name in theirs}
    return Finding(
        "with the paper's ω, δ and head stitched heads keep as large a share of their own accuracy as in the paper",
        all(ours[name] >= share for name, share in theirs.items()),
        said({name: f"{ours[name]:.0%} (paper {share:.0%})" for name, share in theirs.items()})
        + " With the chosen head: "
        + said({name: f"{kept(found[name][PAPER]):.0%}" for name in theirs}),
        headline=True,
    )


def keeps_a_share(found: Mapping[str, Found], method: str) -> Finding:
    """Judge the range that the paper gives in words."""
    low, high = published("irp-stitching", "kept")
    ours = {name: kept(one[method]) for name, one in found.items()}
    below = [TASKS[name].title for name, share in ours.items() if share < low]
    return Finding(
        f"stitched heads keep {low:.0%} to {high:.0%} of their own accuracy, "
        + ("with the paper's ω, δ and head" if method == UNTUNED else "with chosen ω, δ and head (ours)"),
        not below,
        said({name: f"{share:.0%}" for name, share in ours.items()})
        + (f" Below {low:.0%}: {', '.join(below)}." if below else ""),
        headline=method == UNTUNED,
    )


def absolute_fails(found: Mapping[str, Found]) -> Finding:
    """Judge absolute vectors, where widths allow them at all."""
    values = {name: apart(one[ABSOLUTE]) for name, one in found.items()}
    above = {name: float(v.mean() - np.mean(found[name][MAJORITY])) for name, v in values.items() if len(v)}
    pairs = {method: sum(len(apart(one[method][:1])) for one in found.values()) for method in (ABSOLUTE, UNTUNED)}
    total = sum(one[UNTUNED][0].size - len(one[UNTUNED][0]) for one in found.values())
    return Finding(
        "absolute vectors stitch encoders of one width only and are near random; decoded ones stitch every pair",
        pairs[ABSOLUTE] < pairs[UNTUNED] == total and all(one < MARGIN for one in above.values()),
        f"Absolute: {pairs[ABSOLUTE]} of {total} pairs, decoded: {pairs[UNTUNED]}. Absolute minus the head's most "
        "frequent answer: " + said({name: f"{one:+.2f}" for name, one in above.items()}),
    )


def own_is_above(found: Mapping[str, Found]) -> Finding:
    """Judge the heads on their own encoders as an upper bound, over data sets and pair by pair."""
    by_pair = {name: np.nanmax(np.mean(shares(one[UNTUNED]), axis=0)) for name, one in found.items()}
    means = {name: kept(one[UNTUNED]) for name, one in found.items()}
    highest = max(by_pair, key=lambda name: float(by_pair[name]))
    return Finding(
        "heads on their own encoders are an upper bound",
        max(means.values()) <= 1 and max(by_pair.values()) <= 1,
        f"Means over pairs keep at most {max(means.values()):.0%}. Of single pairs the best keeps "
        f"{by_pair[highest]:.0%} ({TASKS[highest].title}): a head may read another encoder better than its own.",
    )


def beats_controls(found: Mapping[str, Found]) -> Finding:
    """Judge whether stitches need true pairs and a trained encoder."""
    lead = {method: {name: smallest_lead(one, method) for name, one in found.items()} for method in (UNTUNED, OURS)}
    least = min(lead[UNTUNED].values())
    values = {
        name: ", ".join(f"{np.mean(one[UNTUNED, control]):.2f}" for control in CONTROLS)
        + f" against {apart(one[UNTUNED]).mean():.2f}"
        for name, one in found.items()
    }
    return Finding(
        f"with the paper's ω, δ and head stitches beat {' and '.join(CONTROLS)} by {MARGIN:g} (our question)",
        least >= MARGIN,
        f"{', '.join(CONTROLS)}: {said(values)} The smallest lead is {least:+.2f}, of dual codes (ours) "
        f"{min(lead[OURS].values()):+.2f}.",
    )


def smallest_lead(found: Found, method: str) -> float:
    """Return by how much the mean of a method is above the better one of its controls."""
    return float(apart(found[method]).mean() - max(np.mean(found[method, control]) for control in CONTROLS))


def nowhere_below(found: Mapping[str, Found], claim: str, method: str, other: str) -> Finding:
    """Judge whether one method is at least as good as another on every data set."""
    means = {name: [float(apart(one[way]).mean()) for way in (method, other)] for name, one in found.items()}
    return Finding(
        f"{claim} (our question)",
        all(after >= before for before, after in means.values()),
        said({name: f"{before:.3f} → {after:.3f}" for name, (before, after) in means.items()}),
    )


def said(by_name: Mapping[str, str]) -> str:
    """Return data sets with what is said of each, in a sentence."""
    return ", ".join(f"{TASKS[name].title} {one}" for name, one in by_name.items()) + "."
