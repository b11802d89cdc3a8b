"""Run the demo: fit, evaluate and translate on files, and say in plain words what came out."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relatent._terminal import render
from relatent.deliver import Relevance, evaluate_spaces, fit_spaces, translate_space
from relatent.demo.digits import OLD_IMAGES, Upgrade, digits_upgrade
from relatent.demo.picture import draw
from relatent.evaluate import Verdict, nearest
from relatent.spaces import read_space, write_space
from relatent.translate import Translator

__all__ = ["DemoReport", "run_demo"]

FILES = {
    "old": "old.parquet",
    "new": "new.parquet",
    "anchors": "anchors.parquet",
    "relevant": "relevant.tsv",
    "translator": "t.safetensors",
    "translated": "translated.parquet",
    "picture": "demo.png",
}
ANSWERS = 10


@dataclass(frozen=True)
class DemoReport:
    """What the demo found, in words and figures, and the files it left."""

    text: str
    files: dict[str, str]
    accuracy: dict[str, float]
    verdict: Verdict
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        found = {"files": self.files, "accuracy": self.accuracy, "seconds": round(self.seconds, 1)}
        return found | {"verdict": self.verdict.to_dict()}


def run_demo(out: Path | str = "out") -> DemoReport:
    """Let a new network read the vectors of an old one, and leave all files in a folder.

    The picture needs matplotlib (extra: demo) and is left out without it.
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


def _migrate(upgrade: Upgrade, files: dict[str, str]) -> tuple[Translator, Verdict]:
    """Do what the three commands do, on files."""
    old, new = upgrade.space(upgrade.old, "old"), upgrade.space(upgrade.new, "new")
    anchors = old.subset(np.arange(len(upgrade.anchors)))
    for name, space in (("old", old), ("new", new), ("anchors", anchors)):
        write_space(space, files[name])
    pairs = upgrade.relevant()
    lines = "".join(f"{query}\t{item}\n" for query, item in pairs)
    Path(files["relevant"]).write_text(f"query\titem\n{lines}", encoding="utf8")
    old, new = read_space(files["old"]), read_space(files["new"])
    translator = Translator()
    fit_spaces(translator, old, new, anchors=list(anchors.keys))
    translator.save(files["translator"])
    translate_space(translator, old, files["translated"], overwrite=True, progress=False)
    queries, items = zip(*pairs, strict=True)
    return translator, evaluate_spaces(
        translator, old, new, relevant=Relevance(queries, items, "images of the same digit")
    )


def _accuracy(upgrade: Upgrade, translator: Translator) -> dict[str, float]:
    """Return how often the new network's head is right about each kind of vector, and the old one's about its own."""
    old, labels = upgrade.old.encode(upgrade.images), upgrade.labels
    return {
        "old vectors as they are": upgrade.new.accuracy(old, labels),
        "old vectors translated": upgrade.new.accuracy(translator.transform(old), labels),
        "new vectors (ceiling)": upgrade.new.accuracy(upgrade.new.encode(upgrade.images), labels),
        "old vectors, old head": upgrade.old.accuracy(old, labels),
    }


def _answers(upgrade: Upgrade, translator: Translator) -> str:
    """Show the digits that both indexes answer to the first image of each digit."""
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
    shown = render(("the new head reads", "right"), [(name, f"{a:.1%}") for name, a in accuracy.items()][:3], (1,))
    return f"""\
An old network learned from {OLD_IMAGES} images of digits, few on purpose, so that there is something to gain. A new one
learned from a thousand, from another seed: its coordinates have nothing to do with the old ones. A translator between
them was fitted on {len(u.anchors)} images that both have encoded: closed form, no labels. All figures are on
images that neither it nor the networks have seen.

The head of the new network reads vectors of the old one ({len(u.images)} images):
{shown}
The old network with its own head is right in {accuracy["old vectors, old head"]:.1%}: here translation is a gain.

A search should find images of the same digit. The index holds {len(u.searched)} of them, encoded by the old network:
{verdict}

The first {ANSWERS} answers to one query for each digit:
{answers}

The same by hand:
  relatent fit {files["old"]} {files["new"]} --anchors {files["anchors"]} -o t.safetensors
  relatent evaluate t.safetensors {files["old"]} {files["new"]} --relevant {files["relevant"]}
  relatent translate t.safetensors {files["old"]} -o translated.parquet

Files: {", ".join(file for name, file in files.items() if name != "picture")}
Picture: {files.get("picture", "none, since matplotlib is not installed: pip install 'relatent[demo]'")}"""
