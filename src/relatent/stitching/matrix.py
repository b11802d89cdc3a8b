"""The stitching matrix: every encoder with every decoder by every method, scored on held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from relatent._array import as_matrix, check_count, random_generator, suggest, to_numpy
from relatent._terminal import progress_bar
from relatent.project import RelativeProjection, RelativeTranslator
from relatent.spaces.join import align
from relatent.spaces.space import Space
from relatent.stitching.compose import stitch, width_in, without_graph
from relatent.stitching.result import StitchControl, StitchedPair, StitchingMatrix
from relatent.translate import Translator
from relatent.translate.maps import MAPS

# Methods that are tried by default.
METHODS = ("absolute", "relative", "orthogonal", "least_squares", "stitching", "inverse_relative", "dual_codes")
# Metrics by name: the function of scikit-learn, its options, and whether larger is better.
METRICS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "accuracy": ("accuracy_score", {}, True),
    "weighted F1": ("f1_score", {"average": "weighted", "zero_division": 0.0}, True),
    "MSE": ("mean_squared_error", {}, False),
}
TEST_SHARE = 0.2


def stitching_matrix(
    spaces: Mapping[str, Any],
    decoders: Any,
    labels: Any,
    *,
    samples: Any = None,
    anchors: int | Sequence[int] | np.ndarray = 300,
    train: Sequence[int] | np.ndarray | None = None,
    test: Sequence[int] | np.ndarray | None = None,
    methods: Sequence[str] | Mapping[str, Any] = METHODS,
    metric: str | Callable[[Any, Any], float] = "accuracy",
    larger_is_better: bool | None = None,
    controls: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> StitchingMatrix:
    """Stitch every encoder to every decoder by every method, and score each stitch on test rows.

    Each space is encoded once and made relative once, each decoder fitted once per space and kind of vectors, and the
    source's half of relative codes once per space; only the rest of a translator is fitted per pair, on the anchors
    alone.

    Parameters
    ----------
    spaces : name → vectors, or name → encoder
        Parallel rows: row i means the same in each. Spaces with keys (:class:`relatent.Space`) are joined on them;
        labels and row numbers then follow the first.
    samples : input of the encoders
        Encoders as in :func:`~relatent.stitch`.
    decoders : an unfitted scikit-learn estimator, a function ``fit(x, labels) → decoder``, or name → fitted decoder
        The first two are trained on the train rows of every space. Fitted decoders are named as the spaces they were
        trained on; one that has a twin for relative vectors is given as ``{"absolute": …, "relative": …}``.
    labels : expected output of the decoders, one entry per row
        Classes, or for reconstruction the originals.
    anchors, train, test : row numbers
        ``anchors`` may be a number of train rows to draw. Without ``test`` a fifth of the rows is drawn;
        without ``train`` all others are train rows. Test rows are neither train rows nor anchors.
    methods : names, or name → unfitted method
        "absolute" (no translation), "relative" (:class:`~relatent.RelativeProjection`; decoders are trained on
        relative vectors), a map or goal of :class:`~relatent.Translator` ("orthogonal", "least_squares",
        "stitching", …), "inverse_relative" (:class:`~relatent.RelativeTranslator` with cosine codes, ω = 8 and
        δ = 0.7, as published) and "dual_codes" (its default).
    metric : "accuracy", "weighted F1", "MSE" or a function ``(truth, answer) → number``
        Of decoders that return scores of classes, the largest is taken. A class that a decoder has never seen counts
        as wrong.
    larger_is_better : bool
        For a metric that is a function; true by default.
    controls : bool
        Score too what a stitch reaches for the wrong reasons (:class:`~relatent.stitching.StitchControl`): a random
        encoder, of ``samples`` where these are an array and else of nothing; anchors that are paired at random; and
        the decoder's own most frequent answer.
    seed : int
        Draws rows, and whatever the methods draw.
    progress : bool or None
        None shows a bar on a terminal.

    Where widths differ, "absolute" is not available, which is noted in the result.

    References: Moschella et al., ICLR 2023, tables 4–6; Maiorca et al., NeurIPS 2023, tables 1–4.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 6))
    >>> spaces = {"a": x, "b": x @ np.linalg.qr(rng.normal(size=(6, 6)))[0]}
    >>> m = stitching_matrix(spaces, LogisticRegression(), x[:, 0] > 0, anchors=50, methods=["absolute", "orthogonal"])
    >>> pair = m["a", "b", "orthogonal"]
    >>> pair.value == pair.own, m["a", "b", "absolute"].value < 0.8
    (True, True)
    """
    named = find_methods(methods, seed)
    score, name, larger = find_metric(metric, larger_is_better)
    check_names(spaces, decoders)
    truth = to_numpy(labels)
    split = Split.draw(len(truth), anchors, train, test, seed)
    read = tuple(decoders if isinstance(decoders, Mapping) else spaces)
    steps = len(spaces) + len(read) * (len(kinds(named)) + (len(spaces) - 1) * len(named))
    steps += len(read) if controls else 0
    with progress_bar(steps, "stitching", progress) as advance:
        stitcher = _Stitcher(_encoded(spaces, samples, len(truth), advance), decoders, truth, split, named, score)
        pairs = tuple(stitcher.pairs(read, advance))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that nothing relates the pairs of a control is its point
            found = tuple(_controls(stitcher, read, samples, seed, advance)) if controls else ()
    return StitchingMatrix(pairs, name, larger, len(split.anchors), len(split.test), seed, found)


@dataclass(frozen=True, eq=False)
class _Stitcher:
    """Stitches and scores pairs; what pairs have in common is computed once."""

    spaces: dict[str, np.ndarray]
    decoders: Any
    truth: np.ndarray
    split: Split
    methods: dict[str, Any]
    score: Callable[[Any, Any], float]
    cache: dict[tuple[str, ...], Any] = field(default_factory=dict)

    def pairs(self, names: Sequence[str], advance: Callable[[int], None]) -> Iterator[StitchedPair]:
        """Score the decoders one after the other: each on its own encoder first, then on all others."""
        for decoder in names:
            own = {}
            for kind in kinds(self.methods):
                own[kind], note = self.score_pair(decoder, decoder, kind, None)
                yield StitchedPair(decoder, decoder, kind, own[kind], own[kind], note)
                advance(1)
            for encoder in (name for name in self.spaces if name != decoder):
                for method in self.methods:
                    kind = kind_of(method, self.methods)
                    value, note = self.score_pair(encoder, decoder, kind, method if kind != method else None)
                    yield StitchedPair(encoder, decoder, method, value, own[kind], note)
                    advance(1)

    def score_pair(self, encoder: str, decoder: str, kind: str, method: str | None) -> tuple[float | None, str]:
        """Score a decoder on the test rows of an encoder, as vectors of a kind, translated if a method is named."""
        ready = self.decoder(decoder, kind)
        if ready is None:
            return None, f"no decoder of {kind} vectors was given"
        x, test = self.vectors(encoder, kind), self.split.test
        translator = None if method is None else self.translator(encoder, decoder, method)
        if translator is None and x.shape[1] != (width_in(ready) or self.vectors(decoder, kind).shape[1]):
            return None, "dimensions differ"
        found = _answer(stitch(None, translator, ready), x[test], self.truth)
        return float(self.score(self.truth[test], found)), ""

    def score_constant(self, decoder: str) -> float | None:
        """Score the most frequent answer of a decoder on its own encoder, or the mean of answers that are numbers."""
        ready, test = self.decoder(decoder, "absolute"), self.split.test
        if ready is None:
            return None
        found = _answer(stitch(None, None, ready), self.vectors(decoder, "absolute")[test], self.truth)
        if found.ndim == 1 and found.dtype.kind != "f":
            values, counts = np.unique(found, return_counts=True)
            constant = np.full(len(test), values[np.argmax(counts)])
        else:
            constant = np.broadcast_to(np.mean(found, axis=0), found.shape)
        return float(self.score(self.truth[test], constant))

    def vectors(self, space: str, kind: str) -> np.ndarray:
        """Return the vectors of a space, or their relative representation, computed once."""
        x = self.spaces[space]
        if kind == "absolute":
            return x
        if ("vectors", space, kind) not in self.cache:
            projection = clone(self.methods[kind]).fit(x[self.split.anchors])
            self.cache["vectors", space, kind] = to_numpy(projection.transform(x))
        return np.asarray(self.cache["vectors", space, kind])

    def decoder(self, space: str, kind: str) -> Any:
        """Return the decoder of one kind of vectors of a space, fitted once; None if there is none."""
        if isinstance(self.decoders, Mapping):
            given = self.decoders[space]
            return given.get(kind) if isinstance(given, Mapping) else given if kind == "absolute" else None
        if ("decoder", space, kind) not in self.cache:
            x, y = self.vectors(space, kind)[self.split.train], self.truth[self.split.train]
            fit = clone(self.decoders).fit if hasattr(self.decoders, "fit") else self.decoders
            self.cache["decoder", space, kind] = fit(x, y)
        return self.cache["decoder", space, kind]

    def translator(self, source: str, target: str, method: str) -> Any:
        """Fit a translator on the anchors of two spaces. The source's half of relative codes is fitted once."""
        unfitted = self.methods[method]
        if unfitted is None:
            return None
        x, y = (self.spaces[name][self.split.anchors] for name in (source, target))
        known = self.cache.get(("codes", source, method))
        if known is not None:
            half = clone(known.decoder_).fit(y)
            return lambda vectors: half.transform(known.encoder_.transform(vectors))
        fitted = clone(unfitted).fit(x, y)
        if isinstance(unfitted, RelativeTranslator) and not unfitted.complete:  # completion depends on both sides
            self.cache["codes", source, method] = fitted
        return fitted


