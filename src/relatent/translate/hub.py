"""A hub: many spaces, one shared space, one map for each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils._set_output import (
    _SetOutputMixin,  # TransformerMixin brings fit_transform, and many spaces have none
)

from relatent import anchors as choose
from relatent._array import Array, as_matrix, random_generator, suggest, to_numpy
from relatent._estimator import all_or_nothing
from relatent._linalg import polar, spectrum, unit_norm
from relatent._saved import Saved, read_saved, understood, write_saved
from relatent.evaluate.retrieval import mean_reciprocal_rank
from relatent.spaces.join import align
from relatent.spaces.normalize import Normalizer
from relatent.spaces.space import Space
from relatent.steps import Map
from relatent.summary import summarize
from relatent.translate.directions import CanonicalDirection, canonical
from relatent.translate.maps import Affine, fold, ridge
from relatent.translate.pairs import Frame
from relatent.translate.ridge import RidgePath

HubGoal = Literal["vectors", "retrieval"]
GOALS: tuple[str, ...] = get_args(HubGoal)
PREPARATION = {"vectors": "iso", "retrieval": "center+l2"}
PENALTIES = (0.01, 0.1, 0.3, 1.0, 3.0)
# Rounds of the generalized Procrustes iteration, and the relative change at which it has converged.
ROUNDS, CONVERGED = 100, 1e-10
FOLDS = 3


@dataclass(frozen=True)
class Spoke:
    """The maps of one space into the hub and out of it."""

    into: Map
    out: Map


class Hub(ClassNamePrefixFeaturesOutMixin, _SetOutputMixin, BaseEstimator):
    r"""Bring many spaces into one, from common anchors: N maps instead of N².

    With normalized anchors :math:`X_i` (n, dᵢ) of space i, the hub is one code per anchor, Z (n, h), and each space is
    tied to Z alone. A space added later therefore changes no other.

    ``goal="vectors"``: generalized Procrustes,
    :math:`\min \sum_i \lVert X_i Q_i - Z \rVert^2` over semi-orthogonal :math:`Q_i`, Z being the mean of all
    :math:`X_i Q_i`. The hub is as wide as the widest space; equal geometry is recovered exactly, and the map back is
    the transpose.

    ``goal="retrieval"``: regularized generalized canonical correlations (MAXVAR),
    :math:`\min \sum_i \lVert X_i W_i - Z \rVert^2 + \lambda_i \lVert W_i \rVert^2` with :math:`Z^\top Z = I`: Z holds
    the leading eigenvectors of :math:`\sum_i X_i (X_i^\top X_i + \lambda_i I)^{-1} X_i^\top`, each weighted by the root
    of its eigenvalue, that is of how far the spaces agree on it. Compare ``hub.transform(x, "a")`` with
    ``hub.transform(y, "b")`` by cosine. The map back is a ridge from Z.
    λ, in units of the mean eigenvalue, is chosen out of fold if not given.

    Unchanged by rotating, rescaling or shifting any of the spaces. What breaks it: few anchors (a pair of spaces with
    many is better served by a :class:`~relatent.Translator`), and spaces that share nothing with the others. With fewer
    anchors than coordinates all is computed in the span of the anchors, and the hub is as wide as that.

    References: Gower, Psychometrika 40, 1975; Kettenring, Biometrika 58, 1971; Rastogi, Van Durme & Arora, NAACL 2015.

    >>> rng = np.random.default_rng(0)
    >>> a = rng.normal(size=(50, 4))
    >>> b, c = (3 * a @ np.linalg.qr(rng.normal(size=(4, 4)))[0] + 1 for _ in range(2))
    >>> hub = Hub().fit({"a": a, "b": b}).add("c", c)
    >>> hub, bool(np.allclose(hub.translate(b, "b", "c"), c))
    (Hub(vectors, 3 spaces, 4-d), True)
    """

    kind: ClassVar[str] = "hub"
    codes_: np.ndarray | None = None
    keys_: np.ndarray | None = None

    def __init__(self, goal: HubGoal = "vectors", *, penalty: float | None = None, seed: int = 0) -> None:
        self.goal = goal
        self.penalty = penalty
        self.seed = seed

    @all_or_nothing
    def fit(self, spaces: Mapping[str, Array | Space], y: Any = None) -> Self:
        """Learn from the anchors of each space, by name: row i means the same in all of them.

        Spaces with keys (:class:`relatent.Space`) are joined on them first, in the order of the first.
        """
        if self.goal not in GOALS:
            raise ValueError(f"There is no goal {self.goal!r}.{suggest(self.goal, GOALS)}")
        if len(spaces) < 2:
            raise ValueError(f"{len(spaces)} spaces were given: expected at least 2 to bring together.")
        aligned = align(spaces)
        if self.goal == "retrieval" and self.penalty is None and len(next(iter(aligned.vectors.values()))) < FOLDS:
            raise ValueError(
                f"There are fewer than {FOLDS} anchors: expected some to fit on and some to hold out, by which the "
                "penalty is chosen. Give more, or a penalty."
            )
        anchors = {name: _Anchors.of(name, x, PREPARATION[self.goal]) for name, x in aligned.vectors.items()}
        self.keys_ = aligned.keys
        if self.goal == "vectors":
            self.penalty_, self.codes_ = 0.0, _procrustes_codes([a.vectors for a in anchors.values()])
        else:
            self.penalty_ = self._best_penalty([*anchors.values()]) if self.penalty is None else self.penalty
            self.codes_ = _correlated_codes([*anchors.values()], self.penalty_)
        self.spokes_ = {name: self._spoke(a) for name, a in anchors.items()}
        return self

    def add(self, name: str, anchors: Array | Space) -> Self:
        """Tie one more space to the hub, by the same anchors in the same order. No other map changes.

        The anchors are found by their keys where the hub was fitted on keys and the space has them.
        """
        self._check_fitted()
        if name in self.spokes_:
            raise ValueError(f"The hub already has a space {name!r}: choose another name, or fit again.")
        if self.codes_ is None:
            raise ValueError(
                'This hub was saved without its anchors\' codes: save it with anchors="codes" to add to it.'
            )
        if isinstance(anchors, Space):
            keys = self.keys_ if anchors.has_keys else None
            anchors = anchors.vectors if keys is None else anchors.take(choose.by_keys(anchors, keys))
        x = as_matrix(anchors, name)
        if len(x) != len(self.codes_):
            raise ValueError(
                f"{name} has {len(x)} rows: expected the hub's {len(self.codes_)} anchors, in their order."
            )
        self.spokes_ = {**self.spokes_, name: self._spoke(_Anchors.of(name, x, PREPARATION[self.goal]))}
        return self

    def transform(self, x: Array, space: str) -> Array:
        """Bring vectors of a space into the hub."""
        return self._through(x, space, "into")

    def translate(self, x: Array, source: str, target: str) -> Array:
        """Translate vectors of one space into another, through the hub."""
        codes = self._through(x, source, "into")
        return self._through(codes, target, "out")

    def direction(self, directions: Mapping[str, Array], at: Mapping[str, Array] | None = None) -> CanonicalDirection:
        """Return what directions of several spaces, by name, have in common: in the hub, the mean of unit directions.

        It comes with a leave-one-out score of each, and in the coordinates of every space of the hub, so that a concept
        found in some models is found in one that was added later. With ``goal="retrieval"``, whose rows have unit
        length, ``at`` gives rows of each space to average its Jacobian over (``Translator.direction``).

        References: Kim & Han, 2026 (arXiv 2605.09875), who average in relative coordinates.

        >>> a = np.random.default_rng(0).normal(size=(50, 4))
        >>> c = Hub().fit({"a": a, "b": -a}).direction({"a": np.eye(4)[0], "b": -np.eye(4)[0]})
        >>> round(c.scores["a"], 6), bool(np.allclose(c.moved["b"], -np.eye(4)[0]))
        (1.0, True)
        """
        self._check_fitted()
        return canonical(self.spokes_, directions, at or {})

    def save(self, path: str | os.PathLike[str], *, anchors: str = "none", overwrite: bool = False) -> None:
        """Write one safetensors file with all maps. ``anchors="codes"`` adds what :meth:`add` needs.

        The codes are the anchors as the hub sees them: data of the spaces, hence only written when asked for.
        """
        self._check_fitted()
        if anchors not in ("none", "codes"):
            raise ValueError(f"anchors is {anchors!r}: there is no such choice.{suggest(anchors, ('none', 'codes'))}")
        arrays: dict[str, np.ndarray] = {}
        about: dict[str, Any] = {"parameters": self.get_params(), "penalty": self.penalty_, "spaces": {}}
        for i, (name, spoke) in enumerate(self.spokes_.items()):
            arrays |= spoke.into.arrays(f"{i}.into.") | spoke.out.arrays(f"{i}.out.")
            about["spaces"][name] = {"number": i, "into": spoke.into.about(), "out": spoke.out.about()}
        if anchors == "codes" and self.codes_ is not None:
            arrays["codes"] = self.codes_
            about["keys"] = None if self.keys_ is None else self.keys_.tolist()
        write_saved(path, Saved(self.kind, arrays, about), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote."""
        saved = read_saved(path, cls.kind)
        with understood(path):
            hub = cls(**saved.about["parameters"])
            hub.penalty_, hub.codes_ = float(saved.about["penalty"]), saved.arrays.get("codes")
            hub.keys_ = None if saved.about.get("keys") is None else np.asarray(saved.about["keys"])
            hub.spokes_ = {}
            for name, space in sorted(saved.about["spaces"].items(), key=lambda item: int(item[1]["number"])):
                maps = (Map.from_saved(saved.arrays, space[w], f"{space['number']}.{w}.") for w in ("into", "out"))
                hub.spokes_[name] = Spoke(*maps)
        return hub

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "spokes_")

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that spaces are given by name, not as one matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.dict = False, True
        return tags

    def __repr__(self) -> str:
        if not hasattr(self, "spokes_"):
            return str(super().__repr__())
        return f"Hub({self.goal}, {len(self.spokes_)} spaces, {self._n_features_out}-d)"

    @property
    def _n_features_out(self) -> int:
        return next(iter(self.spokes_.values())).into.width

    def _spoke(self, anchors: _Anchors) -> Spoke:
        """Tie anchors of one space to their codes."""
        assert self.codes_ is not None
        x = anchors.vectors
        if self.goal == "vectors":
            turn = polar(x.T @ self.codes_)
            into, out = Affine.linear(turn), Affine.linear(turn.T)
        else:
            into = ridge(summarize(x, self.codes_, full_y=False), anchors.penalty(self.penalty_))
            out = ridge(summarize(self.codes_, x, full_y=False))
        dtype, unchanged = anchors.given.dtype, Frame(Normalizer.fit(self.codes_, "none"))
        back = fold(out, unchanged, anchors.frame, dtype=dtype).guarded(*anchors.spread)
        return Spoke(fold(into, anchors.frame, None, dtype=dtype), back)

    def _best_penalty(self, spaces: list[_Anchors]) -> float:
        """Choose the penalty that ranks held-out anchors best, over all pairs of spaces."""
        fold = random_generator(self.seed).permutation(len(spaces[0].vectors)) % FOLDS
        scores = dict.fromkeys(PENALTIES, 0.0)
        for i in range(FOLDS):
            rest = [replace(a, vectors=a.vectors[fold != i]) for a in spaces]
            for penalty in PENALTIES:
                codes = _correlated_codes(rest, penalty)
                maps = [ridge(summarize(a.vectors, codes, full_y=False), a.penalty(penalty)) for a in rest]
                held_out = [
                    unit_norm(a.vectors[fold == i] @ m.matrix + m.offset) for a, m in zip(spaces, maps, strict=True)
                ]
                scores[penalty] += sum(mean_reciprocal_rank(a, b) for a in held_out for b in held_out if a is not b)
        return max(scores, key=scores.__getitem__)

    def _through(self, x: Array, space: str, side: str) -> Array:
        self._check_fitted()
        if space not in self.spokes_:
            raise ValueError(f"The hub has no space {space!r}.{suggest(space, self.spokes_)}")
        x, folded = as_matrix(x), getattr(self.spokes_[space], side)
        if x.shape[1] != folded.dims_in:
            raise ValueError(f"x has shape {tuple(x.shape)}: expected {folded.dims_in} columns for space {space!r}.")
        return folded(x)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This Hub is not fitted yet: call fit with the anchors of each space first.")


