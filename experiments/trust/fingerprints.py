"""How well a fingerprint tells encoders apart on any corpus: false alarms and misses, with their counts.

The probe of 1,000 rows of one corpus is what a translator would keep. Held against it are, as *own*, rows of every
other corpus through the same encoder, and as *foreign* rows through other encoders of the same dimension (wider ones
cut to it), the same vectors permuted, rotated, times 3, centered, or replaced by noise, and mixtures with rows of
another encoder, shuffled. An alarm is any outcome but "same": a migration stops at it. The statistic and its limits
were chosen on the first encoders and corpora alone, then applied to the others. Encoders that share a network (other
pooling, another layer, or fine-tuned on other texts) are counted apart, with rows of equal norm.

    python -m experiments.trust.fingerprints [--trials 1] [--texts FOLDER]

``--texts`` adds the .txt files of a folder, one text per line, to the corpora that confirm.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from experiments.trust.corpora import CORPORA, add_texts, vectors
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.fft import dct

import relatent as rl
from relatent._terminal import working
from relatent.spaces import Fingerprint
from relatent.spaces.probe import Probe, compare_blocks, probe_of

CHOSEN_ON = (
    *("minilm", "paraphrase", "e5-small", "minilm-layer-3", "minilm-first-token", "minilm-tuned"),
    *("use", "use-lite", "wordllama", "potion", "glove-100", "glove-50"),
)
CONFIRMED_ON = ("e5-first-token", "minilm-layer-5", "potion-base")
CHOSEN_CORPORA = tuple(CORPORA)[:11]
FAMILIES = (
    {"minilm", "minilm-first-token", "minilm-tuned", "minilm-layer-3", "minilm-layer-5"},
    {"e5-small", "e5-first-token"},
)
ROWS = (20, 50, 200, 1000)
KEPT_ROWS = 1_000
# Encoders that are drawn for each corpus, to be held against another.
OTHERS = 5
KINDS = (
    "other corpus",
    "other encoder",
    "same network",
    "permuted",
    "rotated",
    "noise",
    "times 3",
    "centered",
    "80/20",
    "half/half",
)
OWN = KINDS[0]
Outcomes = dict[tuple[str, str, int], Counter[str]]


@dataclass(frozen=True)
class Phase:
    """The encoders and corpora of known and of given rows."""

    name: str
    encoders: tuple[str, ...]
    corpora: tuple[str, ...]
    given: tuple[str, ...]
    others: tuple[str, ...]


def main() -> None:
    """Print the rates, and what a check costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1)
    parser.add_argument("--texts", type=Path)
    args = parser.parse_args()
    if args.texts is not None:
        add_texts(args.texts)
    console = Console(width=150)
    for phase in phases():
        console.print(f"[bold]{phase.name}[/]: {', '.join(phase.encoders)}; corpora: {', '.join(phase.given)}")
        found = run(phase, args.trials, sizes=ROWS if phase.given == phase.corpora else ROWS[:3])
        console.print(report(found), report_encoders(found))
    console.print(known_rows(args.trials), cost())


def phases() -> list[Phase]:
    """Return what limits were chosen on, and what confirms them: new encoders on new corpora, and old ones on them."""
    new = tuple(name for name in CORPORA if name not in CHOSEN_CORPORA)
    every, known = CHOSEN_ON + CONFIRMED_ON, CHOSEN_CORPORA[:10]
    return [
        Phase("chosen on", CHOSEN_ON, CHOSEN_CORPORA, CHOSEN_CORPORA, CHOSEN_ON),
        Phase("confirmed on new encoders and new corpora", CONFIRMED_ON, known, new, every),
        Phase("confirmed on new corpora of the encoders it was chosen on", CHOSEN_ON, known, new, every),
    ]


def run(phase: Phase, trials: int, kept: int = KEPT_ROWS, sizes: tuple[int, ...] = ROWS) -> Outcomes:
    """Count the outcomes by encoder, kind and number of rows."""
    counts: Outcomes = defaultdict(Counter)
    rng = np.random.default_rng(0)
    for encoder, corpus in track(list(product(phase.encoders, phase.corpora)), description=phase.name):
        probe = probe_of(vectors(encoder, corpus)[:KEPT_ROWS][rng.permutation(KEPT_ROWS)[:kept]])
        assert probe is not None
        for rows, _ in product(sizes, range(trials)):
            for kind, given in drawn(phase, encoder, corpus, rows, rng):
                counts[encoder, kind, rows][outcome(probe.without_rows(), given)] += 1
    return counts


def outcome(probe: Probe, given: np.ndarray) -> str:
    """Return what a translator with this probe says of one block of rows."""
    tells = probe.quiet is not None and probe.quiet.tells
    return compare_blocks(probe, given[None])[0].outcome if tells else "same"


