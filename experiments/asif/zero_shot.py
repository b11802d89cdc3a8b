"""ASIF on real pairs: zero-shot accuracy and retrieval against the number of coupled examples (Norelli et al., 2023).

Emoji pictures are classified into nine categories by a text encoder that has never seen a picture and a picture
encoder that has never seen a word, joined by 50 to 1,400 coupled emoji; nothing is trained. Beside it stand chance,
the most frequent class, ``Translator("retrieval")`` on the same pairs, and a head trained on the pictures and labels
of the whole pool (the ceiling). Questions of TREC through two sentence encoders, and in full size Spanish sentences
against English ones, are further pairs. Each seed draws its own pairs from the pool; test rows are fixed. Draws of
1,400 out of 1,500 emoji are nearly the same, so that their spread says little.

    python -m experiments asif [--full]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from experiments.asif.material import SETS, Coupled
from experiments.figures import COLORS, panels
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS, QUICK = (50, 100, 200, 400, 800, 1400), ("emoji-google", "emoji-twitter", "trec")
NAMED, MEANS, FORTH, BACK = "accuracy, category names", "accuracy, class means", "MRR →", "MRR ←"
MEASURES = (NAMED, MEANS, FORTH, BACK)
FAR = 3
"""How many times the accuracy of chance counts as far above it."""
Cells = dict[tuple[str, int], list[dict[str, float]]]  # of one set: scores over seeds, by method and number of pairs


def run(setting: Setting) -> Result:
    """Score both methods on every set, over numbers of pairs and seeds."""
    names, seeds, counts = setting.pick(quick=(QUICK, 3, (50, 200, 800)), full=(tuple(SETS), 5, PAIRS))
    cells: dict[str, Cells] = {}
    limits: dict[str, dict[str, float]] = {}
    for name in names:
        coupled = SETS[name]()
        limits[coupled.name] = bounds(coupled)
        cells[coupled.name] = {
            (method, k): [run_cell(coupled, method, k, seed) for seed in range(seeds)]
            for k in counts
            for method in METHODS
        }
    return Result(
        [table(cells), limit_table(limits)],
        list(findings(cells, limits)),
        seeds=seeds,
        data=["1,906 emoji drawn by two vendors, with their names, nine categories; questions of TREC, six classes"],
        stand_ins={"1.6 million captioned pictures, ImageNet": "emoji with their names, nine categories"},
        series={
            name: {
                method: {m: mean_by_pairs(found, method, m) for m in MEASURES if m in next(iter(found.values()))[0]}
                for method in METHODS
            }
            | {"pairs": list(counts), "bounds": limits[name]}
            for name, found in cells.items()
        },
    )


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


def run_cell(coupled: Coupled, method: str, k: int, seed: int) -> dict[str, float]:
    """One draw of k pairs: accuracy by each kind of prompt, and retrieval both ways."""
    rows = np.random.default_rng(seed).permutation(coupled.pool)[:k]
    x, y = coupled.x[coupled.test], coupled.y[coupled.test]
    forth, back = METHODS[method](coupled.x[rows], coupled.y[rows])
    cell: dict[str, float] = {}
    for kind, prompts in coupled.prompts.items():
        scores = forth.transform(x) @ forth.transform_target(prompts).T
        cell[f"accuracy, {kind}"] = float(np.mean(scores.argmax(axis=1) == coupled.labels[coupled.test]))
    cell[FORTH] = rl.evaluate.mrr(forth.transform(x), forth.transform_target(y), 10, "inner")
    cell[BACK] = rl.evaluate.mrr(back.transform(y), back.transform_target(x), 10, "inner")
    return cell


def asif(x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Couple the pairs; the other way is the same with its sides exchanged."""
    coupled = rl.ASIF().fit(x, y)
    return coupled, coupled.swapped()


def translator(x: np.ndarray, y: np.ndarray) -> tuple[Any, Any]:
    """Fit the library's best map for ranking, each way."""
    return rl.Translator("retrieval").fit(x, y), rl.Translator("retrieval").fit(y, x)


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]] = {"ASIF": asif, "translator": translator}


def mean_by_pairs(found: Cells, method: str, measure: str) -> list[float]:
    """Return the mean over seeds of a measure, by number of pairs."""
    return [float(np.mean([one[measure] for one in scores])) for (by, _), scores in found.items() if by == method]


def table(cells: dict[str, Cells]) -> Table:
    """Lay the scores out, one row per set, number of pairs and method."""
    rows = [
        [name, f"{k:,}", method, *(spread(one[m] for one in scores) if m in scores[0] else None for m in MEASURES)]
        for name, found in cells.items()
        for (method, k), scores in found.items()
    ]
    return Table("Zero-shot accuracy, and MRR@10 both ways", ("data", "pairs", "method", *MEASURES), rows)


def limit_table(limits: dict[str, dict[str, float]]) -> Table:
    """Lay out what accuracies are to be compared with."""
    known = {name: found for name, found in limits.items() if found}
    columns = ("data", *next(iter(known.values())))
    return Table("Accuracy without ASIF", columns, [[name, *found.values()] for name, found in known.items()])


def findings(cells: dict[str, Cells], limits: dict[str, dict[str, float]]) -> Iterator[Finding]:
    """Judge whether the zero-shot classifier is far above chance, and whether more pairs help."""
    for measure in (NAMED, MEANS):
        ends = {
            name: (values[0], values[-1], limits[name]["chance"])
            for name, found in cells.items()
            if limits[name] and measure in next(iter(found.values()))[0]
            for values in [mean_by_pairs(found, "ASIF", measure)]
        }
        counts = sorted({k for found in cells.values() for _, k in found})
        yield Finding(
            f"coupled examples make a zero-shot classifier of two encoders, better with more of them: {measure}",
            all(many > FAR * chance and many > few for few, many, chance in ends.values()),
            "; ".join(
                f"{name} {few:.2f} with {counts[0]:,} pairs, {many:.2f} with {counts[-1]:,} (chance {chance:.2f})"
                for name, (few, many, chance) in ends.items()
            )
            + " (paper: .609 on ImageNet's 1,000 classes from 1.6 million pairs)",
        )


def draw(result: Result) -> Figure:
    """Draw accuracy above and retrieval below, one column per set."""
    figure, axes = panels(2, len(result.series), size=(3.2, 2.5), sharex=True, sharey="row")
    for (name, found), (above, below) in zip(result.series.items(), axes.T, strict=True):
        above.set_title(name.replace(": ", "\n"))
        for color, method in zip(COLORS, METHODS, strict=False):
            for measure, dash in zip(MEASURES, ("-", "--", "-", "--"), strict=True):
                panel = above if measure in (NAMED, MEANS) else below
                if measure in found[method]:
                    values, label = found[method][measure], f"{method}: {measure}"
                    panel.plot(found["pairs"], values, dash, color=color, marker="o", ms=3, label=label)
        for bound, value in found["bounds"].items():
            above.axhline(value, color="#868e96", linewidth=0.8, linestyle=":")
            side = "top" if bound == "chance" else "bottom"
            above.annotate(bound, (1, value), xycoords=("axes fraction", "data"), ha="right", va=side, fontsize=7)
        below.set(xscale="log", xlabel="coupled examples", ylim=(0, 1))
        below.set_xticks(found["pairs"], [f"{k:,}" for k in found["pairs"]])
        below.minorticks_off()
    axes[0, 0].set(ylabel="zero-shot accuracy", ylim=(0, 1))
    axes[1, 0].set_ylabel("MRR@10")
    handles = {t: h for panel in axes[:, 0] for h, t in zip(*panel.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=7)
    return figure
