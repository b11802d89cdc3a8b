"""What the paper leaves open about anchors: appendix A.2 and the conclusion of Moschella et al., ICLR 2023.

- "Are anchors composed only by stopwords worse than the ones composed by meaningful and diverse words?" Words are
  looked up as in table 1, with anchors that are stop words, content words, words of one topic, farthest points, or one
  word again and again.
- "The training cost is directly affected by the number and update frequency of the anchors": ``anchor_refresh``.
- How the dimension of the space and the number of anchors play together, trained end to end or on a frozen encoder:
  classifiers of digits, and graph networks on Cora.

    python -m experiments rr-anchors
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data import words
from experiments.data.graphs import load_citations
from experiments.data.groups import Group, cached
from experiments.data.images import Images, load_images
from experiments.figures import heat_map, panels
from experiments.models.classifier import classification_loss, classifier
from experiments.models.training import Training, train
from experiments.relative_representations import nodes
from experiments.relative_representations.anchor_refresh import (
    STEP_ANCHORS,
    refresh_findings,
    refresh_table,
    refreshing,
)
from experiments.relative_representations.lookup import MEASURES, compared, sample
from experiments.relative_representations.training import best_epoch
from experiments.results import Finding, Result, Setting, Table, spread
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

import relatent as rl

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STOP, ANCHORS, TOPIC = 400, 300, "doctor"
PAIR, KINDS = ("spacy-300", "glove-100"), ("relative", "relative, centered (ours)")
WIDTHS, COUNTS = (4, 16, 64, 256), (4, 16, 64, 256)
NODE_WIDTHS, FULL_NODE_WIDTHS, NODE_COUNTS = (4, 16, 64), (16, 64, 256), (10, 50, 300)
NODE_LAYERS, NODE_EPOCHS, IMAGES = 4, 100, (5_000, 2_000)
TEN_WORDS, ONE_WORD = "ten words, each again and again", f"one word, {ANCHORS} times"
Grid = dict[tuple[int, int], list[float]]  # scores over seeds, by width and number of anchors


def run(setting: Setting) -> Result:
    """Answer the three questions, each by a table."""
    torch.set_num_threads(1)
    seeds, queries = setting.pick(quick=(3, 1_000), full=(10, 20_000))
    word_scores = look_up(frequent_and_rare(), seeds, queries)
    refreshed = refreshing(load_images("MNIST", *IMAGES), seeds, setting.pick(quick=200, full=3_000))
    digits = load_images("digits")
    grids = digit_grids(digits, seeds)
    papers, widths = load_citations("cora"), setting.pick(quick=NODE_WIDTHS, full=FULL_NODE_WIDTHS)
    for name, center in (("Cora, trained end to end", False), ("Cora, the same, centered (ours)", True)):
        grids[name] = grid(widths, NODE_COUNTS, seeds, lambda d, k, s, c=center: on_graph(papers, d, k, s, c))
    return Result(
        [word_table(word_scores), refresh_table(refreshed), *(grid_table(*one) for one in grids.items())],
        [*word_findings(word_scores), *refresh_findings(refreshed), *grid_findings(grids)],
        seeds=seeds,
        data=[
            f"words in {' and '.join(PAIR)}, {ANCHORS} anchors; MNIST, {IMAGES[0]:,} images, {STEP_ANCHORS} anchors; "
            f"{len(digits.train):,} digits; Cora, {NODE_LAYERS} layers, {NODE_EPOCHS} epochs"
        ],
        series={
            name: {
                "widths": sorted({d for d, _ in found}),
                "counts": sorted({k for _, k in found}),
                "mean": [[float(np.mean(v)) for v in row] for row in rows_of(found)],
            }
            for name, found in grids.items()
        },
    )


def frequent_and_rare() -> Group:
    """Return content words in two spaces, by falling frequency, and below them the most frequent words of all."""

    def build() -> Group:
        glove = words.glove_100()
        letters = [word for word in glove if word.isalpha()]
        content = [word for word in letters if len(word) >= 4 and word not in set(letters[:STOP])]
        known = words.spacy_300(content)
        stop = {word: x for word, x in words.spacy_300(letters[:STOP]).items() if word not in known}
        keys = [*known, *stop]
        spaces = {PAIR[0]: np.stack([*known.values(), *stop.values()]), PAIR[1]: np.stack([glove[one] for one in keys])}
        return Group(spaces, keys=np.asarray(keys), train=len(known))

    return cached("stop words", build)


def look_up(group: Group, seeds: int, count: int) -> dict[tuple[str, str], np.ndarray]:
    """Return the measures of every choice and description, over seeds and both directions."""
    assert group.keys is not None
    assert group.train is not None
    n, near = group.train, {}
    queries, content = sample(n, count), np.arange(n)
    stop = np.arange(n, len(group.keys))
    for name in PAIR:
        x = group.spaces[name]
        near[name] = rl.evaluate.nearest(x[[group.keys.tolist().index(TOPIC)]], x[:n], 2 * ANCHORS).indices[0]
    k = min(ANCHORS, len(stop))
    choices: dict[str, Callable[[str, int], np.ndarray]] = {
        "stop words": lambda _, seed: np.random.default_rng(seed).choice(stop, k, replace=False),
        "content words": lambda _, seed: np.random.default_rng(seed).choice(content, k, replace=False),
        "farthest points": lambda name, seed: rl.anchors.farthest_point(group.spaces[name][:n], k, seed=seed),
        f"words near “{TOPIC}”": lambda name, seed: np.random.default_rng(seed).choice(near[name], k, replace=False),
    }
    choices |= {
        repeated: lambda _, seed, n=n: np.resize(np.random.default_rng(seed).choice(content, n, replace=False), k)
        for repeated, n in ((TEN_WORDS, 10), (ONE_WORD, 1))
    }
    found: dict[tuple[str, str], np.ndarray] = {}
    for choice, choose in choices.items():
        for kind in KINDS if choice != ONE_WORD else KINDS[:1]:  # nothing is left of one word after centering
            found[choice, kind] = np.asarray(
                [
                    compared(kind, group.spaces[a], group.spaces[b], choose(a, seed), queries)
                    for seed in range(seeds)
                    for a, b in (PAIR, PAIR[::-1])
                ]
            )
    return found


def grid(widths: tuple[int, ...], counts: tuple[int, ...], seeds: int, score: Callable[[int, int, int], float]) -> Grid:
    """Return the scores of every width with every number of anchors."""
    return {(d, k): [score(d, k, seed) for seed in range(seeds)] for d in widths for k in counts}


def digit_grids(digits: Images, seeds: int) -> dict[str, Grid]:
    """Return classifiers of digits that were trained with their relative layer, and heads on frozen ones."""

    @cache
    def encoded(width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        encoder = fitted(digits, width, seed, None)[0]
        with torch.inference_mode():
            return tuple(encoder(torch.from_numpy(part)).numpy() for part in (digits.train, digits.test))

    return {
        "digits, trained end to end": grid(WIDTHS, COUNTS, seeds, lambda d, k, s: trained(digits, d, k, s)),
        "digits, frozen encoder": grid(WIDTHS, COUNTS, seeds, lambda d, k, s: frozen(digits, *encoded(d, s), k, s)),
    }


def trained(digits: Images, width: int, k: int, seed: int) -> float:
    """Return the test accuracy of a classifier that is trained with its relative layer."""
    anchors = torch.from_numpy(digits.train[rl.anchors.uniform(digits.train[:, 0, 0], k, seed=seed)])
    return accuracy(digits, fitted(digits, width, seed, anchors))


def fitted(digits: Images, width: int, seed: int, anchors: Tensor | None) -> nn.Sequential:
    """Train a classifier of digits whose space has some width."""
    x, y = torch.from_numpy(digits.train), torch.from_numpy(digits.train_labels)
    how = Training(steps=250, rate=5e-3)
    build = lambda: classifier("mlp", digits.side, 10, anchors, latent=width)  # noqa: E731 (drawn anew in train)
    return train(build, x, y, classification_loss, how, seed=seed)


def accuracy(digits: Images, model: nn.Module) -> float:
    """Return the share of test digits that are read correctly."""
    with torch.inference_mode():
        return float(np.mean(model(torch.from_numpy(digits.test)).argmax(dim=1).numpy() == digits.test_labels))


def frozen(digits: Images, x: np.ndarray, test: np.ndarray, k: int, seed: int) -> float:
    """Return the test accuracy of a linear head on relative vectors of an encoder that was trained without them."""
    projection = rl.RelativeProjection(normalize="none").fit(x[rl.anchors.uniform(x, k, seed=seed)])
    head = LogisticRegression(C=100, max_iter=300).fit(projection.transform(x), digits.train_labels)
    return float(head.score(projection.transform(test), digits.test_labels))


def on_graph(papers: Any, width: int, k: int, seed: int, center: bool) -> float:
    """Return the weighted F1 of a graph network that is trained with its relative layer."""
    task = nodes.make_task(papers, seed=seed, test=0.1, n_anchors=k)
    relative = {"anchor_rows": task.anchors, "anchor_grad": True, "center": center}
    return best_epoch(task, nodes.Run(seed=seed, layers=NODE_LAYERS, width=width), NODE_EPOCHS, relative)


def word_table(found: Mapping[tuple[str, str], np.ndarray]) -> Table:
    """Lay the choices of anchors out."""
    rows = [[*key, *map(spread, scores.T)] for key, scores in found.items()]
    return Table(
        f"Words: which serve as anchors, {' and '.join(PAIR)}, both ways", ("anchors", "description", *MEASURES), rows
    )


def rows_of(found: Grid) -> list[list[list[float]]]:
    """Return a row per width."""
    widths = dict.fromkeys(d for d, _ in found)
    return [[v for (d, _), v in found.items() if d == width] for width in widths]


def grid_table(name: str, found: Grid) -> Table:
    """Lay widths out as rows and numbers of anchors as columns."""
    widths, counts = (list(dict.fromkeys(one)) for one in zip(*found, strict=True))
    rows = [[str(d), *map(spread, row)] for d, row in zip(widths, rows_of(found), strict=True)]
    return Table(f"{name}: dimension against number of anchors", ("dimension", *(f"{k} anchors" for k in counts)), rows)


def word_findings(found: Mapping[tuple[str, str], np.ndarray]) -> list[Finding]:
    """Judge stop words, and one word alone, by raw cosines."""
    mrr = {key: scores[:, MEASURES.index("mrr")] for key, scores in found.items()}
    said = "; ".join(f"{choice} ({kind}) {scores.mean():.3f}" for (choice, kind), scores in mrr.items())
    gain = mrr["content words", KINDS[0]] - mrr["stop words", KINDS[0]]
    error = float(gain.std(ddof=1) / np.sqrt(len(gain)))
    return [
        Finding(
            "stop words are worse anchors than content words (a question of A.2)",
            bool(gain.mean() > 2 * error),
            f"MRR: {said}; with raw cosines content words are better by {gain.mean():.3f} ± {error:.3f} (standard "
            f"error over {len(gain)} seeds and directions)",
        ),
        Finding(
            "one anchor, repeated, gives all words the same description (A.2)",
            bool(mrr[ONE_WORD, KINDS[0]].max() < 0.01),
            f"MRR {mrr[ONE_WORD, KINDS[0]].mean():.4f} with {ONE_WORD}, {mrr[TEN_WORDS, KINDS[0]].mean():.3f} with "
            f"{TEN_WORDS}",
        ),
    ]


def grid_findings(grids: Mapping[str, Grid]) -> list[Finding]:
    """Judge what the score follows: the smaller of the two, when the encoder is frozen and when it is trained."""
    found = []
    for name, one in grids.items():
        widths, counts = (sorted(set(axis)) for axis in zip(*one, strict=True))
        mean = {key: float(np.mean(scores)) for key, scores in one.items()}
        by_count = [mean[widths[-1], k] for k in counts]
        by_width = [mean[d, counts[-1]] for d in widths]
        found.append(
            Finding(
                f"{name}: neither a wide space nor many anchors make up for few of the other (a question of A.2)",
                by_count[0] < by_count[-1] - 0.02 and by_width[0] < by_width[-1] - 0.02,
                f"{widths[-1]} dimensions: {by_count[0]:.2f} with {counts[0]} anchors, {by_count[-1]:.2f} with "
                f"{counts[-1]}; {counts[-1]} anchors: {by_width[0]:.2f} with {widths[0]} dimensions, "
                f"{by_width[-1]:.2f} with {widths[-1]}; both small {mean[widths[0], counts[0]]:.2f}",
            )
        )
    return found


def draw(result: Result) -> Figure:
    """Draw the grids of dimensions and anchors."""
    figure, axes = panels(1, len(result.series), size=(3.0, 2.6))
    for panel, (name, found) in zip(axes[0], result.series.items(), strict=True):
        widths, counts = (list(map(str, found[key])) for key in ("widths", "counts"))
        heat_map(panel, np.asarray(found["mean"]), widths, counts, vmin=0, vmax=1)
        panel.set(title=name, xlabel="anchors", ylabel="dimension")
    return figure
