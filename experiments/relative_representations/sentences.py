"""Heads under encoders they were not trained on: the structure of tables 4 and 5 of Moschella et al., ICLR 2023.

Reads ``trec_5952_embeddings.npz``: the 5,452 training and 500 test questions of TREC through five encoders that were
trained apart, with their six coarse classes. A head is trained on each; then each reads the test questions of all other
encoders: as they are (absolute, where the widths are equal), as relative vectors, translated, and through inverse
relative projection as published and with dual codes. Beside each stands the head on its own encoder.
768 anchors among the training questions; a seed draws the anchors and the head's weights.

A second group, ``cifar10_test_resnet20_resnet32_features.npz``, is two image classifiers with the linear heads they
were trained with. The heads of relative vectors are logistic regressions on 5,000 images; all are read on the others.

The paper's own table 5 (TREC, four BERT-like encoders) is lost in the text at hand. What can stand beside ours: its
table 4 (Amazon reviews, weighted F1, head trained on English, mean of es, fr, ja) and the TREC rows of the two later
papers.

    python -m experiments.relative_representations.sentences --data DIR [--seeds 5] [--head mlp] [--quick]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from experiments.data.files import load_spaces, locate
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import relatent as rl
from relatent.stitching import METHODS, StitchingMatrix

TREC, SPACES, TRAINED = "trec_5952_embeddings.npz", ["minilm6", "para3", "usem3", "potion128", "glove"], 5_452
CIFAR, NETS = "cifar10_test_resnet20_resnet32_features.npz", ["resnet20", "resnet32"]
ANCHORS = 768
OWN = ("own", "own, relative")
PAPERS = {
    "own": ("91.5", ".41 ± .07", ".87 ± .04"),
    "own, relative": ("90.1", "", ""),
    "absolute": ("48.9", ".15 ± .04", ".22 ± .06"),
    "relative": ("75.7", "", ""),
    "orthogonal": ("", ".49 ± .06", ""),
    "least_squares": ("", ".47 ± .13", ""),
    "inverse_relative": ("", "", ".73 ± .09"),
}
COLUMNS = ("RR table 4\nAmazon, F1", "LST table 3\nTREC, L2", "IRP\nTREC")


def layer_norm(x: np.ndarray) -> np.ndarray:
    """Give each row mean 0 and variance 1."""
    x = x - x.mean(axis=1, keepdims=True)
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5)


def head(kind: str, seed: int) -> Any:
    """Give the paper's head (LayerNorm, Linear, activation, Linear; Adam at 1e-3), or a logistic regression."""
    if kind == "logistic":
        return LogisticRegression(max_iter=300)
    return make_pipeline(FunctionTransformer(layer_norm), MLPClassifier((128,), max_iter=20, random_state=seed))


def questions(options: argparse.Namespace, seed: int) -> StitchingMatrix:
    """Stitch every sentence encoder to every head."""
    spaces = load_spaces(TREC, SPACES[:3] if options.quick else SPACES, options.data)
    with np.load(locate(TREC, options.data)) as file:
        labels = file["y_coarse"]
    test = np.arange(TRAINED, len(labels))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a fixed number of epochs, as in the paper
        return rl.stitching_matrix(spaces, head(options.head, seed), labels, anchors=ANCHORS, test=test, seed=seed)


def images(options: argparse.Namespace, seed: int) -> StitchingMatrix:
    """Stitch two image classifiers, each with the head it was trained with."""
    spaces = load_spaces(CIFAR, NETS, options.data)
    with np.load(locate(CIFAR, options.data)) as file:
        labels, weights = file["y"], {net: (file[f"{net}_W"], file[f"{net}_b"]) for net in NETS}
    order = np.random.default_rng(seed).permutation(len(labels))
    train, test = order[:5_000], order[5_000:]
    anchors, heads = train[:ANCHORS], {}
    for net, x in spaces.items():
        relative = rl.RelativeProjection().fit(x[anchors]).transform(x[train])
        twin = LogisticRegression(max_iter=300).fit(relative, labels[train])
        heads[net] = {"absolute": rl.LinearHead(*weights[net], np.arange(10)), "relative": twin}
    return rl.stitching_matrix(spaces, heads, labels, anchors=anchors, train=train, test=test, seed=seed)


def means(matrix: StitchingMatrix) -> dict[str, float]:
    """Average over all pairs of different encoders: the ceilings, and each method."""
    apart = [(e, d) for e in matrix.encoders for d in matrix.decoders if e != d]
    own = {name: np.mean([matrix.own(d, m) for _, d in apart]) for name, m in zip(OWN, METHODS, strict=False)}
    return {name: float(value) for name, value in own.items()} | {m: matrix.mean(m) for m in matrix.methods}


