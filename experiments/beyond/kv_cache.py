"""A key-value cache translated between two small transformers that were trained apart, and when not to.

Two causal transformers over characters learn from different seeds. The target reads 48 characters of context and
continues. In place of its own cache it is given one that was translated from the source's: a ridge for the keys and
one for the values of each head, from the source layers that predict them best. A gate decides on validation texts
whether what the translated cache is worth is enough; other texts show whether it was right.

    python -m experiments kv-cache
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
from experiments.data import texts
from experiments.figures import heat_map, panels
from experiments.models.causal import (
    HEADS,
    LAYERS,
    LENGTH,
    WIDTH,
    Causal,
    character_numbers,
    next_character_loss,
)
from experiments.models.training import Training, train, trained
from experiments.results import Finding, Result, Setting, Table
from torch import Tensor
from torch.nn import functional

import relatent as rl
from relatent.evaluate.interval import share_of_gain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONTEXT, SCORED = 48, 24
# The share of what a cache is worth that must be kept, by the lower end of its interval.
THRESHOLD = 0.9
HEAD = WIDTH // HEADS
COLUMNS = (
    "source",
    "source layers",
    "tokens to fit on",
    "R² of keys",
    "R² of values",
    "least of a head",
    "cosine of keys",
    "cosine of values",
    "perplexity",
    "kept, validation",
    "gate",
    "kept, test",
)


@dataclass(frozen=True)
class Texts:
    """Windows of text, none of them in two parts."""

    train: Tensor
    fit: Tensor
    choice: Tensor
    test: Tensor


@dataclass(frozen=True)
class Recipe:
    """How a cache is translated: from how many source layers, on how many windows.

    From all heads or head to head; keys from keys and values from values, or each from ``both``.
    """

    layers: int
    windows: int
    matched: bool = False
    both: bool = False

    def __str__(self) -> str:
        how = ", head to head" if self.matched else ", keys and values" if self.both else ""
        return f"{self.layers}{how}"

    def inputs(self, layers: list[list[np.ndarray]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return what keys are predicted from, and what values are."""
        every = [side for layer in layers for side in layer]
        return (every, every) if self.both else (every[::2], every[1::2])


