"""Write the golden files of docs/translator-file.md: small translators with every step, and what they give in float64.

They are for readers in other languages, and for exports: whatever applies a translator should give these vectors. A
release that reads the format must not change them; a new format version gets new ones::

    python -m tests.golden.make FOLDER
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import relatent as rl
from relatent.translate.endpoints import Endpoints

PAIRS, DIM, NEW_DIM, ROWS, FAR = 48, 6, 4, 5, 2_000
# The steps of the source, and of the target where it is mapped, too.
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "affine": ({"max_cost": "affine"}, "linear"),
    "affine-float64": ({"map": "affine"}, "linear"),
    "l2": ({"map": "ridge", "normalize": "l2"}, "unit linear"),
    "center-l2": ({"map": "ridge", "normalize": "center+l2"}, "linear unit linear"),
    "far": ({"map": "affine"}, "linear linear"),
    "few-anchors": ({"map": "ridge"}, "linear linear"),
    "kernel": ({}, "linear linear gaussian linear"),
    "kernel-whitened": ({"normalize": "whiten"}, "linear linear gaussian linear"),
    "index": ({"goal": "index"}, "linear length linear"),
    "index-unit": ({"goal": "index"}, "linear length linear unit"),
    "retrieval": ({"goal": "retrieval"}, "linear, linear squares"),
    "retrieval-center-l2": (
        {"goal": "retrieval", "normalize": "center+l2"},
        "linear unit linear, linear unit linear squares",
    ),
    "retrieval-bank": ({"goal": "retrieval", "normalize": "l2"}, "unit linear, unit linear hubness"),
    "frozen-target": ({"goal": "retrieval", "frozen_target": True}, "linear"),
    "frozen-target-queries": ({"goal": "retrieval", "frozen_target": True}, "linear unit linear"),
    "stitching": ({"goal": "stitching"}, "linear linear gaussian linear"),
}


def drawn(rows: int, seed: int, dim: int = DIM, new_dim: int = NEW_DIM) -> tuple[np.ndarray, np.ndarray]:
    """Draw unit vectors of an old model, and what a new one makes of the same items."""
    rng, turn = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(dim, new_dim))
    x = rng.normal(size=(rows, dim)) * np.linspace(2, 0.3, dim) + np.linspace(-1, 1, dim)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.tanh(1.5 * x @ turn) + 0.2 * rng.normal(size=(rows, new_dim))
    return x.astype(np.float32), y.astype(np.float32)


def fitted(name: str) -> rl.Translator:
    """Fit one case, and check that it has the steps that it is there for."""
    options, steps = CASES[name]
    x, y = drawn(5, 0, 24, 24) if name == "few-anchors" else drawn(PAIRS, 0)
    given: dict[str, Any] = {}
    if name == "affine-float64":
        x, y = x.astype(np.float64), y.astype(np.float64)
    if name == "far":
        x += FAR
    if name == "index-unit":
        y /= np.linalg.norm(y, axis=1, keepdims=True)
    if name == "frozen-target-queries":
        asked = drawn(100, 3)
        given = {"queries": (asked[0] + np.float32(0.5), asked[1])}
    t = rl.Translator(**options).fit(x, y, bank_size=256 if "bank" in name else 0, **given)
    maps = [t.map_] if t.target_map_ is None else [t.map_, t.target_map_]
    found = ", ".join(" ".join(step.kind for step in one.steps) for one in maps)
    if found != steps:
        raise SystemExit(f"{name} has the steps {found!r}: expected {steps!r}.")
    known = Endpoints.of(x, y)
    if name != "affine":  # one file with a measured fingerprint is enough
        known = Endpoints(*(rl.Fingerprint(a.shape[1], f"example/{m}") for a, m in ((x, "old"), (y, "new"))))
    t.endpoints_ = replace(known, source_name="old", target_name="new")
    return t


def golden(name: str, t: rl.Translator) -> dict[str, Any]:
    """Return rows and what the translator makes of them in float64: one is far from the others, one is of zeros."""
    x, y = (short(a) for a in drawn(ROWS, 2, *(f.dim for f in (t.endpoints_.source, t.endpoints_.target))))
    x[-2], y[-2], x[-1], y[-1] = 8 * x[-2], 8 * y[-2], 0, 0
    x += FAR * (name == "far")
    found = {"translated": t.transform(x), "prepared": t.transform_target(y)}
    rounded = {side: [[float(f"{v:.13g}") for v in row] for row in rows] for side, rows in found.items()}
    return {"metric": t.metric_, "source": x.tolist(), "target": y.tolist()} | rounded


def short(x: np.ndarray) -> np.ndarray:
    """Round to numbers that are exact in float32 and in a few decimal digits."""
    return np.asarray(np.round(x.astype(np.float64) * 64) / 64)


def main(folder: Path) -> None:
    """Write all files."""
    warnings.simplefilter("error")
    folder.mkdir(parents=True, exist_ok=True)
    vectors: dict[str, Any] = {}
    for name in CASES:
        t = fitted(name)
        t.save(folder / f"{name}.safetensors", overwrite=True)
        vectors[name] = golden(name, t)
    x = short(drawn(PAIRS, 0)[0])
    known = {"rows": x.tolist(), "fingerprint": rl.Fingerprint.of(x).to_json()}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in vectors.items()]
    text = ",\n".join([*lines, f'"fingerprint": {json.dumps(known)}'])
    (folder / "vectors.json").write_text(f"{{\n{text}\n}}\n", "utf8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