def show(title: str, runs: list[StitchingMatrix], papers: bool, console: Console) -> dict[str, tuple[float, float]]:
    """Print every pair and the means, ± std over seeds; give the means."""
    first = runs[0]
    table = Table(title=f"{title}: accuracy, {first.n_anchors} anchors, {first.n_test} test rows, {len(runs)} seeds")
    for column in ("encoder", "head of", "own", *(m.replace("_", "\n") for m in first.methods)):
        table.add_column(column, justify="left" if column in ("encoder", "head of") else "right")
    for encoder in first.encoders:
        for decoder in (d for d in first.decoders if d != encoder):
            cells = [[run.own(decoder) for run in runs]]
            cells += [[run[encoder, decoder, method].value for run in runs] for method in first.methods]
            table.add_row(encoder, decoder, *map(spread, cells))
    console.print(table)
    summary = Table(title=f"{title}: mean of all pairs ± std over seeds")
    for column in ("", "accuracy", "pairs", *(COLUMNS if papers else ())):
        summary.add_column(column, justify="left" if not column else "right")
    found = {}
    for name in (*OWN, *first.methods):
        values = [means(run)[name] for run in runs]
        found[name] = (float(np.mean(values)), float(np.std(values)))
        pairs = [p for p in first if p.method == name and p.encoder != p.decoder and p.value is not None]
        summary.add_row(
            name.replace("_", " "),
            spread(values),
            "" if name in OWN else str(len(pairs)),
            *(PAPERS.get(name, ("", "", "")) if papers else ()),
        )
    console.print(summary)
    return found


def spread(values: list[float | None]) -> str:
    """Mean ± std."""
    return "–" if None in values else f"{np.mean(values):.3f} ± {np.std(values):.3f}"


def averaged(runs: list[StitchingMatrix]) -> StitchingMatrix:
    """Average the runs cell by cell, for the picture."""
    values = np.asarray([[np.nan if p.value is None else p.value for p in run] for run in runs]).mean(axis=0)
    pairs = (replace(p, value=None if np.isnan(v) else float(v)) for p, v in zip(runs[0], values.tolist(), strict=True))
    return replace(runs[0], pairs=tuple(pairs))


def judge(runs: list[StitchingMatrix], found: dict[str, tuple[float, float]], console: Console) -> bool:
    """Say of each part of the paper's structure whether it holds."""
    same = [(p.encoder, p.decoder) for p in runs[0] if p.method == "absolute" and p.value is not None]
    same = [(e, d) for e, d in same if e != d]
    absolute, relative = (
        np.mean([run[e, d, m].value for run in runs for e, d in same]) for m in ("absolute", "relative")
    )
    claims = {
        f"relative heads are within 0.02 of absolute ones on their own encoder ({found['own, relative'][0]:.3f} "
        f"and {found['own'][0]:.3f})": abs(found["own, relative"][0] - found["own"][0]) < 0.02,
        f"where absolute can be stitched, relative is at least 0.2 above it ({relative:.3f} and {absolute:.3f})": (
            relative > absolute + 0.2
        ),
        "translation for stitching is at or above relative": found["stitching"][0] >= found["relative"][0],
        "dual codes are above inverse relative projection as published": found["dual_codes"][0]
        > found["inverse_relative"][0],
    }
    for claim, holds in claims.items():
        console.print(f"{claim}: {'YES' if holds else 'NO'}")
    return all(claims.values())


def keep(path: Path, results: dict[str, list[StitchingMatrix]]) -> None:
    """Write all that is done so far, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps({group: [run.to_dict() for run in runs] for group, runs in results.items()}))
    beside.replace(path)


def main() -> None:
    """Read, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the data files (default: $RELATENT_DATA, else data/)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--head", choices=("mlp", "logistic"), default="mlp")
    parser.add_argument("--quick", action="store_true", help="three encoders and one seed")
    parser.add_argument("--out", type=Path, default=Path("out/sentences.json"), help="results, and pictures beside")
    options = parser.parse_args()
    start, console = time.perf_counter(), Console(width=170)
    results: dict[str, list[StitchingMatrix]] = {}
    for group, run in (("images", images), ("questions", questions)):
        for seed in range(1 if options.quick else options.seeds):
            results.setdefault(group, []).append(run(options, seed))
            keep(options.out, results)
            console.print(f"{group}, seed {seed}: {time.perf_counter() - start:.0f} s")
    show("CIFAR-10, two ResNets with their own heads", results["images"], False, console)
    found = show("TREC", results["questions"], True, console)
    for group, runs in results.items():
        path = options.out.with_name(f"{options.out.stem}-{group}.png")
        averaged(runs).heatmap(path, title=f"{group}: accuracy of heads under other encoders")
        console.print(f"picture: {path}")
    met = judge(results["questions"], found, console)
    console.print(f"{time.perf_counter() - start:.0f} s")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