def _controls(
    stitcher: _Stitcher, decoders: Sequence[str], samples: Any, seed: int, advance: Callable[[int], None]
) -> Iterator[StitchControl]:
    """Score what a stitch reaches without a trained encoder, without true pairs, and without reading anything."""
    rng, methods, true = random_generator(seed), stitcher.methods, dict(stitcher.spaces)
    shuffled = {name: f"{name}, shuffled" for name in true}
    for name, x in true.items():
        anchors = stitcher.split.anchors
        stitcher.spaces[shuffled[name]] = x.copy()
        stitcher.spaces[shuffled[name]][anchors] = x[rng.permutation(anchors)]
    for decoder in decoders:
        random = f"random encoder as wide as {decoder}"
        stitcher.spaces[random] = _random_vectors(samples, true[decoder].shape, rng)
        for method in methods:
            kind = kind_of(method, methods)
            by = method if kind != method else None
            value, _ = stitcher.score_pair(random, decoder, kind, by)
            yield StitchControl("random encoder", None, decoder, method, value)
            for encoder in (name for name in true if name != decoder):
                if method != "absolute":  # which has no pairs to shuffle
                    value, _ = stitcher.score_pair(shuffled[encoder], decoder, kind, by)
                    yield StitchControl("shuffled pairs", encoder, decoder, method, value)
        yield StitchControl("majority", None, decoder, None, stitcher.score_constant(decoder))
        advance(1)


