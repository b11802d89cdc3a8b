"""DEMO: a new model reads the vectors of an old one, on the digits of scikit-learn; writes files and a picture."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from relatent._files import atomic_write
from relatent._terminal import render
from relatent.decide import Relevance, Verdict, evaluate_spaces
from relatent.evaluate import nearest
from relatent.spaces import Fingerprint, Space, read_space, write_space
from relatent.translate import Translator, translate_space

__all__ = ["DemoReport", "Network", "Upgrade", "digits_upgrade", "run_demo"]

WIDTH, ANCHORS, SEED = 64, 300, 0
OLD_IMAGES = 50
# A digit's ten others fill the first ten answers exactly, so that recall@10 runs from 0 to 1.
PER_DIGIT = 11
ANSWERS = 10
FILES = {
    "old": "old.parquet",
    "new": "new.parquet",
    "anchors": "anchors.parquet",
    "relevant": "relevant.tsv",
    "translator": "t.safetensors",
    "translated": "translated.parquet",
    "picture": "demo.png",
}
# Ten colors that color-blind readers can distinguish (after Okabe and Ito, and Tol); each digit is its own marker too.
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000", "#7f7f7f", "#882255", "#999933")
TRANSLATED, REFERENCE = "#d55e00", "#495057"
# Images of each digit in a view; numbers of anchors of the curve, and draws of each.
SHOWN = 30
COUNTS = (5, 10, 20, 50, 100, 200, 300)
DRAWS = 5


@dataclass(frozen=True)
class DemoReport:
    """The result of the demo as text and numbers, and the files it wrote."""

    text: str
    files: dict[str, str]
    accuracy: dict[str, float]
    verdict: Verdict
    seconds: float

    def __str__(self) -> str:
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        found = {"files": self.files, "accuracy": self.accuracy, "seconds": round(self.seconds, 1)}
        return found | {"verdict": self.verdict.to_dict()}


def run_demo(out: Path | str = "out") -> DemoReport:
    """Translate the vectors of an old network for a new one, and write all files into a folder.

    The picture needs matplotlib (extra: demo) and is skipped without it.
    """
    start = time.perf_counter()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: str(folder / file) for name, file in FILES.items()}
    upgrade = digits_upgrade()
    translator, verdict = _migrate(upgrade, files)
    if not draw(Path(files["picture"]), upgrade):
        files.pop("picture")
    accuracy = _accuracy(upgrade, translator)
    text = _text(upgrade, accuracy, verdict, _answers(upgrade, translator), files)
    seconds = time.perf_counter() - start
    return DemoReport(f"{text}\n{seconds:.0f} seconds.", files, accuracy, verdict, seconds)


@dataclass(frozen=True, eq=False)
class Network:
    """A classifier of images with one hidden layer; its encoder is the part before the head."""

    classifier: Any

    @classmethod
    def train(cls, images: np.ndarray, labels: np.ndarray, seed: int) -> Self:
        """Train from one seed. Two seeds give two unrelated sets of coordinates."""
        from sklearn.neural_network import MLPClassifier

        layers = MLPClassifier((WIDTH,), activation="tanh", learning_rate_init=0.01, max_iter=300, random_state=seed)
        return cls(layers.fit(images, labels))

    def encode(self, images: np.ndarray) -> np.ndarray:
        """Return the activations of the hidden layer, (n, 64)."""
        return np.asarray(np.tanh(images @ self.classifier.coefs_[0] + self.classifier.intercepts_[0]))

    def accuracy(self, hidden: Any, labels: np.ndarray) -> float:
        """Return the accuracy of the head on hidden vectors, its own or those of another network."""
        return float(np.mean(self.read(hidden) == labels))

    def read(self, hidden: Any) -> np.ndarray:
        """Return the digits that the head reads in hidden vectors."""
        scores = hidden @ self.classifier.coefs_[1] + self.classifier.intercepts_[1]
        return np.asarray(self.classifier.classes_[np.argmax(scores, axis=1)])


@dataclass(frozen=True, eq=False)
class Upgrade:
    """Two networks, anchors that both encoded, and other images to evaluate on."""

    old: Network
    new: Network
    anchors: np.ndarray
    anchor_labels: np.ndarray
    images: np.ndarray
    labels: np.ndarray

    @property
    def searched(self) -> np.ndarray:
        """Rows of the images to search: the same number of each digit."""
        return np.sort(np.concatenate([np.flatnonzero(self.labels == digit)[:PER_DIGIT] for digit in range(10)]))

    def space(self, network: Network, name: str) -> Space:
        """Return the vectors of the anchors, followed by those of the images to search; columns to color them by."""
        keys = [f"anchor {i}" for i in range(len(self.anchors))] + [f"image {i}" for i in self.searched]
        hidden = network.encode(np.concatenate([self.anchors, self.images[self.searched]]))
        columns = {
            "digit": np.concatenate([self.anchor_labels, self.labels[self.searched]]),
            "read_as": network.read(hidden),
            "part": ["anchor"] * len(self.anchors) + ["searched"] * len(self.searched),
        }
        known = Fingerprint(dim=WIDTH, model=f"digits-mlp-{name}")
        return Space(hidden.astype(np.float32), keys, name, known, others=columns)

    def relevant(self) -> list[tuple[str, str]]:
        """Return each searched image with every other of the same digit, by key."""
        rows = self.searched.tolist()
        return [(f"image {i}", f"image {j}") for i in rows for j in rows if i != j and self.labels[i] == self.labels[j]]


def digits_upgrade() -> Upgrade:
    """Train both networks on one part of the digits, and keep the rest to evaluate on."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    from relatent.anchors import kmeans

    images, labels = load_digits(return_X_y=True)
    train, test, known, labels = train_test_split(images / 16, labels, test_size=0.4, random_state=SEED)
    old, new = Network.train(train[:OLD_IMAGES], known[:OLD_IMAGES], 1), Network.train(train, known, 2)
    rows = kmeans(old.encode(train), ANCHORS, seed=SEED)
    return Upgrade(old, new, train[rows], known[rows], test, labels)


