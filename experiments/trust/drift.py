"""How far the mean of a batch moves when nothing changed, and when items of a new kind come.

TREC questions: a translator is fitted without one class of questions, and batches of that class are watched, alone and
half mixed with the others. Printed beside it: how much worse such items are translated. The limits of ``relatent
watch`` come from here.

    python -m experiments.trust.drift
"""

from __future__ import annotations

import warnings

import numpy as np
from experiments.data.groups import load_group
from rich.console import Console
from rich.table import Table

import relatent as rl
from relatent._terminal import working
from relatent.monitor import check_drift

PAIRS = (("minilm6", "usem3"), ("usem3", "potion128"), ("para3", "minilm6"), ("potion128", "minilm6"))
FITTED, BATCH = 2_000, 400


def main() -> None:
    """Print one line per pair of encoders and class."""
    warnings.simplefilter("ignore")  # classes of their own are warned of as other spaces, which is the point here
    group = load_group("trec")
    spaces, labels = group.spaces, group.labels
    table = Table("pair", "new class", "shift: same data", "half new", "all new", "MRR: known", "new")
    for source, target in PAIRS:
        for label in np.unique(labels):
            row = measure(spaces[source], spaces[target], labels == label)
            table.add_row(f"{source} → {target}", str(label), *(f"{value:.3f}" for value in row))
    Console(width=120).print(table)


def measure(x: np.ndarray, y: np.ndarray, is_new: np.ndarray) -> list[float]:
    """Return the shifts of three batches, and the MRR of known and of new items among each other."""
    order = np.random.default_rng(0).permutation(len(x))
    known, new = order[~is_new[order]], order[is_new[order]][:BATCH]
    fitted, same = known[:FITTED], known[FITTED : FITTED + BATCH]
    t = rl.Translator().fit(rl.Space(x[fitted]), rl.Space(y[fitted]))
    half = min(BATCH // 2, len(new))
    batches = [same, np.concatenate([same[:half], new[:half]]), new]
    few = min(len(new), len(same))
    scores = [float(rl.evaluate.mrr(t.transform(x[rows[:few]]), y[rows[:few]], k=10)) for rows in (same, new)]
    return [_shift(t, x[rows]) for rows in batches] + scores


def _shift(t: rl.Translator, batch: np.ndarray) -> float:
    shift = check_drift(t, rl.Space(batch)).shift
    return np.nan if shift is None else shift


if __name__ == "__main__":
    with working("drift"):
        main()
