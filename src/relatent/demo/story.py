"""The story: an index in an old space, a new model, a few anchors; fit, evaluate, translate, and say what happened."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relatent.deliver import evaluate_spaces, fit_spaces, translate_space
from relatent.demo.digits import digits as digits_material
from relatent.demo.picture import draw
from relatent.demo.sentences import Material, sentences
from relatent.evaluate import Verdict, nearest
from relatent.spaces import Space, parallel, read_space, write_space
from relatent.translate import Translator

__all__ = ["Told", "run"]

EXAMPLES = 3


@dataclass(frozen=True)
class Told:
    """What the demo has to say, and where it left its files."""

    text: str
    files: dict[str, str]
    verdicts: dict[str, Verdict]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Give plain values, for JSON."""
        judged = {name: verdict.to_dict() for name, verdict in self.verdicts.items()}
        return {"files": self.files, "seconds": round(self.seconds, 1), "verdicts": judged}


def run(
    out: Path | str = "out", *, digits: bool = False, texts: Path | None = None, progress: bool | None = None
) -> Told:
    """Migrate sentences from one encoder to another, or digits where these cannot be had; leave all files in a folder.

    Vectors are kept in ``out/cache``, so that a second run encodes nothing.
    """
    start = time.perf_counter()
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    found: Material | str = "" if digits else sentences(texts, folder / "cache", progress)
    note = f"{found}\nHere is the same story on digits instead.\n\n" if isinstance(found, str) and found else ""
    material = digits_material() if isinstance(found, str) else found
    encoded = time.perf_counter() - start
    files = {name: str(folder / file) for name, file in FILES.items()}
    translator, verdicts = _migrate(material, files, progress)
    old, new = (_searched(read_space(files[name]), material) for name in ("translated", "new"))
    joined = parallel(old, new)
    if not draw(Path(files["picture"]), verdicts, joined.x, joined.y, _title(material)):
        files.pop("picture")
    text = note + _text(material, translator, verdicts, files, _examples(material, old, new))
    seconds = time.perf_counter() - start
    return Told(f"{text}\n{seconds:.0f} seconds, {encoded:.0f} of them to make the vectors.", files, verdicts, seconds)


FILES = {
    "old": "old.parquet",
    "new": "new.parquet",
    "anchors": "anchors.parquet",
    "translator": "t.safetensors",
    "relevant": "relevant.tsv",
    "translated": "translated.parquet",
    "picture": "demo.png",
}


def _migrate(m: Material, files: dict[str, str], progress: bool | None) -> tuple[Translator, dict[str, Verdict]]:
    """Do what the three commands do, on files."""
    for name, space in (("old", m.old), ("new", m.new)):
        write_space(space, files[name])
    write_space(m.old.subset(np.arange(len(m.anchors))), files["anchors"])
    pairs = zip(m.relevant.queries, m.relevant.items, strict=True)
    lines = "".join(f"{query}\t{item}\n" for query, item in pairs)
    Path(files["relevant"]).write_text(f"query\titem\n{lines}", encoding="utf8")
    old, new = read_space(files["old"]), read_space(files["new"])
    translator = Translator()
    fit_spaces(translator, old, new, anchors=m.anchors)
    translator.save(files["translator"])
    translate_space(translator, old, files["translated"], overwrite=True, progress=progress)
    verdicts = {
        f"finds {m.relevant.name}": evaluate_spaces(translator, old, new, relevant=m.relevant),
        "finds the same ten as re-embedding": evaluate_spaces(translator, old, new),
    }
    return translator, verdicts


def _searched(space: Space, m: Material) -> Space:
    """Leave out the anchors, which come first."""
    return space.subset(np.arange(len(m.anchors), len(space)))


def _examples(m: Material, translated: Space, new: Space) -> list[str]:
    """Ask the translated index with vectors of the new model; show the best answer besides the item itself."""
    index, asks = parallel(translated, new)
    keys = [str(key) for key in translated.keys]
    askers = list(dict.fromkeys(m.relevant.queries))
    own = [keys.index(str(askers[i])) for i in np.linspace(0, len(askers) - 1, EXAMPLES + 2).astype(int)[1:-1]]
    found = nearest(asks[own], index, 2).indices
    best = [next(int(row) for row in rows if row != mine) for mine, rows in zip(own, found, strict=True)]
    return [f"  {m.labels[keys[a]]!r} → {m.labels[keys[b]]!r}" for a, b in zip(own, best, strict=True)]


def _title(m: Material) -> str:
    return f"{m.words['items']}: {m.old.dim}-d index translated to {m.new.dim}-d by {len(m.anchors):,} anchors"


def _text(m: Material, t: Translator, verdicts: dict[str, Verdict], files: dict[str, str], shown: list[str]) -> str:
    w, (first, strict) = m.words, verdicts.values()
    picture = files.get("picture", "none, since matplotlib is not installed")
    same, before = (f"{strict[option]['overlap'].value:.0%}" for option in ("translate", "stay"))
    return f"""\
A search index holds {w["items"]} as vectors of {w["old"]}.
New queries come from {w["new"]}, whose vectors mean nothing to that index.
Instead of encoding the index again, a translator was fitted on {w["anchors"]}, encoded by both
({t.n_pairs_:,} pairs, {m.old.dim} → {m.new.dim} coordinates), and the index was translated.
All figures are on items that the translator has not seen.

Does it find what belongs together? {w["task"]}.
{first}

Answers of the translated index to queries of the new model:
{chr(10).join(shown)}

Does it give the same ten results as re-embedding would? That is a much harder question.
{same} of them are the same, where the old model has {before}.
So the translated index serves new queries at once, and finds the right items. It does not rank
as the new model does: where that matters, re-embed.

The same by hand:
  relatent fit {files["old"]} {files["new"]} --anchors {files["anchors"]} -o t.safetensors
  relatent evaluate t.safetensors {files["old"]} {files["new"]} --relevant {files["relevant"]}
  relatent translate t.safetensors {files["old"]} -o translated.parquet

Files: {", ".join(files[name] for name in FILES if name in files and name != "picture")}
Picture: {picture}"""
