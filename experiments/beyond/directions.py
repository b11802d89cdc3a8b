"""Concept directions carried from one model to another, and what the other model's own head says of them.

A class difference in one encoder (good against bad reviews, disasters against other tweets, a type of question) is
moved into another by a translator that was fitted on other texts, without their labels. Vectors of the target that
lack the concept are shifted by it, by as much as the target's own class means differ, and the target's own classifier
reads them. Beside it stand a direction that was found on the target itself (the ceiling) and random ones (the floor).
In two small transformers that learned from different seeds, the residual stream is shifted at an inner layer.

    python -m experiments directions
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from experiments.data import texts
from experiments.data.groups import Group, cached, encoded, load_group
from experiments.models.classifier import classification_loss
from experiments.models.training import Training, train
from experiments.models.transformer import transformer, word_numbers
from experiments.results import Finding, Result, Setting, Table
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import relatent as rl

ROWS = 3_000
# Shares of the rows: to fit a translator on, and to find directions and train heads on, each. The rest is for tests.
FIT, LABELED = 0.4, 0.2
ENCODERS = ("minilm", "paraphrase", "use")
PAIRS = (("minilm", "paraphrase"), ("paraphrase", "minilm"), ("use", "minilm"), ("minilm", "use"))
LAYERS = (("minilm-layer-3", "minilm-float"), ("minilm-float", "minilm-layer-3"))
RANDOM = 20
WAYS = ("not steered", "by random", "by the moved", "by its own")
MAPS = {
    "vectors, affine": {"max_cost": "affine"},
    "vectors": {},
    "stitching, affine": {"goal": "stitching", "max_cost": "affine"},
    "orthogonal": {"map": "orthogonal"},
    "least squares": {"map": "affine"},
}
# What a translator is fitted with unless it is said otherwise: affine, so that a probe can be pulled back as well.
DEFAULT = "vectors, affine"
NOTE = (
    "Translators are affine ridges on rows of their own, without labels; directions, heads and tests have other rows "
    "each, except that a transformer's own head was trained on the questions that directions were found on. Steered "
    "rows lack the concept; all ways are as long as the difference of the target's own class means. Figures of "
    "question types are means over six. The cosine is that of the moved and of the target's own class difference of "
    "the test rows; attainable is what a direction without error would reach on so many. Random directions have the "
    "covariance of the rows. The last two columns are accuracies of the target's linear probe: on its own vectors, "
    "and pulled back through the translator on those of the source."
)
Says = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Concept:
    """Parallel spaces, the labels of their rows, and which rows are for what."""

    name: str
    group: Group
    fit: np.ndarray
    labeled: np.ndarray
    heads: np.ndarray
    """Other labeled rows, for classifiers: those that a direction was found on would favor it."""
    test: np.ndarray

    @staticmethod
    def of(name: str, group: Group) -> Concept:
        """Divide the rows."""
        assert group.labels is not None
        order = np.random.default_rng(0).permutation(len(group.labels))
        ends = np.cumsum([round(share * len(order)) for share in (FIT, LABELED, LABELED)])
        return Concept(name, group, *np.split(order, ends))

    @property
    def labels(self) -> np.ndarray:
        """One per row."""
        assert self.group.labels is not None
        return self.group.labels

    @property
    def asked(self) -> list[int]:
        """The classes that have a direction: of two classes, the second."""
        classes = sorted(set(self.labels.tolist()))
        return classes[1:] if len(classes) == 2 else classes


def run(setting: Setting) -> Result:
    """Move directions between encoders, between layers and between networks."""
    concepts = [Concept.of(name, load()) for name, load in CONCEPTS.items()]
    steered = [
        carried(concept, *pair)
        for concept in concepts
        for pair in (*PAIRS, *LAYERS)
        if set(pair) <= set(concept.group.spaces)
    ]
    inner = list(between_networks(setting))
    by_map = [[name, *(mean_cosine(c, PAIRS, options) for c in concepts)] for name, options in MAPS.items()]
    canonical = list(common(concepts[0]))
    columns = ("cosine", "95 % of random below", "attainable", *WAYS)
    probes = ("its probe", "pulled back to the source")
    tables = [
        Table(
            "Directions moved, and the share of steered rows in which the target's own head sees the concept",
            ("concept", "from", "to", *columns, *probes),
            steered,
        ),
        Table("The same inside two transformers, behind each layer", ("layer", *columns), inner),
        Table("Mean cosine over the encoder pairs, by map", ("map", *(c.name for c in concepts)), by_map),
        Table(
            "A direction of three encoders in a hub: what two say against the third's own",
            ("concept", "left out", "cosine", "95 % of random below"),
            canonical,
        ),
    ]
    data = [f"TREC; {ROWS:,} film reviews; {ROWS:,} tweets"]
    return Result(tables, list(findings(steered, inner, canonical)), data=data, notes=[NOTE])


def questions() -> Group:
    """Return questions of TREC, through encoders and through layers of one."""
    kept, corpus = load_group("trec"), texts.trec()[0]
    layers = cached("trec, layers", lambda: Group(dict(encoded(corpus.texts, *LAYERS[0]))))
    names = dict(zip(ENCODERS, ("minilm6", "para3", "usem3"), strict=True))
    return Group({name: kept.spaces[space] for name, space in names.items()} | layers.spaces, kept.labels)


def reviews() -> Group:
    """Return openings of film reviews."""
    return cached("reviews, three encoders", lambda: _encoded(texts.reviews(ROWS)))


def tweets() -> Group:
    """Return tweets that tell of a disaster, or do not."""
    return cached("tweets, three encoders", lambda: _encoded(texts.tweets(ROWS)))


def _encoded(corpus: texts.Corpus) -> Group:
    return Group(dict(encoded(corpus.texts, *ENCODERS)), corpus.labels)


CONCEPTS = {"question type": questions, "sentiment": reviews, "disaster": tweets}


def carried(concept: Concept, source: str, target: str) -> list[str | float]:
    """Return a row of the first table."""
    x, y = concept.group.spaces[source], concept.group.spaces[target]
    t = fitted(concept, source, target, MAPS[DEFAULT])
    labels = concept.labels
    quality = t.direction_quality(x[concept.test], y[concept.test], labels[concept.test])
    shares = steering(
        y[concept.test],
        labels[concept.test],
        {c: t.direction(difference(x[concept.labeled], labels[concept.labeled] == c)) for c in concept.asked},
        {c: difference(y[concept.labeled], labels[concept.labeled] == c) for c in concept.asked},
        {c: says(probe(y[concept.heads], labels[concept.heads] == c)) for c in concept.asked},
    )
    return [concept.name, source, target, *cosines(quality), *map(cell, shares), *accuracies(concept, t, x, y)]


def cosines(quality: rl.translate.DirectionQuality) -> list[str | float]:
    """Return the cosine, with its interval where there is one direction, what random ones reach, and the ceiling."""
    found = list(quality.cosines.values())
    mean = float(np.mean([e.value for e in found]))
    random, own = (float(np.mean(list(one.values()))) for one in (quality.random, quality.own))
    low, high = (float(np.mean([getattr(e, end) for e in found])) for end in ("low", "high"))
    return [f"{mean:.3f} [{low:.3f}, {high:.3f}]", random, own]


def steering(
    y: np.ndarray,
    labels: np.ndarray,
    moved: dict[int, np.ndarray],
    own: dict[int, np.ndarray],
    heads: dict[int, Says],
    shift: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda rows, v: rows + v,
) -> list[rl.evaluate.Estimate]:
    """Return the share of rows without a concept that its head sees it in: before, and shifted in three ways."""
    rng = np.random.default_rng(0)
    spread = np.reshape(y, (len(y), -1, y.shape[-1])).mean(axis=1)
    total, counts = np.zeros((4, len(y))), np.zeros(len(y))
    for label, head in heads.items():
        lacking, length = labels != label, float(np.linalg.norm(own[label]))
        drawn = rng.normal(size=(RANDOM, len(y))) @ (spread - spread.mean(axis=0))
        random = np.mean([head(shift(y, scaled_to(v, length))) for v in drawn], axis=0)
        ways = [head(y), random, head(shift(y, scaled_to(moved[label], length))), head(shift(y, own[label]))]
        total += lacking * np.asarray(ways, dtype=float)
        counts += lacking
    some = counts > 0
    return [rl.evaluate.bootstrap(values[some] / counts[some]) for values in total]  # a row, over what it lacks


def scaled_to(v: np.ndarray, length: float) -> np.ndarray:
    """Return a direction of a given length."""
    return v * (length / np.linalg.norm(v))


def difference(rows: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Return the difference of two class means."""
    return np.asarray(rows[inside].mean(axis=0) - rows[~inside].mean(axis=0), dtype=np.float64)