def draw(path: Path, upgrade: Upgrade) -> bool:
    """Draw three views of one plane, and accuracy by the number of anchors; False if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return False
    figure = Figure(figsize=(14, 4.2), dpi=130, layout="constrained")
    grid = figure.add_gridspec(1, 4, width_ratios=(1, 1, 1, 1.2))
    figure.suptitle("A new network reads the vectors of an old one", fontsize=14, fontweight="bold")
    old, new = upgrade.old.encode(upgrade.images), upgrade.new.encode(upgrade.images)
    views = {
        "old vectors, untranslated": old,
        "old vectors, translated": _translator(upgrade, np.arange(len(upgrade.anchors))).transform(old),
        "new vectors (ceiling)": new,
    }
    for i, (title, vectors) in enumerate(views.items()):
        _plane(figure.add_subplot(grid[i]), upgrade, vectors, title)
    _curve(figure.add_subplot(grid[3]), upgrade)
    with atomic_write(path) as tmp:
        figure.savefig(tmp, format="png")
    return True


def _translator(upgrade: Upgrade, rows: np.ndarray) -> Translator:
    anchors = upgrade.anchors[rows]
    return Translator().fit(upgrade.old.encode(anchors), upgrade.new.encode(anchors))


def _plane(axes: Any, upgrade: Upgrade, vectors: Any, title: str) -> None:
    """Draw images as digits in the plane of largest variance of the new network's class means, in every view."""
    new = upgrade.new.encode(upgrade.images)
    means = np.stack([new[upgrade.labels == digit].mean(axis=0) for digit in range(10)])
    center = means.mean(axis=0)
    axis = np.linalg.svd(means - center, full_matrices=False)[2][:2].T
    places, limits = (vectors - center) @ axis, (new - center) @ axis
    for digit, color in enumerate(COLORS):
        some = places[upgrade.labels == digit][:SHOWN]
        axes.scatter(*some.T, marker=f"${digit}$", s=46, color=color, linewidths=0.2)
    for set_limits, ends in zip((axes.set_xlim, axes.set_ylim), limits.T, strict=True):
        set_limits(ends.min() * 1.08, ends.max() * 1.08)
    axes.set(xticks=[], yticks=[], title=title)
    axes.set_xlabel(f"accuracy: {upgrade.new.accuracy(vectors, upgrade.labels):.0%}", fontsize=13)


