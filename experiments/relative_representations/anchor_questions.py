"""What the paper leaves open about anchors: appendix A.2 and the conclusion of Moschella et al., ICLR 2023.

- "Are anchors composed only by stopwords worse than the ones composed by meaningful and diverse words?" Words are
  looked up as in table 1, with anchors that are stop words, content words, words of one topic, or farthest points.
- "The training cost is directly affected by the number and update frequency of the anchors." Classifiers of MNIST are
  trained while their anchors are embedded again at every step, at every 10th or 100th, never, or follow a moving
  average: accuracy, accuracy with the head of another seed, and CPU time per step.
- How the dimension of the space and the number of anchors play together, trained end to end or on a frozen encoder:
  classifiers of digits, and graph networks on Cora.

    python -m experiments rr-anchors
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from experiments.data import words
from experiments.data.graphs import load_citations
from experiments.data.groups import Group, cached
from experiments.data.images import Images, load_images
from experiments.figures import heat_map, panels
from experiments.models.classifier import ARCHITECTURES, LATENT, classification_loss, classifier
from experiments.models.heads import norm_head
from experiments.models.training import Training, train
from experiments.relative_representations import nodes
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
NODE_WIDTHS, NODE_COUNTS = (16, 64, 256), (10, 50, 300)
EVERY = {"at every step": 1, "at every 10th step": 10, "at every 100th step": 100, "never": 10**9}
MOMENTA = {"moving average, 0.9": 0.9, "moving average, 0.99": 0.99}
Grid = dict[tuple[int, int], list[float]]  # scores over seeds, by width and number of anchors


def run(setting: Setting) -> Result:
    """Answer the three questions, each by a table."""
    torch.set_num_threads(1)
    seeds, queries = setting.pick(quick=(3, 1_000), full=(10, 20_000))
    word_scores = look_up(frequent_and_rare(), seeds, queries)
    refreshed = refreshing(load_images("MNIST", 5_000, 2_000), seeds, setting.pick(quick=300, full=3_000))
    digits = load_images("digits")
    grids = {
        "digits, trained end to end": grid(WIDTHS, COUNTS, seeds, lambda d, k, s: trained(digits, d, k, s)),
        "digits, frozen encoder": grid(WIDTHS, COUNTS, seeds, lambda d, k, s: frozen(digits, d, k, s)),
    }
    papers = load_citations("cora")
    for name, center in (("Cora, trained end to end", False), ("Cora, the same, centered (ours)", True)):
        grids[name] = grid(NODE_WIDTHS, NODE_COUNTS, seeds, lambda d, k, s, c=center: on_graph(papers, d, k, s, c))
    return Result(
        [word_table(word_scores), refresh_table(refreshed), *(grid_table(*one) for one in grids.items())],
        [word_finding(word_scores), refresh_finding(refreshed), *grid_findings(grids)],
        seeds=seeds,
        data=[
            f"words in {' and '.join(PAIR)}, {ANCHORS} anchors; MNIST, 5,000 images, 150 anchors; 1,437 digits; Cora, "
            "4 layers, 50 epochs"
        ],
        series={name: [[float(np.mean(v)) for v in row] for row in rows_of(found)] for name, found in grids.items()},
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
        "ten words, each again and again": lambda _, seed: np.resize(
            np.random.default_rng(seed).choice(content, 10, replace=False), k
        ),
    }
    found: dict[tuple[str, str], np.ndarray] = {}
    for choice, choose in choices.items():
        for kind in KINDS:
            found[choice, kind] = np.asarray(
                [
                    compared(kind, group.spaces[a], group.spaces[b], choose(a, seed), queries)
                    for seed in range(seeds)
                    for a, b in (PAIR, PAIR[::-1])
                ]
            )
    return found


class Refreshed(nn.Module):
    """Cosines to anchor samples that are embedded without gradient at every so many steps; after training, again."""

    def __init__(self, anchors: Tensor, encoder: nn.Module, every: int) -> None:
        super().__init__()
        self.samples, self.embed, self.every, self.step = anchors, [encoder], every, 0
        self.held: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return one cosine per anchor."""
        due = self.step % self.every == 0 if self.training else self.every < max(EVERY.values())
        if due or self.held is None:
            with torch.no_grad():
                self.held = self.embed[0](self.samples)
        self.step += self.training
        return rl.relative_projection(x, self.held)