def probe(rows: np.ndarray, labels: np.ndarray) -> LogisticRegression:
    """Train a linear probe, in the coordinates of the space itself."""
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1_000)).fit(rows, labels)
    scaler, inner = model[0], model[1]
    inner.coef_ = inner.coef_ / scaler.scale_
    inner.intercept_ = inner.intercept_ - inner.coef_ @ scaler.mean_
    return inner


def says(model: LogisticRegression) -> Says:
    """Return whether the head sees the concept."""
    return lambda rows: rows @ model.coef_[0] + model.intercept_[0] > 0


def accuracies(concept: Concept, t: rl.Translator, x: np.ndarray, y: np.ndarray) -> list[float]:
    """Return the accuracy of the target's probe on its own vectors, and pulled back on those of the source."""
    model = probe(y[concept.heads], concept.labels[concept.heads])
    head, truth = t.pull_back(model.coef_, model.intercept_), concept.labels[concept.test]
    scores = head(x[concept.test])
    read = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return [float(model.score(y[concept.test], truth)), float(np.mean(model.classes_[read] == truth))]


def fitted(concept: Concept, source: str, target: str, options: dict[str, object]) -> rl.Translator:
    """Fit a translator on texts without their labels."""
    x, y = (concept.group.spaces[name][concept.fit] for name in (source, target))
    return rl.Translator(**options).fit(x, y)  # type: ignore[arg-type]