def _curve(axes: Any, upgrade: Upgrade) -> None:
    """Draw the accuracy by the number of anchors: mean and range over several draws."""
    old, rng = upgrade.old.encode(upgrade.images), np.random.default_rng(0)
    found = np.asarray([[_score(upgrade, old, rng, k) for _ in range(DRAWS)] for k in COUNTS])
    axes.fill_between(COUNTS, found.min(axis=1), found.max(axis=1), color=TRANSLATED, alpha=0.2, linewidth=0)
    axes.plot(COUNTS, found.mean(axis=1), color=TRANSLATED, marker="o", label="old vectors, translated")
    lines = {
        "new network": (upgrade.new.accuracy(upgrade.new.encode(upgrade.images), upgrade.labels), "-", "bottom"),
        "old network": (upgrade.old.accuracy(old, upgrade.labels), "--", "top"),
        "new head on old vectors": (upgrade.new.accuracy(old, upgrade.labels), ":", "bottom"),
    }
    for name, (value, dash, side) in lines.items():
        axes.axhline(value, color=REFERENCE, linestyle=dash, linewidth=1.2, zorder=0)
        axes.annotate(f"{name} {value:.0%}", (COUNTS[-1], value), ha="right", va=side, color=REFERENCE, fontsize=10)
    axes.set_xscale("log")
    axes.set_xticks(COUNTS, [str(k) for k in COUNTS])
    axes.minorticks_off()
    axes.set(ylim=(0, 1.08), xlabel="anchors: images that both encoded", title="accuracy")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.legend(loc="center right", frameon=False, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def _score(upgrade: Upgrade, old: np.ndarray, rng: np.random.Generator, k: int) -> float:
    rows = rng.choice(len(upgrade.anchors), k, replace=False)
    return upgrade.new.accuracy(_translator(upgrade, rows).transform(old), upgrade.labels)


def _migrate(upgrade: Upgrade, files: dict[str, str]) -> tuple[Translator, Verdict]:
    """Run the three commands of the text, on files."""
    old, new = upgrade.space(upgrade.old, "old"), upgrade.space(upgrade.new, "new")
    anchors = old.subset(np.arange(len(upgrade.anchors)))
    for name, space in (("old", old), ("new", new), ("anchors", anchors)):
        write_space(space, files[name], overwrite=True)
    pairs = upgrade.relevant()
    lines = "".join(f"{query}\t{item}\n" for query, item in pairs)
    Path(files["relevant"]).write_text(f"query\titem\n{lines}", encoding="utf8")
    old, new = read_space(files["old"]), read_space(files["new"])
    translator = Translator()
    translator.fit(old, new, anchors=list(anchors.keys))
    translator.save(files["translator"], overwrite=True)
    translate_space(translator, old, files["translated"], overwrite=True, progress=False)
    queries, items = zip(*pairs, strict=True)
    return translator, evaluate_spaces(
        translator, old, new, relevant=Relevance(queries, items, "images of the same digit")
    )


def _accuracy(upgrade: Upgrade, translator: Translator) -> dict[str, float]:
    """Return the accuracy of the new head on each kind of vector, and of the old head on its own."""
    old, labels = upgrade.old.encode(upgrade.images), upgrade.labels
    return {
        "old vectors untranslated": upgrade.new.accuracy(old, labels),
        "old vectors translated": upgrade.new.accuracy(translator.transform(old), labels),
        "new vectors (ceiling)": upgrade.new.accuracy(upgrade.new.encode(upgrade.images), labels),
        "old vectors, old head": upgrade.old.accuracy(old, labels),
    }


def _answers(upgrade: Upgrade, translator: Translator) -> str:
    """Return a table of the digits that both indexes answer to the first image of each digit."""
    rows = upgrade.searched
    old, new = upgrade.old.encode(upgrade.images[rows]), upgrade.new.encode(upgrade.images[rows])
    labels = upgrade.labels[rows]
    before, after = (
        labels[nearest(queries, index, ANSWERS, exclude_self=True).indices]
        for queries, index in ((old, old), (new, translator.transform(old)))
    )
    asked = np.unique(labels, return_index=True)[1]
    cells = [(labels[i], *(" ".join(map(str, found[i])) for found in (before, after))) for i in asked]
    return render(("query", "old queries, old index", "new queries, translated index"), cells)


def _text(u: Upgrade, accuracy: dict[str, float], verdict: Verdict, answers: str, files: dict[str, str]) -> str:
    shown = render(("the new head reads", "accuracy"), [(name, f"{a:.1%}") for name, a in accuracy.items()][:3], (1,))
    return f"""\
The old network was trained on {OLD_IMAGES} images of digits, few on purpose, so that an upgrade pays. The new one was
trained on a thousand, from another seed: its coordinates are unrelated to the old ones. The translator was fitted on
{len(u.anchors)} images that both encoded: closed form, no labels. All numbers are on images that neither the translator
nor the networks have seen.

The head of the new network on vectors of the old one ({len(u.images)} images):
{shown}
The old network with its own head: {accuracy["old vectors, old head"]:.1%}. Translation is better here.

A search should find images of the same digit. The index holds {len(u.searched)} images, encoded by the old network:
{verdict}

The first {ANSWERS} answers to one query for each digit:
{answers}

The same by hand:
  relatent fit {files["old"]} {files["new"]} --anchors {files["anchors"]} -o t.safetensors
  relatent evaluate t.safetensors {files["old"]} {files["new"]} --relevant {files["relevant"]}
  relatent translate t.safetensors {files["old"]} -o translated.parquet
  relatent report {files["old"]} {files["new"]} --relevant {files["relevant"]} -o report.html
  relatent explore {files["old"]} {files["new"]} --translator t.safetensors --label digit --open

Files: {", ".join(file for name, file in files.items() if name != "picture")}
Picture: {files.get("picture", "none, matplotlib is not installed: pip install 'relatent[demo]'")}"""