def _random_vectors(samples: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Encode samples by a layer with random weights, or without samples each row by random numbers."""
    if not hasattr(samples, "shape"):
        return rng.normal(size=shape)
    n, width = shape
    flat = to_numpy(samples).reshape(n, -1).astype(np.float64)
    scale = np.linalg.norm(flat - flat.mean(axis=0)) / np.sqrt(n)
    return np.asarray(np.tanh((flat - flat.mean(axis=0)) @ rng.normal(size=(flat.shape[1], width)) / (scale or 1.0)))


def _encoded(spaces: Mapping[str, Any], samples: Any, n: int, advance: Callable[[int], None]) -> dict[str, np.ndarray]:
    vectors = {}
    for name, space in _in_one_order(spaces).items():
        if not (hasattr(space, "shape") or isinstance(space, list | tuple)):
            if samples is None:
                raise ValueError(f"{name} is an encoder and there is nothing to encode: give samples.")
            with without_graph():
                space = stitch(space, None, lambda x: x)(samples)
        x = to_numpy(as_matrix(space, name))
        if len(x) != n:
            raise ValueError(f"{name} has {len(x)} rows and there are {n} labels: expected one label per row.")
        vectors[name] = x
        advance(1)
    return vectors


def _in_one_order(spaces: Mapping[str, Any]) -> dict[str, Any]:
    """Put spaces with keys in the row order of the first, which labels and row numbers refer to."""
    held = {name: space for name, space in spaces.items() if isinstance(space, Space)}
    if not held:
        return dict(spaces)
    first, vectors = next(iter(held)), align(held).vectors
    if len(vectors[first]) != len(held[first]):
        raise ValueError(
            f"{len(held[first]) - len(vectors[first])} of the {len(held[first])} keys of {first} are not in all other "
            f"spaces: expected all, since labels and row numbers follow {first}. Leave those rows out with subset."
        )
    return {**spaces, **vectors}


def _answer(model: Any, x: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the output of a model; of scores of classes, if a class is expected, the largest is taken."""
    found = to_numpy(model.predict(x) if hasattr(model, "predict") else model(x))
    if truth.ndim != 1 or found.ndim != 2:
        return found
    best = np.argmax(found, axis=1)
    return np.asarray(model.classes_[best] if hasattr(model, "classes_") else best)


@dataclass(frozen=True)
class Split:
    """Which rows translators are fitted on, which decoders are trained on, and which are held out for the score."""

    anchors: np.ndarray
    train: np.ndarray
    test: np.ndarray

    @staticmethod
    def draw(n: int, anchors: Any, train: Any, test: Any, seed: int) -> Split:
        """Draw the rows that are not given, and raise for test rows that something is fitted on."""
        rng, every = random_generator(seed), np.arange(n)
        drawn = isinstance(anchors, int | np.integer)
        anchored = every[:0] if drawn else _row_numbers(anchors, n, "anchors")
        trained = every[:0] if train is None else _row_numbers(train, n, "train")
        if test is None:
            free = np.setdiff1d(every, np.union1d(anchored, trained))
            tested = np.sort(rng.permutation(free)[: max(1, round(TEST_SHARE * n))])
        else:
            tested = _row_numbers(test, n, "test")
        if train is None:
            trained = np.setdiff1d(every, tested)
        if drawn:
            anchored = np.sort(rng.choice(trained, check_count(int(anchors), len(trained)), replace=False))
        for name, rows in (("train rows", trained), ("anchors", anchored)):
            both = np.intersect1d(rows, tested)
            if len(both):
                raise ValueError(
                    f"{len(both)} of the {len(rows)} {name} are test rows too, first row {both[0]}: expected none, "
                    "since a score on rows that were used to fit is biased. Leave them out of one."
                )
        return Split(anchored, trained, tested)


def find_methods(methods: Sequence[str] | Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return each method by its name: an unfitted translator or projection, or None to leave vectors as they are."""
    if isinstance(methods, str):
        methods = [methods]
    if not isinstance(methods, Mapping):
        methods = {name: name for name in methods}
    found = {name: _method(m, seed) if isinstance(m, str) else m for name, m in methods.items()}
    if not found:
        raise ValueError(f"No methods were given: expected at least one, such as {', '.join(METHODS)}.")
    return found


def _method(name: str, seed: int) -> Any:
    known = {
        "absolute": None,
        "relative": RelativeProjection(),
        "inverse_relative": RelativeTranslator("cosine", omega=8, delta=0.7, seed=seed),
        "dual_codes": RelativeTranslator(),
        **{goal: Translator(goal, seed=seed) for goal in ("vectors", "stitching")},
        **{rule: Translator(map=rule, seed=seed) for rule in MAPS},
    }
    if name not in known:
        raise ValueError(f"There is no method {name!r}.{suggest(name, known)}")
    return known[name]


def kind_of(method: str, methods: Mapping[str, Any]) -> str:
    """Name the kind of vectors that decoders read under a method: absolute, or relative of some projection."""
    return method if isinstance(methods[method], RelativeProjection) else "absolute"


def kinds(methods: Mapping[str, Any]) -> list[str]:
    """Kinds of vectors that decoders are needed for; absolute always, since it is the ceiling."""
    return list(dict.fromkeys(["absolute", *(kind_of(method, methods) for method in methods)]))


def find_metric(metric: Any, larger: bool | None) -> tuple[Callable[[Any, Any], float], str, bool]:
    """Return the function, its name, and whether larger is better."""
    if isinstance(metric, str):
        if metric not in METRICS:
            raise ValueError(f"There is no metric {metric!r}.{suggest(metric, METRICS)}")
        from sklearn import metrics  # a large import that few users need

        function, options, better = METRICS[metric]
        return partial(getattr(metrics, function), **options), metric, better
    name = getattr(metric, "__name__", type(metric).__name__)
    return metric, name, True if larger is None else larger


def check_names(spaces: Mapping[str, Any], decoders: Any) -> None:
    """Raise for too few spaces, and for what cannot be decoders of these spaces."""
    if len(spaces) < 2:
        raise ValueError(f"{len(spaces)} spaces were given: expected at least 2 to stitch.")
    if isinstance(decoders, type) or not (
        isinstance(decoders, Mapping) or hasattr(decoders, "fit") or callable(decoders)
    ):
        raise TypeError(
            f"decoders is {decoders!r}: expected an unfitted scikit-learn estimator, a function fit(x, labels) that "
            "gives a decoder, or a mapping from names of spaces to fitted decoders."
        )
    unknown = [name for name in decoders if name not in spaces] if isinstance(decoders, Mapping) else []
    if unknown:
        raise ValueError(
            f"The decoder {unknown[0]!r} has no space of its name: name each after the space it was trained on."
            f"{suggest(unknown[0], spaces)}"
        )


def _row_numbers(rows: Any, n: int, name: str) -> np.ndarray:
    given = to_numpy(rows)
    if given.dtype == bool and given.shape == (n,):
        return np.flatnonzero(given)
    whole = given.ndim == 1 and len(given) > 0 and given.dtype.kind in "iu"
    if not whole or np.any((given < 0) | (given >= n)):
        raise ValueError(f"{name} does not hold row numbers from 0 to {n - 1}: expected a list of rows, or a mask.")
    return np.asarray(given)