def mean_cosine(concept: Concept, pairs: tuple[tuple[str, str], ...], options: dict[str, object]) -> float:
    """Return the mean over pairs and directions."""
    rows, labels, found = concept.test, concept.labels[concept.test], []
    for source, target in pairs:
        x, y = concept.group.spaces[source], concept.group.spaces[target]
        t = fitted(concept, source, target, options)
        for label in concept.asked:
            moved, own = t.direction(difference(x[rows], labels == label)), difference(y[rows], labels == label)
            found.append(moved @ own / np.linalg.norm(moved) / np.linalg.norm(own))
    return float(np.mean(found))


def common(concept: Concept) -> Iterator[list[str | float]]:
    """Leave each encoder out of the direction that all have in common."""
    spaces = {name: concept.group.spaces[name] for name in ENCODERS}
    hub = rl.Hub().fit({name: rows[concept.fit] for name, rows in spaces.items()})
    inside = concept.labels[concept.labeled]
    found = [
        hub.direction({name: difference(rows[concept.labeled], inside == c) for name, rows in spaces.items()})
        for c in concept.asked
    ]
    for name in spaces:
        score, random = (
            float(np.mean(values)) for values in zip(*((f.scores[name], f.random) for f in found), strict=True)
        )
        yield [concept.name, name, score, random]


