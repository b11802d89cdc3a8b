"""Two networks that never met: the digits of scikit-learn through two MLPs trained from different seeds.

Prints how little their vectors agree as they are, how well they agree relative to shared anchors, and how well one
network's head reads the other's vectors after translation, each beside its baseline and its ceiling.
"""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import relatent as rl
from relatent.demo import Network

ANCHORS, SEED = 300, 0


def mean_cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Average the cosine of parallel rows."""
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return float(np.mean(np.sum(a * b, axis=1) / norms))


def translators() -> dict[str, rl.RelativeTranslator]:
    """Name the ways to bring vectors of one network into the space of the other."""
    return {
        "inverse relative projection": rl.RelativeTranslator("cosine"),
        "… pruned, δ = 0.5": rl.RelativeTranslator("cosine", delta=0.5, seed=SEED),
        "… 8 pruned subspaces": rl.RelativeTranslator("cosine", delta=0.5, omega=8, seed=SEED),
        "dual codes (default)": rl.RelativeTranslator(),
    }


def main() -> None:
    """Train, compare, translate, print."""
    images, labels = load_digits(return_X_y=True)
    train_x, test_x, train_y, test_y = train_test_split(images / 16, labels, test_size=0.4, random_state=SEED)
    first, second = (Network.train(train_x, train_y, seed) for seed in (1, 2))
    x, y = first.encode(test_x), second.encode(test_x)
    rows = rl.anchors.farthest_point(first.encode(train_x), ANCHORS, seed=SEED)
    anchors_x, anchors_y = first.encode(train_x[rows]), second.encode(train_x[rows])

    table = Table(title=f"Digits through two MLPs, {ANCHORS} shared anchors, {len(test_x)} test images")
    for column in ("", "cosine", "anchors kept", "condition number", "accuracy of the second head"):
        table.add_column(column, justify="right" if column else "left")
    table.add_row("as they are (baseline)", f"{mean_cosine(x, y):.3f}", "", "", f"{second.accuracy(x, test_y):.3f}")
    relative = [rl.RelativeProjection().fit(a).transform(s) for a, s in ((anchors_x, x), (anchors_y, y))]
    shuffled = relative[1][np.random.default_rng(SEED).permutation(len(y))]
    table.add_row("relative, of other images (baseline)", f"{mean_cosine(relative[0], shuffled):.3f}")
    table.add_row("relative to the anchors", f"{mean_cosine(*relative):.3f}", str(ANCHORS), end_section=True)
    found = {}
    for name, translator in translators().items():
        out = translator.fit(anchors_x, anchors_y).transform(x)
        found[name] = second.accuracy(out, test_y)
        report = translator.decoder_.conditioning_
        cells = (f"{mean_cosine(out, y):.3f}", str(report.anchors), f"{report.condition_number:.3g}")
        table.add_row(name, *cells, f"{found[name]:.3f}")
    ceiling = second.accuracy(y, test_y)
    table.add_row("the second network itself (ceiling)", "1.000", "", "", f"{ceiling:.3f}")
    Console(width=120).print(table)
    print(
        f"The two networks put the same image in unrelated places (cosine {mean_cosine(x, y):.2f}), but describe it "
        f"alike relative to {ANCHORS} shared anchors (cosine {mean_cosine(*relative):.2f})."
    )
    print(
        f"Translated with dual codes, the first network's vectors are read by the second network's head at "
        f"{found['dual codes (default)']:.1%} accuracy, where its own vectors give {ceiling:.1%} and untranslated ones "
        f"{second.accuracy(x, test_y):.1%}."
    )


if __name__ == "__main__":
    main()