def run(setting: Setting) -> Result:
    """Translate the caches of several sources, by several recipes."""
    data = windows(setting.pick(quick=40_000, full=100_000, smoke=300), setting.pick(quick=600, full=2_000, smoke=20))
    steps = setting.pick(quick=1_500, full=10_000, smoke=3)
    target = network(setting, data, steps, seed=0)
    sources = {
        "another seed": network(setting, data, steps, seed=1),
        f"another seed, {steps // 10} steps": network(setting, data, steps // 10, seed=1),
        "not trained": untrained(seed=1),
        "the target itself": target,
    }
    many, few = len(data.fit), max(2, len(data.fit) // 100)
    first = next(iter(sources))
    tried = [(first, Recipe(k, many)) for k in range(1, LAYERS + 1)]
    tried += [(first, Recipe(LAYERS, many, matched=True)), (first, Recipe(LAYERS, few))]
    tried += [(first, Recipe(LAYERS, many, both=True))]
    tried += [(name, Recipe(LAYERS, many)) for name in list(sources)[1:]]
    rows, kept, series = [], [], {}
    for name, recipe in tried:
        maps = fitted(sources[name], target, data.fit[: recipe.windows], recipe)
        row, shares, heads = judged(sources[name], target, maps, data, recipe)
        kept.append(shares)
        rows.append([name, str(recipe), recipe.windows * CONTEXT, *row])
        if (name, recipe) == (first, Recipe(LAYERS, many)):
            series = heads
    own, none = (float(np.exp(losses(target, data.test, past).mean())) for past in ("own", "none"))
    title = (
        f"Perplexity of the {SCORED} characters behind the context: {own:.3g} with its own cache, {none:.3g} without"
    )
    return Result(
        [Table(title, COLUMNS, rows)],
        list(findings(rows, kept)),
        data=["characters of WikiText-2"],
        notes=[
            f"Two transformers of {LAYERS} layers, {HEADS} heads and {WIDTH} coordinates, {steps:,} steps each, with "
            "learned positions: rotary ones must be taken off the keys first. R² and cosine are means over heads on "
            "test texts. What is kept is the share of the difference in loss between no cache and the target's own; "
            f"the gate asks that the lower end of its 95 % interval on validation texts is at least {THRESHOLD}. "
            "Nothing follows for large models: measure yours."
        ],
        series=series,
    )


def windows(train_windows: int, held: int) -> Texts:
    """Cut a text into windows."""
    numbers = character_numbers(texts.running_text())
    count = len(numbers) // (LENGTH + 1)
    order = np.random.default_rng(0).permutation(count)
    cut = torch.from_numpy(numbers[: count * (LENGTH + 1)].reshape(count, -1)[order])
    ends = np.cumsum([train_windows, 2 * held, held, held])
    return Texts(
        *(cut[end - size : end] for end, size in zip(ends, (train_windows, 2 * held, held, held), strict=True))
    )


def network(setting: Setting, data: Texts, steps: int, seed: int) -> Causal:
    """Return a trained transformer."""
    how = Training(steps=steps, rate=3e-3, batch=32)
    path = setting.models / f"causal-{steps}-{seed}.safetensors"
    nothing = torch.zeros(len(data.train))
    return trained(path, how, Causal, lambda: train(Causal, data.train, nothing, next_character_loss, how, seed=seed))


def untrained(seed: int) -> Causal:
    """Return a transformer with random weights: the control."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Causal().eval()


@torch.inference_mode()
def sides(model: Causal, batch: Tensor) -> list[list[np.ndarray]]:
    """Return keys and values of every layer on the contexts: a row per token."""
    kept = model.cache(batch[:, :CONTEXT])
    return [[side.flatten(0, 1).numpy() for side in layer] for layer in kept]


def fitted(source: Causal, target: Causal, batch: Tensor, recipe: Recipe) -> list[list[tuple[tuple[int, ...], list]]]:
    """Fit for each layer, keys and values: the source layers to take, and a translator for each head."""
    xs, ys = recipe.inputs(sides(source, batch)), sides(target, batch)
    return [[fit_side(x, y, recipe) for x, y in zip(xs, layer, strict=True)] for layer in ys]


def fit_side(xs: list[np.ndarray], y: np.ndarray, recipe: Recipe) -> tuple[tuple[int, ...], list[rl.Translator]]:
    """Choose source layers, and fit one map per head, or one that goes from head to head."""
    order = rl.translate.select_sources(xs, y, max_sources=recipe.layers * (1 + recipe.both)).order
    chosen = [xs[i] for i in order]
    if recipe.matched:
        return order, [rl.Translator(map="ridge", blocks=HEADS).fit(chosen, y)]
    return order, [rl.Translator(map="ridge").fit(chosen, y[:, h : h + HEAD]) for h in range(0, WIDTH, HEAD)]


def translated(source: Causal, maps: list, batch: Tensor, recipe: Recipe) -> list[list[np.ndarray]]:
    """Translate the cache of the contexts."""
    xs = recipe.inputs(sides(source, batch))
    with catch_warnings():  # a few rare characters lie far out, which look like another model's rows
        simplefilter("ignore", rl.spaces.SpaceWarning)
        return [
            [
                np.concatenate([t.transform([x[i] for i in order]) for t in translators], axis=1)
                for x, (order, translators) in zip(xs, layer, strict=True)
            ]
            for layer in maps
        ]


def judged(
    source: Causal, target: Causal, maps: list, data: Texts, recipe: Recipe
) -> tuple[list, tuple[rl.evaluate.Estimate, rl.evaluate.Estimate], dict]:
    """Return a row of the table, the shares that were kept, and R² of each head."""
    found, own = translated(source, maps, data.test, recipe), sides(target, data.test)
    r2 = np.asarray([[per_head(r_squared, a[i], b[i]) for a, b in zip(found, own, strict=True)] for i in (0, 1)])
    cosines = np.asarray([[per_head(cosine, a[i], b[i]) for a, b in zip(found, own, strict=True)] for i in (0, 1)])
    parts = (data.choice, data.test)
    choice, test = (share_kept(target, part, translated(source, maps, part, recipe)) for part in parts)
    perplexity = float(np.exp(losses(target, data.test, found).mean()))
    row = [*r2.mean(axis=(1, 2)), r2.min(), *cosines.mean(axis=(1, 2)), perplexity]
    row += [written(choice), "translate" if choice.low >= THRESHOLD else "do not", written(test)]
    heads = [f"head {h + 1}" for h in range(HEADS)]
    return (
        row,
        (choice, test),
        {"keys": r2[0], "values": r2[1], "layers": [f"layer {i + 1}" for i in range(LAYERS)], "heads": heads},
    )


def written(estimate: rl.evaluate.Estimate) -> str:
    """Write a share with its interval."""
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def per_head(measure, a: np.ndarray, b: np.ndarray) -> list[float]:
    """Measure each head by itself."""
    return [measure(a[:, h : h + HEAD], b[:, h : h + HEAD]) for h in range(0, WIDTH, HEAD)]


def r_squared(found: np.ndarray, own: np.ndarray) -> float:
    """Return the share of variance that is explained."""
    return 1 - float(np.sum((found - own) ** 2) / np.sum((own - own.mean(axis=0)) ** 2))


def cosine(found: np.ndarray, own: np.ndarray) -> float:
    """Return the mean cosine."""
    products = np.sum(found * own, axis=1)
    return float(np.mean(products / np.linalg.norm(found, axis=1) / np.linalg.norm(own, axis=1)))


@torch.inference_mode()
def losses(target: Causal, batch: Tensor, kept: str | list[list[np.ndarray]]) -> np.ndarray:
    """Return the mean loss behind each context, with a given cache, with the target's "own" or with "none"."""
    context, rest = batch[:, :CONTEXT], batch[:, CONTEXT : CONTEXT + SCORED + 1]
    if kept == "none":
        past = None
    elif kept == "own":
        past = target.cache(context)
    else:
        past = [tuple(torch.from_numpy(side).unflatten(0, (len(batch), -1)) for side in layer) for layer in kept]
    logits = target(rest[:, :-1], past)
    found = functional.cross_entropy(logits.flatten(0, 1), rest[:, 1:].flatten(), reduction="none")
    return found.unflatten(0, (len(batch), -1)).mean(dim=1).numpy()


def share_kept(target: Causal, batch: Tensor, kept: list[list[np.ndarray]]) -> rl.evaluate.Estimate:
    """Return the share of what the target's own cache is worth, over texts."""
    columns = np.stack([losses(target, batch, one) for one in (kept, "none", "own")], axis=1)
    return rl.evaluate.bootstrap(columns, share_of_gain(0, 1, 2))


def findings(rows: list[list], kept: list[tuple[rl.evaluate.Estimate, rl.evaluate.Estimate]]) -> Iterator[Finding]:
    """Judge what several layers and all heads are worth, and the gate."""
    one, several, matched = rows[0], rows[LAYERS - 1], rows[LAYERS]
    yield Finding(
        "Several source layers predict keys and values better than one",
        several[3] > one[3] and several[4] > one[4],
        f"R² of keys {one[3]:.2f} to {several[3]:.2f}, of values {one[4]:.2f} to {several[4]:.2f}",
    )
    yield Finding(
        "Heads of networks that were trained apart do not correspond one to one",
        matched[3] < several[3] and matched[4] < several[4],
        f"From head to head, R² of keys is {matched[3]:.2f} and of values {matched[4]:.2f}",
    )
    bare = next(i for i, row in enumerate(rows) if row[0] == "not trained")
    yield Finding(
        "How well keys and values are predicted does not tell what the translated cache is worth",
        rows[bare][3] > 0.75 * several[3] and kept[bare][1].high < 0.5 * kept[LAYERS - 1][1].low,
        f"From a source with random weights R² of keys is {rows[bare][3]:.2f}, and {kept[bare][1].value:.2f} is kept; "
        f"from a trained one {several[3]:.2f}, and {kept[LAYERS - 1][1].value:.2f}",
    )
    right = [(choice.low >= THRESHOLD) == (test.value >= THRESHOLD) for choice, test in kept]
    wrong = [choice.low >= THRESHOLD > test.value for choice, test in kept]
    yield Finding(
        "The gate translates no cache that keeps less than it asks for on other texts",
        not any(wrong),
        f"It is right in {sum(right)} of {len(right)} cases, and translates {sum(wrong)} that it should not",
    )


def draw(result: Result) -> Figure:
    """Draw R² of every head."""
    figure, axes = panels(1, 2, (3.4, 2.6))
    for panel, name in zip(axes[0], ("keys", "values"), strict=True):
        heat_map(panel, result.series[name], result.series["layers"], result.series["heads"], vmin=0, vmax=1)
        panel.set_title(f"R² of translated {name}")
    return figure