def between_networks(setting: Setting) -> Iterator[list[str | float]]:
    """Steer a transformer at its layers by directions of another, trained from another seed on the same questions."""
    corpus, known = texts.trec()
    numbers, vocabulary = word_numbers(corpus.texts, known)
    tokens, labels = torch.from_numpy(numbers), corpus.labels
    how = Training(steps=setting.pick(quick=600, full=2_000), rate=1e-3, batch=64)
    truth = torch.from_numpy(labels)
    networks = [
        train(lambda: transformer(vocabulary, 6), tokens[:known], truth[:known], classification_loss, how, seed=seed)
        for seed in (0, 1)
    ]
    for layer in range(1, len(networks[0]) - 1):
        yield [f"layer {layer}", *steered_network(networks, layer, tokens, labels, known)]


@torch.inference_mode()
def steered_network(
    networks: list[torch.nn.Module], layer: int, tokens: torch.Tensor, labels: np.ndarray, known: int
) -> list[str | float]:
    """Return a row of the second table: pairs are tokens of the first half of the training questions."""
    source, target = (network[: layer + 1](tokens).double().numpy() for network in networks)
    back = networks[1][layer + 1 :]
    fit, labeled, test = slice(0, known // 2), slice(known // 2, known), slice(known, None)
    x, y = source[fit], target[fit]
    t = rl.Translator(max_cost="affine").fit(x.reshape(-1, x.shape[2]), y.reshape(-1, y.shape[2]))
    means = [a.mean(axis=1) for a in (source, target)]  # over words
    quality = t.direction_quality(*(a[test] for a in means), labels[test])
    classes = sorted(set(labels.tolist()))

    def head(label: int) -> Says:
        return lambda rows: np.asarray(back(torch.from_numpy(rows).float()).argmax(dim=1) == label)

    shares = steering(
        target[test],
        labels[test],
        {c: t.direction(difference(means[0][labeled], labels[labeled] == c)) for c in classes},
        {c: difference(means[1][labeled], labels[labeled] == c) for c in classes},
        {c: head(c) for c in classes},
    )
    return [*cosines(quality), *map(cell, shares)]


def cell(estimate: rl.evaluate.Estimate) -> str:
    """Write a share with its interval."""
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"


def findings(
    steered: list[list[str | float]], inner: list[list[str | float]], canonical: list[list[str | float]]
) -> Iterator[Finding]:
    """Judge the claims of the papers on directions between models."""
    for claim, rows, first in (
        ("A linear map that was fitted without labels carries concept directions between encoders", steered, 3),
        ("It carries them between the layers of networks that were trained apart", inner, 1),
    ):
        beyond = [ends(row[first])[1] > float(row[first + 1]) for row in rows]
        values = [[ends(cell)[0] for cell in row[first + 3 : first + 7]] for row in rows]
        apart = [ends(row[first + 5])[1] > ends(row[first + 4])[2] for row in rows]
        share = [(moved - before) / (own - before) for before, _, moved, own in values]
        yield Finding(
            claim,
            all(beyond) and all(apart),
            f"The interval of the cosine is above 95 % of random directions in {sum(beyond)} of {len(rows)} rows; the "
            f"head sees the concept clearly more often than with random directions in {sum(apart)}. What steering by "
            f"the target's own direction gains, the moved one gains by {min(share):.2f} to {max(share):.2f}",
        )
    above = [float(score) > float(random) for *_, score, random in canonical]
    scores = [float(score) for *_, score, _ in canonical]
    yield Finding(
        "Several models have a direction in common, which a model left out has too",
        all(above),
        f"Above 95 % of random directions in {sum(above)} of {len(above)}; cosines {min(scores):.2f} to "
        f"{max(scores):.2f}",
    )


def ends(written: str | float) -> list[float]:
    """Read a value with its interval."""
    return [float(part) for part in str(written).replace("[", " ").replace("]", " ").replace(",", " ").split()]
