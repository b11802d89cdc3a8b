"""How the defaults of ``ASIF`` were chosen: a sweep on pairs of the pool, which never looks at a test row.

Each draw splits the pool into coupled rows and 300 rows to judge by. A setting is judged by the mean of its zero-shot
accuracy and its MRR both ways, over sets, numbers of pairs and draws. Prints the best settings, the default's place
among all, and what centring alone does.

    python -m experiments.asif.defaults
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
from experiments.asif.material import SETS, Coupled, class_means
from rich.console import Console
from rich.table import Table

import relatent as rl
from relatent._terminal import tracked, working

NORMALIZE, TOP, POWER = ("none", "center"), (25, 50, 100, 200, 400, None), (1.0, 2.0, 3.0, 4.0, 8.0)
PAIRS, JUDGED, SHOWN = (100, 400, 1100), 300, 8
Setting = tuple[str, int | None, float]


def main() -> None:
    """Sweep, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sets", nargs="+", default=["emoji-google", "emoji-twitter", "trec"])
    parser.add_argument("--out", type=Path, default=Path("out/asif-defaults.json"))
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    jobs = list(itertools.product([SETS[name]() for name in args.sets], PAIRS, range(args.seeds)))
    scores: dict[Setting, list[tuple[float, float]]] = {s: [] for s in itertools.product(NORMALIZE, TOP, POWER)}
    for coupled, k, seed in tracked(jobs, "draws"):
        for setting in scores:
            scores[setting].append(judge(coupled, k, seed, setting))
        args.out.write_text(json.dumps([[*s, v] for s, v in scores.items()]))
    show(scores, Console(width=110))


def judge(coupled: Coupled, k: int, seed: int, setting: Setting) -> tuple[float, float]:
    """Accuracy and MRR of one setting on rows of the pool that are not coupled."""
    order = np.random.default_rng(1000 + seed).permutation(coupled.pool)
    judged, rows = order[:JUDGED], order[JUDGED : JUDGED + k]
    normalize, top, power = setting
    asif = rl.ASIF(top, power, normalize).fit(coupled.x[rows], coupled.y[rows])
    rest = order[JUDGED:]
    prompts = coupled.prompts.get("category names", class_means(coupled.y[rest], coupled.labels[rest]))
    accuracy = np.mean(asif.predict(coupled.x[judged], prompts) == coupled.labels[judged])
    codes = asif.transform(coupled.x[judged]), asif.transform_target(coupled.y[judged])
    both_ways = [rl.evaluate.mrr(*pair, metric="inner") for pair in (codes, codes[::-1])]
    return float(accuracy), float(np.mean(both_ways))


def show(scores: dict[Setting, list[tuple[float, float]]], console: Console) -> None:
    """Print the best settings and the default's place."""
    means = {setting: np.mean(values, axis=0) for setting, values in scores.items()}
    ranked = sorted(means, key=lambda s: -means[s].mean())
    used = rl.ASIF()
    default: Setting = (used.normalize, used.top, used.power)
    table = Table(title=f"The best of {len(ranked)} settings, means over {len(scores[default])} draws")
    for column in ("place", "normalize", "top", "power", "accuracy", "MRR", "mean of both"):
        table.add_column(column, justify="left" if column == "normalize" else "right")
    raw: Setting = ("none", *default[1:])
    for setting in dict.fromkeys([*ranked[:SHOWN], default, raw]):
        normalize, top, power = setting
        cells = [f"{v:.3f}" for v in (*means[setting], means[setting].mean())]
        mark = {default: " (default)", raw: " (default, uncentred)"}.get(setting, "")
        table.add_row(str(ranked.index(setting) + 1), normalize + mark, str(top or "all"), f"{power:g}", *cells)
    console.print(table)
    draws = [np.mean(c) - np.mean(r) for c, r in zip(scores[default], scores[raw], strict=True)]
    console.print(f"Centring helps the default in {sum(d > 0 for d in draws)} of {len(draws)} draws.")


if __name__ == "__main__":
    with working("defaults"):
        main()