def refreshing(images: Images, seeds: int, steps: int) -> dict[str, np.ndarray]:
    """Return own accuracy, accuracy with another seed's head, and milliseconds per step of each way, over seeds."""
    x, labels = torch.from_numpy(images.train), torch.from_numpy(images.train_labels)
    anchors, test = torch.from_numpy(images.anchors(150)), torch.from_numpy(images.test)
    found = {}
    for way in ("absolute", *EVERY, *MOMENTA):

        def build(way: str = way) -> nn.Sequential:
            encoder = ARCHITECTURES["plain"](images.side, LATENT, images.colors)
            if way == "absolute":
                return nn.Sequential(OrderedDict(encoder=encoder, decoder=norm_head(LATENT, 10)))
            if way in EVERY:
                layer: nn.Module = Refreshed(anchors, encoder, EVERY[way])
            else:
                layer = rl.nn.RelativeProjection(anchors, encoder=encoder, momentum=MOMENTA[way], output="none")
            return nn.Sequential(
                OrderedDict(encoder=nn.Sequential(encoder, layer), decoder=norm_head(len(anchors), 10))
            )

        models, times = [], []
        for seed in range(seeds):
            start = time.process_time()
            models.append(train(build, x, labels, classification_loss, Training(steps, 5e-3), seed=seed))
            times.append(1_000 * (time.process_time() - start) / steps)
        with torch.inference_mode():
            codes = [m.encoder(test) for m in models]
            right = {
                (i, j): float(np.mean(models[j].decoder(codes[i]).argmax(dim=1).numpy() == images.test_labels))
                for i in range(seeds)
                for j in range(seeds)
            }
        own = [right[i, i] for i in range(seeds)]
        stitched = [np.mean([right[i, j] for i, j in permutations(range(seeds), 2) if j == to]) for to in range(seeds)]
        found[way] = np.asarray([own, stitched, times])
    return found


def grid(widths: tuple[int, ...], counts: tuple[int, ...], seeds: int, score: Callable[[int, int, int], float]) -> Grid:
    """Return the scores of every width with every number of anchors."""
    return {(d, k): [score(d, k, seed) for seed in range(seeds)] for d in widths for k in counts}


def trained(digits: Images, width: int, k: int, seed: int) -> float:
    """Return the test accuracy of a classifier that is trained with its relative layer."""
    anchors = torch.from_numpy(digits.train[rl.anchors.uniform(digits.train[:, 0, 0], k, seed=seed)])
    return accuracy(digits, fitted(digits, width, seed, anchors))


def fitted(digits: Images, width: int, seed: int, anchors: Tensor | None) -> nn.Module:
    """Train a classifier of digits whose space has some width."""
    x, y = torch.from_numpy(digits.train), torch.from_numpy(digits.train_labels)
    how = Training(steps=250, rate=5e-3)
    build = lambda: classifier("mlp", digits.side, 10, anchors, latent=width)  # noqa: E731 (drawn anew in train)
    return train(build, x, y, classification_loss, how, seed=seed)


def accuracy(digits: Images, model: nn.Module) -> float:
    """Return the share of test digits that are read correctly."""
    with torch.inference_mode():
        return float(np.mean(model(torch.from_numpy(digits.test)).argmax(dim=1).numpy() == digits.test_labels))


def frozen(digits: Images, width: int, k: int, seed: int) -> float:
    """Return the test accuracy of a linear head on relative vectors of an encoder that was trained without them."""
    encoder = fitted(digits, width, seed, None)[0]  # type: ignore[index]
    with torch.inference_mode():
        x, test = (encoder(torch.from_numpy(part)).numpy() for part in (digits.train, digits.test))
    projection = rl.RelativeProjection(normalize="none").fit(x[rl.anchors.uniform(x, k, seed=seed)])
    head = LogisticRegression(C=100, max_iter=300).fit(projection.transform(x), digits.train_labels)
    return float(head.score(projection.transform(test), digits.test_labels))


