"""The protocol of a stitching matrix: the split of the rows, the methods and the metric, checked before any work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from relatent._array import check_count, random_generator, suggest, to_numpy
from relatent.project import RelativeProjection, RelativeTranslator
from relatent.translate import Translator
from relatent.translate.maps import MAPS

__all__ = ["METHODS", "METRICS", "Split", "check_names", "find_methods", "find_metric", "kind_of", "kinds"]

METHODS = ("absolute", "relative", "orthogonal", "least_squares", "stitching", "inverse_relative", "dual_codes")
"""Ways to stitch that are tried unless others are named."""

METRICS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "accuracy": ("accuracy_score", {}, True),
    "weighted F1": ("f1_score", {"average": "weighted", "zero_division": 0.0}, True),
    "MSE": ("mean_squared_error", {}, False),
}
"""Metrics by name: the function of scikit-learn, its options, and whether larger is better."""

TEST_SHARE = 0.2


@dataclass(frozen=True)
class Split:
    """Which rows translators are fitted on, which decoders are trained on, and which are held out for the score."""

    anchors: np.ndarray
    train: np.ndarray
    test: np.ndarray

    @staticmethod
    def draw(n: int, anchors: Any, train: Any, test: Any, seed: int) -> Split:
        """Take what is given, draw what is not, and refuse test rows that something is fitted on."""
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
                    "since a score on rows that were learned from says nothing. Leave them out of one."
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
        from sklearn import metrics  # large, and few that stitch need it

        function, options, better = METRICS[metric]
        return partial(getattr(metrics, function), **options), metric, better
    name = getattr(metric, "__name__", type(metric).__name__)
    return metric, name, True if larger is None else larger


def check_names(spaces: Mapping[str, Any], decoders: Any) -> None:
    """Refuse what cannot be a set of decoders for these spaces."""
    if len(spaces) < 2:
        raise ValueError(f"{len(spaces)} spaces were given: expected at least 2 to stitch.")
    if isinstance(decoders, type) or not (
        isinstance(decoders, Mapping) or hasattr(decoders, "fit") or callable(decoders)
    ):
        raise TypeError(
            f"decoders is {decoders!r}: expected an unfitted scikit-learn estimator, a function fit(x, labels) that "
            "gives a decoder, or a mapping from names of spaces to fitted decoders."
        )
    strange = [name for name in decoders if name not in spaces] if isinstance(decoders, Mapping) else []
    if strange:
        raise ValueError(
            f"The decoder {strange[0]!r} has no space of its name: name each after the space it was trained on."
            f"{suggest(strange[0], spaces)}"
        )


def _row_numbers(rows: Any, n: int, name: str) -> np.ndarray:
    given = to_numpy(rows)
    if given.dtype == bool and given.shape == (n,):
        return np.flatnonzero(given)
    whole = given.ndim == 1 and len(given) > 0 and given.dtype.kind in "iu"
    if not whole or np.any((given < 0) | (given >= n)):
        raise ValueError(f"{name} does not hold row numbers from 0 to {n - 1}: expected a list of rows, or a mask.")
    return np.asarray(given)