@dataclass(frozen=True, eq=False)
class _Anchors:
    """Anchors of one space as given, and in the coordinates that the hub solves in."""

    given: np.ndarray
    frame: Frame
    vectors: np.ndarray

    @staticmethod
    def of(name: str, given: Array, preparation: str) -> _Anchors:
        """Normalize anchors, and turn them into their span if that is smaller than the space."""
        x = to_numpy(given)
        if len(x) < 2 or not np.any(x != x[0]):
            raise ValueError(f"{name} has {len(x)} anchors that do not differ: give at least two different ones.")
        frame = Frame.of(x, preparation, spanned=len(x) < x.shape[1])
        return _Anchors(x, frame, frame.apply(x))

    @property
    def spread(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the coordinates."""
        wide = self.given.astype(np.float64, copy=False)
        return np.mean(wide, axis=0), np.std(wide, axis=0)

    def penalty(self, penalty: float) -> float:
        """Return a penalty in mean eigenvalues of the space in those of the span, which has fewer to average."""
        return penalty * int(self.vectors.shape[1]) / int(self.given.shape[1])


def _procrustes_codes(spaces: list[np.ndarray]) -> np.ndarray:
    """Turn the spaces onto their mean, in turns, starting from the widest."""
    codes = max(spaces, key=lambda x: x.shape[1])
    for _ in range(ROUNDS):
        mean = np.mean([x @ polar(x.T @ codes) for x in spaces], axis=0)
        change = np.linalg.norm(mean - codes)
        codes = mean
        if change < CONVERGED * np.linalg.norm(codes):
            break
    return np.asarray(codes)


def _correlated_codes(spaces: list[_Anchors], penalty: float) -> np.ndarray:
    """Return the directions that the spaces agree on most, scaled by the root of how far they do."""
    stacked = np.concatenate([_whitened(a.vectors, a.penalty(penalty)) for a in spaces], axis=1)
    width = max(a.vectors.shape[1] for a in spaces)
    if stacked.shape[1] <= len(stacked):
        values, vectors = spectrum(stacked.T @ stacked)
        return np.asarray((stacked @ vectors)[:, ::-1][:, :width])
    values, vectors = spectrum(stacked @ stacked.T)
    return np.asarray((vectors * np.sqrt(values))[:, ::-1][:, :width])


def _whitened(x: np.ndarray, penalty: float) -> np.ndarray:
    """X (XᵀX + λI)^-½ about the mean, in the basis of the eigenvectors."""
    x = x - np.mean(x, axis=0)
    path = RidgePath.of(summarize(x, x[:, :1], full_y=False))
    return np.asarray(x @ (path.vectors / np.sqrt(path.values + penalty * path.unit)))