def on_graph(papers: Any, width: int, k: int, seed: int, center: bool) -> float:
    """Return the weighted F1 of a graph network that is trained with its relative layer."""
    task = nodes.make_task(papers, seed=seed, test=0.1, n_anchors=k)
    relative = {"anchor_rows": task.anchors, "anchor_grad": True, "center": center}
    return best_epoch(task, nodes.Run(seed=seed, layers=4, width=width), 50, relative)


def word_table(found: Mapping[tuple[str, str], np.ndarray]) -> Table:
    """Lay the choices of anchors out."""
    rows = [[*key, *map(spread, scores.T)] for key, scores in found.items()]
    return Table(
        f"Words: which serve as anchors, {' and '.join(PAIR)}, both ways", ("anchors", "description", *MEASURES), rows
    )


def refresh_table(found: Mapping[str, np.ndarray]) -> Table:
    """Lay the ways to refresh anchors out."""
    base = found["absolute"][2].mean()
    rows = [[way, *map(spread, scores[:2]), spread(scores[2] / base)] for way, scores in found.items()]
    columns = ("anchors are embedded again", "accuracy", "with another seed's head", "CPU time, absolute = 1")
    return Table("MNIST: how often anchors are embedded again while training", columns, rows)


def rows_of(found: Grid) -> list[list[list[float]]]:
    """Return a row per width."""
    widths = dict.fromkeys(d for d, _ in found)
    return [[v for (d, _), v in found.items() if d == width] for width in widths]


def grid_table(name: str, found: Grid) -> Table:
    """Lay widths out as rows and numbers of anchors as columns."""
    widths, counts = (list(dict.fromkeys(one)) for one in zip(*found, strict=True))
    rows = [[str(d), *map(spread, row)] for d, row in zip(widths, rows_of(found), strict=True)]
    return Table(f"{name}: dimension against number of anchors", ("dimension", *(f"{k} anchors" for k in counts)), rows)


def word_finding(found: Mapping[tuple[str, str], np.ndarray]) -> Finding:
    """Judge stop words."""
    mrr = {key: float(scores[:, MEASURES.index("mrr")].mean()) for key, scores in found.items()}
    said = "; ".join(
        f"{choice} {mrr[choice, KINDS[0]]:.3f} ({mrr[choice, KINDS[1]]:.3f} centered)"
        for choice in dict.fromkeys(choice for choice, _ in found)
    )
    worse = all(mrr["stop words", kind] < mrr["content words", kind] for kind in KINDS)
    return Finding("stop words are worse anchors than content words (a question of A.2)", worse, f"MRR: {said}")


def refresh_finding(found: Mapping[str, np.ndarray]) -> Finding:
    """Judge whether fewer refreshes lose anything."""
    base = found["absolute"][2].mean()
    said = "; ".join(
        f"{way} {own.mean():.3f} (another seed's head {stitched.mean():.3f}), {times.mean() / base:.1f} × the time"
        for way, (own, stitched, times) in found.items()
    )
    always, rarely = found["at every step"], found["at every 10th step"]
    return Finding(
        "anchors may be embedded again at every 10th step without loss (a question of the conclusion)",
        bool((rarely[:2].mean(axis=1) > always[:2].mean(axis=1) - 0.01).all()),
        said,
    )


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
    for panel, (name, values) in zip(axes[0], result.series.items(), strict=True):
        widths, counts = (WIDTHS, COUNTS) if name.startswith("digits") else (NODE_WIDTHS, NODE_COUNTS)
        heat_map(panel, np.asarray(values), list(map(str, widths)), list(map(str, counts)), vmin=0, vmax=1)
        panel.set_title(name, fontsize=8)
        panel.set(xlabel="anchors", ylabel="dimension")
    return figure
