"""ASIF on real pairs: zero-shot accuracy and retrieval against the number of coupled examples.

Emoji pictures are classified into nine categories by a text encoder that has never seen a picture and a picture
encoder that has never seen a word, joined by 50 to 1,400 coupled emoji; nothing is trained. Beside it stand chance,
the most frequent class, ``Translator("retrieval")`` on the same pairs, and a head trained on the pictures and labels
of the whole pool (the ceiling). Questions of TREC through two sentence encoders, and Spanish sentences against English
ones, are further pairs. Each seed draws its own pairs from the pool; test rows are fixed. Draws of 1,400 out of 1,500
emoji are nearly the same, so that their spread says little. The paper (Norelli et al., NeurIPS 2023) reports 60.9 % on
ImageNet's 1,000 classes from 1.6 million pairs.

    python -m experiments.asif.zero_shot [--seeds 5] [--sets emoji-google trec] [--quick]
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from experiments.asif.material import SETS, Coupled
from experiments.asif.picture import draw
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import relatent as rl
from relatent._terminal import tracked, working

PAIRS = (50, 100, 200, 400, 800, 1400)
RETRIEVAL = {"R@1": 1, "R@10": 10}
FAR = 3
"""How many times the accuracy of chance counts as far above it."""


def main() -> None:
    """Run all sets, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--pairs", nargs="+", type=int, default=list(PAIRS))
    parser.add_argument("--quick", action="store_true", help="two seeds, three numbers of pairs")
    parser.add_argument("--resume", action="store_true", help="resume from the results in --out")
    parser.add_argument("--out", type=Path, default=Path("out/asif.json"))
    parser.add_argument("--picture", type=Path, default=Path("out/asif.png"))
    args = parser.parse_args()
    seeds, counts = (2, [50, 200, 800]) if args.quick else (args.seeds, args.pairs)
    console = Console(width=150)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = json.loads(args.out.read_text()) if args.resume and args.out.exists() else {}
    for method in METHODS:
        for name in args.sets:
            coupled = SETS[name]()
            result = results.setdefault(coupled.name, {"bounds": bounds(coupled), "cells": []})
            done = {(c["method"], c["pairs"], c["seed"]) for c in result["cells"]}
            jobs = [(k, seed) for seed in range(seeds) for k in counts if (method, k, seed) not in done]
            for k, seed in tracked(jobs, f"{coupled.name}, {method}"):
                result["cells"].append(run_cell(coupled, method, k, seed))
                args.out.write_text(json.dumps(results, indent=1))
    for name, result in results.items():
        show(name, result, console)
    draw(args.picture, results)
    console.print(f"{args.picture} shows it, {args.out} holds it.")


def bounds(coupled: Coupled) -> dict[str, float]:
    """Chance, the most frequent class, and a head trained on x with labels of the whole pool."""
    if coupled.labels is None:
        return {}
    known, wanted = coupled.labels[coupled.pool], coupled.labels[coupled.test]
    head = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))
    return {
        "chance": 1 / len(np.unique(known)),
        "most frequent class": float(np.mean(wanted == np.bincount(known).argmax())),
        "head trained on the pool": float(
            head.fit(coupled.x[coupled.pool], known).score(coupled.x[coupled.test], wanted)
        ),
    }


def run_cell(coupled: Coupled, method: str, k: int, seed: int) -> dict[str, Any]:
    """One draw of k pairs: accuracy by each kind of prompt, and retrieval both ways."""
    rows = np.random.default_rng(seed).permutation(coupled.pool)[:k]
    x, y = coupled.x[coupled.test], coupled.y[coupled.test]
    forth, back = METHODS[method](coupled.x[rows], coupled.y[rows])
    cell: dict[str, Any] = {"method": method, "pairs": k, "seed": seed}
    for kind, prompts in coupled.prompts.items():
        scores = forth.transform(x) @ forth.transform_target(prompts).T
        cell[f"accuracy, {kind}"] = float(np.mean(scores.argmax(axis=1) == coupled.labels[coupled.test]))
    cell |= {f"{m} →": v for m, v in retrieval(forth.transform(x), forth.transform_target(y)).items()}
    return cell | {f"{m} ←": v for m, v in retrieval(back.transform(y), back.transform_target(x)).items()}


def asif(x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Couple the pairs; the other way is the same with its sides exchanged."""
    coupled = rl.ASIF().fit(x, y)
    return coupled, coupled.swapped()


def translator(x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Fit the library's best map for ranking, each way."""
    return rl.Translator("retrieval").fit(x, y), rl.Translator("retrieval").fit(y, x)


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]] = {"ASIF": asif, "translator": translator}


def retrieval(queries: np.ndarray, gallery: np.ndarray) -> dict[str, float]:
    """Look every test row up among all of them, by the inner product that both methods rank by."""
    found = {name: rl.evaluate.recall(queries, gallery, k, "inner") for name, k in RETRIEVAL.items()}
    return found | {"MRR": rl.evaluate.mrr(queries, gallery, 10, "inner")}


def show(name: str, result: dict[str, Any], console: Console) -> None:
    """Print mean ± std over seeds per number of pairs, and whether the claim holds."""
    groups: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for cell in result["cells"]:
        groups[cell["pairs"], cell["method"]].append(cell)
    measures = [m for m in result["cells"][0] if m not in ("method", "pairs", "seed")]
    table = Table(title=f"{name}, mean ± std over draws of pairs")
    for column in ("pairs", "method", "draws", *measures):
        table.add_column(column.replace(", ", ",\n"), justify="left" if column == "method" else "right")
    for (k, method), cells in sorted(groups.items()):
        values = [[c[m] for c in cells] for m in measures]
        row = [f"{np.mean(v):.3f} ± {np.std(v):.3f}".replace("0.", ".") for v in values]
        table.add_row(f"{k:,}", method, str(len(cells)), *row, end_section=method == "translator")
    console.print(table)
    if result["bounds"]:
        console.print("  " + ", ".join(f"{what} {value:.3f}" for what, value in result["bounds"].items()))
        judge(groups, measures, result["bounds"]["chance"], console)


def judge(groups: dict[tuple[int, str], list[dict[str, Any]]], measures: list[str], chance: float, c: Console) -> None:
    """Say whether the zero-shot classifier is far above chance at the most pairs, and whether more pairs help."""
    least, most = min(k for k, _ in groups), max(k for k, _ in groups)
    for measure in (m for m in measures if m.startswith("accuracy")):
        few, many = (float(np.mean([cell[measure] for cell in groups[k, "ASIF"]])) for k in (least, most))
        c.print(
            f"  {measure}: {many / chance:.1f} × chance at {most:,} pairs, at least {FAR} ×: "
            f"{'YES' if many > FAR * chance else 'NO'}; more pairs help ({few:.3f} → {many:.3f}): "
            f"{'YES' if many > few else 'NO'}"
        )


if __name__ == "__main__":
    with working("zero_shot"):
        main()