def drawn(
    phase: Phase, encoder: str, corpus: str, rows: int, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray]]:
    """Draw rows of every kind to hold against a corpus in an encoder, from each other corpus."""
    for other in phase.given:
        if other == corpus:
            continue
        own = some(vectors(encoder, other), rows, rng)
        yield OWN, own
        for name in CHANGES:
            yield name, CHANGES[name](own, rng)
        for foreign in rng.permutation(phase.others)[:OTHERS].tolist():
            x = vectors(foreign, str(rng.choice(phase.given)))
            if foreign == encoder or x.shape[1] < own.shape[1]:
                continue
            given = some(x, rows, rng)[:, : own.shape[1]]
            if any({encoder, foreign} <= family for family in FAMILIES):
                yield "same network", unit(given) * np.linalg.norm(own[: len(given)], axis=1, keepdims=True)
                continue
            yield "other encoder", given
            for name, share in (("80/20", 0.2), ("half/half", 0.5)):
                yield name, mixed(own, given, share, rng)


def mixed(own: np.ndarray, given: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Replace a share of rows."""
    out = own[: len(given)].copy()
    given = given[: len(out)]
    chosen = rng.permutation(len(out))[: round(share * len(out))]
    out[chosen] = given[chosen]
    return out


def some(x: np.ndarray, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows."""
    return x[rng.permutation(len(x))[:rows]]


def unit(x: np.ndarray) -> np.ndarray:
    """Divide rows by their norms."""
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


def noise(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return normal noise of the same norms."""
    made = rng.normal(size=x.shape)
    return made * (np.linalg.norm(x, axis=1) / np.linalg.norm(made, axis=1))[:, None]


def rotated(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Flip signs at random and take the cosine transform, which is orthogonal and mixes all coordinates."""
    return np.asarray(dct(x * rng.choice([-1.0, 1.0], x.shape[1]), norm="ortho"))


CHANGES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "permuted": lambda x, rng: x[:, rng.permutation(x.shape[1])],
    "rotated": rotated,
    "noise": noise,
    "times 3": lambda x, _: 3 * x,
    "centered": lambda x, _: x - x.mean(axis=0),
}


def report(found: Outcomes) -> Table:
    """Lay out the false alarms on own rows, and the misses on all others."""
    table = Table("held against it", "rate", *(f"{n} rows" for n in ROWS))
    for kind in KINDS:
        cells = []
        for rows in ROWS:
            total: Counter[str] = sum((c for (_, k, n), c in found.items() if (k, n) == (kind, rows)), Counter())
            cells.append(share(total, kind))
        table.add_row(kind, "false alarms" if kind == OWN else "misses", *cells)
    return table


def report_encoders(found: Outcomes, rows: int = 200) -> Table:
    """Lay out the same for each encoder."""
    encoders = sorted({encoder for encoder, _, _ in found})
    table = Table(f"at {rows} rows", *encoders)
    for kind in KINDS:
        table.add_row(kind, *(share(found.get((e, kind, rows), Counter()), kind) for e in encoders))
    return table


def share(counts: Counter[str], kind: str) -> str:
    """Write how many were told wrongly, of how many; in brackets how many were refused outright."""
    total, alarms = sum(counts.values()), counts["unsure"] + counts["foreign"]
    wrong = alarms if kind == OWN else total - alarms
    return f"{wrong / total:.1%} {wrong}/{total} ({counts['foreign']})" if total else "–"


def known_rows(trials: int) -> Table:
    """Lay out both rates at 200 rows for translators that were fitted on fewer."""
    table = Table("fitted on", "false alarms", "misses")
    for kept in (100, 200, 300, 500, 1000):
        found = run(phases()[0], trials, kept, (200,))
        rates = [sum((c for (_, k, _), c in found.items() if k == kind), Counter()) for kind in KINDS[:2]]
        table.add_row(f"{kept} rows", *(share(c, k) for c, k in zip(rates, KINDS, strict=False)))
    return table


def cost(rows: int = 20_000) -> Table:
    """Measure what the check of a chunk adds to its translation, and the size of a saved fingerprint."""
    table = Table("dimension", f"translate {rows:,} rows", "of it the check", "measure a fingerprint", "saved")
    for dim in (384, 768, 1536, 3072):
        x = np.random.default_rng(0).normal(size=(rows, dim)).astype(np.float32)
        x *= np.geomspace(1, 0.01, dim, dtype=np.float32)
        known = Fingerprint.of(x)
        pair = x[: 2 * dim], x[: 2 * dim]
        translate = rl.Translator(map="orthogonal").fit(*pair).batch_udf()
        whole, check = timed(translate.vectors, x), timed(translate.endpoints.check_array, x)
        measured, saved = timed(Fingerprint.of, x), len(known.to_json()) / 1e3
        table.add_row(f"{dim}", f"{whole:.3f} s", f"{check / whole:.1%}", f"{measured:.3f} s", f"{saved:.1f} kB")
    return table


def timed(call: Callable[[np.ndarray], object], x: np.ndarray) -> float:
    """Return the seconds of the fastest of three calls."""
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        call(x)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


if __name__ == "__main__":
    with working("fingerprints"):
        main()
