"""What quantized and truncated vectors cost, as source of a translation and as target.

MRR of the same item among 2,000, goal retrieval, 2,000 anchors. As source, a translator is fitted on the codes as they
are: it learns their scale. As target, the index holds codes and the translated queries stay float32.

    python -m experiments.migration.quantized
"""

from __future__ import annotations

import numpy as np
from experiments.data.groups import load_group
from rich.console import Console
from rich.table import Table

import relatent as rl
from relatent._terminal import working
from relatent.spaces import Quantizer

SPACES = ("minilm6", "para3", "usem3")
ANCHORS, GALLERY = 2_000, 2_000
STORED = ("float32", "int8", "uint8", "1 bit", "1 bit at the mean", "first half")


def main() -> None:
    """Print one line per pair and side."""
    spaces = load_group("trec").spaces
    order = np.random.default_rng(0).permutation(len(spaces["usem3"]))
    table = Table("pair", "stored small", *STORED)
    for source, target in ((a, b) for a in SPACES for b in SPACES if a != b):
        x, y = spaces[source][order], spaces[target][order]
        table.add_row(f"{source} → {target}", "source", *(f"{mrr(stored(x, how), y):.3f}" for how in STORED))
        table.add_row("", "target", *(f"{mrr(x, stored(y, how)):.3f}" for how in STORED))
    Console(width=130).print(table)


def stored(x: np.ndarray, how: str) -> np.ndarray:
    """Return what is left of vectors; the scale and the mean are those of the anchors, which come first."""
    if how == "float32":
        return x
    if how == "first half":
        return x[:, : x.shape[1] // 2]
    kind = "binary" if "bit" in how else how
    quantizer = Quantizer.fit(x[:ANCHORS], kind, center="mean" in how)
    codes = quantizer.encode(x)
    return np.unpackbits(codes, axis=1).astype(np.float32) if kind == "binary" else codes.astype(np.float32)


def mrr(x: np.ndarray, y: np.ndarray) -> float:
    """Return the MRR of held-out items."""
    rows = slice(ANCHORS, ANCHORS + GALLERY)
    t = rl.Translator("retrieval").fit(x[:ANCHORS], y[:ANCHORS])
    return float(rl.evaluate.mrr(t.transform(x[rows]), t.transform_target(y[rows]), 100, t.metric_))


if __name__ == "__main__":
    with working("quantized"):
        main()
