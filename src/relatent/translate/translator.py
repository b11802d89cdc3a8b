"""The translator: fitted on parallel anchors, applied as one affine map."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from relatent._array import Array, as_matrix, as_parallel, like, suggest, to_numpy
from relatent._linalg import pseudo_inverse
from relatent._saved import Saved, read_saved, understood, write_saved
from relatent.evaluate.fidelity import r2
from relatent.evaluate.retrieval import mrr
from relatent.spaces.join import parallel
from relatent.spaces.keys import key_hashes
from relatent.spaces.normalize import NORMALIZATIONS, live_dimensions
from relatent.spaces.space import Space
from relatent.translate.endpoints import Endpoints
from relatent.translate.folded import FoldedMap, fold
from relatent.translate.maps import RidgePath, find_map
from relatent.translate.quality import Quality, expected_quality
from relatent.translate.sample import Reservoir
from relatent.translate.selection import (
    Prepared,
    Selection,
    best_penalty,
    for_frozen_target,
    for_retrieval,
    for_stitching,
    for_vectors,
)
from relatent.translate.stream import PairStream

__all__ = ["GOALS", "Translator"]

GOALS = ("vectors", "retrieval", "stitching")


class Translator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Translate vectors of one space into another, from parallel anchors.

    Parameters
    ----------
    goal : "vectors", "retrieval" or "stitching"
        What the translation is for. "vectors" comes closest to the target's own vectors. "retrieval" ranks best:
        compare ``t.transform(queries)`` with ``t.transform_target(index)`` by inner product. "stitching" feeds a head
        that was trained on the target.
    map : "auto" or the name of a map
        "auto" is the best known for the goal (:mod:`relatent.translate.selection`); otherwise a rule of
        :mod:`relatent.translate.maps`. The papers' settings are ``map="orthogonal", normalize="standard"`` and so on.
    normalize : name
        Preparation of both sides (:class:`relatent.spaces.Normalizer`), fitted on the anchors and undone on the
        target side. With ``partial_fit``, unit rows take their mean and length from the first chunk.
    penalty : float or None
        Ridge penalty in units of the mean eigenvalue, for the maps that take one; None chooses it. With ``"auto"``,
        a penalty also asks for a plain ridge, without nonlinear features.
    rank : int or None
        Rank of ``map="low_rank"``.
    frozen_target : bool
        For retrieval when the index cannot be touched: translates queries into the target's own space, by the map
        that ranks held-out anchors best under the cosine. ``transform_target`` then changes nothing.
    reservoir : int
        Pairs kept, drawn at random from all that stream by, for what cannot be chosen from sums. ``fit`` keeps arrays
        of up to four times as many rows alive instead of copying out of them.

    Attributes
    ----------
    matrix_, offset_ : the affine map, normalisations folded in
    selection_ : what "auto" chose, by which criterion, and the runner-up
    seen_keys_ : numbers of the keys fitted on (:func:`relatent.spaces.key_hashes`), empty for bare arrays
    n_pairs_, n_features_in_

    References: Maiorca et al., NeurIPS 2023 (latent space translation).

    >>> rng = np.random.default_rng(0)
    >>> x, q = rng.normal(size=(100, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    >>> t = Translator(map="orthogonal").fit(x, 3 * x @ q + 1)
    >>> bool(np.allclose(t.transform(x), 3 * x @ q + 1))
    True
    """

    kind: ClassVar[str] = "translator"
    target_map_: FoldedMap | None = None
    selection_: Selection | None = None

    def __init__(
        self,
        goal: str = "vectors",
        map: str = "auto",
        normalize: str = "iso",
        *,
        penalty: float | None = None,
        rank: int | None = None,
        frozen_target: bool = False,
        reservoir: int = 10_000,
        seed: int = 0,
    ) -> None:
        self.goal = goal
        self.map = map
        self.normalize = normalize
        self.penalty = penalty
        self.rank = rank
        self.frozen_target = frozen_target
        self.reservoir = reservoir
        self.seed = seed

    def fit(self, X: Array | Space, y: Array | Space, sample_weight: Array | None = None) -> Self:
        """Learn from parallel anchors: row i of X and row i of y, the target's vectors, mean the same.

        Two spaces (:class:`relatent.Space`) are joined on their keys first, and their fingerprints remembered.
        """
        self._forget()
        return self._take(X, y, sample_weight, lasting=True).finish()

    def partial_fit(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """Learn from one more chunk of parallel anchors; the translator is ready after each."""
        return self.accumulate(X, y, sample_weight).finish()

    def accumulate(self, X: Array, y: Array, sample_weight: Array | None = None) -> Self:
        """Take in one more chunk without solving; call :meth:`finish` after the last."""
        return self._take(X, y, sample_weight, lasting=False)

    def _take(self, X: Array, y: Array, sample_weight: Array | None, *, lasting: bool) -> Self:
        """Add a chunk to the sums and to the sample; a chunk that will not last is copied as far as it is kept."""
        self._check_parameters()
        first = not hasattr(self, "streams_")
        if isinstance(X, Space) and isinstance(y, Space):
            joins, joined = Endpoints.of(X, y), parallel(X, y)
            seen = key_hashes(joined.keys)
            X, y = joined
        else:
            joins, seen = None, np.empty(0, dtype=np.uint64)
        x, y = as_parallel(X=X, Y=_refuse_labels(y))
        validate_data(self, X, reset=first, skip_check_array=True)
        if first:
            self.endpoints_ = joins or Endpoints.of(to_numpy(x), to_numpy(y))
            self.streams_ = {name: PairStream(name) for name in self._preparations()}
            self.pairs_ = Reservoir(self.reservoir, self.seed)
            self.seen_keys_ = np.empty(0, dtype=np.uint64)
            self.n_pairs_, self._dtype = 0, np.result_type(to_numpy(x[:1, :]), to_numpy(y[:1, :]))
        for stream in self.streams_.values():
            stream.take(x, y, sample_weight, *self._needs())
        self.pairs_.take(*_with_weight(x, y, sample_weight), lasting=lasting)
        self.seen_keys_ = np.union1d(self.seen_keys_, seen)
        self.n_pairs_ += x.shape[0]
        return self

    def finish(self) -> Self:
        """Solve for the map from everything taken in so far."""
        if not hasattr(self, "streams_"):
            raise NotFittedError("There is nothing to solve yet: call fit, or accumulate and then finish.")
        if self.n_pairs_ < 2:
            raise ValueError(
                "n_samples=1: one pair of anchors cannot show how two spaces relate. Give at least 2, and "
                "for a good translation about as many as the spaces have coordinates."
            )
        prepared = {name: s.prepared(self.pairs_.sample) for name, s in self.streams_.items()}
        name = next(iter(prepared))
        if not np.any(prepared[name].summary.xx):
            raise ValueError(
                f"All {self.n_pairs_} source anchors are the same vector: give at least two different ones."
            )
        if self._two_sided:
            ratio, name, self.selection_ = for_retrieval(prepared, self.seed)
            p = prepared[name]
            self.map_ = fold(ratio.query, p.source, None, dtype=self._dtype)
            self.target_map_ = fold(ratio.target, p.target, None, dtype=self._dtype, bias=ratio.bias)
        else:
            self.map_, self.selection_ = self._solve(prepared[name])
            self.target_map_ = None
        return self

    def transform(self, X: Array | Space) -> Array | Space:
        """Translate vectors of the source. A space gives a space, if its fingerprint is that of the source."""
        if isinstance(X, Space):
            return self._translated(X, "source")
        x = self._checked(X)
        return self.map_(x)

    def transform_target(self, Y: Array | Space) -> Array | Space:
        """Prepare vectors of the target for comparison; changes them only if the goal is retrieval."""
        if isinstance(Y, Space):
            return self._translated(Y, "target")
        y = as_matrix(Y, "Y")
        self._check_fitted()
        if self.target_map_ is None:
            return y
        if y.shape[1] != self.target_map_.dims_in:
            raise ValueError(
                f"Y has shape {tuple(y.shape)}: expected {self.target_map_.dims_in} columns, as when fitted."
            )
        return self.target_map_(y)

    def accept(self, space: Space) -> Self:
        """Let a space pass whose fingerprint is not the one of the source or target. It is recorded, and saved."""
        self._check_fitted()
        self.endpoints_ = self.endpoints_.accepting(space.fingerprint)
        return self

    def inverse_transform(self, Y: Array) -> Array:
        """Translate back: exact for invertible maps, of least norm otherwise."""
        y = as_matrix(Y, "Y")
        self._check_fitted()
        m = self.map_
        if m.features is not None or self.target_map_ is not None:
            raise ValueError("This map has no inverse: fit a translator from the target to the source instead.")
        x = (y - like(m.offset, y)) @ like(pseudo_inverse(m.matrix.astype(np.float64)), y)
        return x if m.before is None else m.before.undo(x)

    def score(self, X: Array, y: Array) -> float:
        """R² of the translation; for retrieval the mean reciprocal rank (at 10) of row i of y for row i of X."""
        x, y = as_parallel(X=X, Y=y)
        if self.goal == "retrieval":
            metric = "cosine" if self.target_map_ is None else "inner"
            return mrr(self.transform(x), self.transform_target(y), min(10, x.shape[0]), metric)
        return float(r2(self.transform(x), y))

    def expected_quality(self, index: Array | None = None, *, seed: int = 0) -> Quality:
        """Predict recall, MRR and cosine on unseen items (:func:`relatent.translate.quality.expected_quality`)."""
        return expected_quality(self, index, seed=seed)

    @property
    def matrix_(self) -> np.ndarray:
        """The matrix that translates rows."""
        return self.map_.matrix

    @property
    def offset_(self) -> np.ndarray:
        """What is added to each translated row."""
        return self.map_.offset

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one safetensors file: the map and what is known about it. It holds no anchor vectors."""
        self._check_fitted()
        arrays = self.map_.arrays("map.") | {"seen_keys": self.seen_keys_}
        about: dict[str, Any] = {
            "parameters": self.get_params(),
            "map": self.map_.about(),
            "joins": self.endpoints_.about(),
            "dims": [self.n_features_in_, self.map_.width],
            "n_pairs": self.n_pairs_,
            "selection": None if self.selection_ is None else asdict(self.selection_),
        }
        if self.target_map_ is not None:
            arrays |= self.target_map_.arrays("target.")
            about["target"] = self.target_map_.about()
        write_saved(path, Saved(self.kind, arrays, about))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote: a translator that transforms, and has no pairs to learn on from."""
        saved = read_saved(path, cls.kind)
        with understood(path):
            about = saved.about
            t = cls(**about["parameters"])
            t.endpoints_, t.seen_keys_ = Endpoints.from_saved(about["joins"]), saved.arrays["seen_keys"]
            t.map_ = FoldedMap.from_saved(saved.arrays, about["map"], "map.")
            t.target_map_ = (
                FoldedMap.from_saved(saved.arrays, about["target"], "target.") if "target" in about else None
            )
            t.selection_ = None if about["selection"] is None else Selection(**about["selection"])
            t.n_pairs_, t.n_features_in_ = int(about["n_pairs"]), t.map_.dims_in
        return t

    def _solve(self, p: Prepared) -> tuple[FoldedMap, Selection | None]:
        selection, features = None, None
        if self.map != "auto":
            found = find_map(self.map)
            chosen = self.penalty is None and found.shrinks
            options = {
                "penalty": best_penalty(RidgePath.of(p.summary), p) if chosen else self.penalty,
                "rank": self.rank,
            }
            solved = found.rule(p.summary, **{k: v for k, v in options.items() if v is not None and k in found.options})
        elif self.goal == "retrieval":
            solved, selection = for_frozen_target(p, self.seed)
        elif self.goal == "stitching":
            solved, features, selection = for_stitching(p, self.penalty, self.seed)
        else:
            solved, features, selection = for_vectors(p, self.penalty, self.seed)
        folded = fold(solved, p.source, p.target, dtype=self._dtype, features=features)
        level, spread = self.streams_[self.normalize].target_statistics(p.sample)
        return folded.guarded(live_dimensions(spread), level), selection

    @property
    def _two_sided(self) -> bool:
        return self.goal == "retrieval" and self.map == "auto" and not self.frozen_target

    def _preparations(self) -> tuple[str, ...]:
        """Give the normalisations to sum under: a likelihood ratio tries two, the others do as they are told."""
        return ("iso", "center+l2") if self._two_sided else (self.normalize,)

    def _needs(self) -> tuple[bool, bool]:
        """Tell whether the full scatter of the source and of the target is needed."""
        if self.map == "auto":
            return True, self.goal == "retrieval"
        found = find_map(self.map)
        whitens = self.normalize == "whiten"
        return found.full_x or whitens, found.full_y or whitens

    def _check_parameters(self) -> None:
        for name, value, known in (
            ("goal", self.goal, GOALS),
            ("normalisation", self.normalize, NORMALIZATIONS),
        ):
            if value not in known:
                raise ValueError(f"There is no {name} {value!r}.{suggest(value, known)}")
        if self.map != "auto":
            find_map(self.map)
        if self.frozen_target and self.goal != "retrieval":
            raise ValueError(f'frozen_target is for goal="retrieval", and the goal is {self.goal!r}.')

    def _translated(self, space: Space, side: str) -> Space:
        self._check_fitted()
        self.endpoints_.check(space, side)
        transform = self.transform if side == "source" else self.transform_target
        vectors = transform(space.vectors)
        if side == "target" and self.target_map_ is None:
            return space
        keys = space.key_column()
        return Space(vectors, keys, space.name, self.endpoints_.outcome(vectors.shape[1]))

    def _checked(self, X: Array) -> Array:
        self._check_fitted()
        x = as_matrix(X, "X")
        if x.shape[1] != self.n_features_in_ or not isinstance(X, np.ndarray):
            validate_data(self, X, reset=False, skip_check_array=True)
        return x

    def _check_fitted(self) -> None:
        if not hasattr(self, "map_"):
            raise NotFittedError("This Translator is not fitted yet: call fit with parallel anchors first.")

    def _forget(self) -> None:
        for name in ("streams_", "pairs_", "map_", "target_map_", "selection_", "n_pairs_", "endpoints_", "seen_keys_"):
            self.__dict__.pop(name, None)

    @property
    def _n_features_out(self) -> int:
        return self.map_.width

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn."""
        return hasattr(self, "map_")

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that the target is needed, and is a matrix."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


def _refuse_labels(Y: Any) -> Any:
    """Class labels are no vectors, though a scikit-learn pipeline would pass them on to be fitted on."""
    if Y is None:
        raise ValueError("A Translator requires y to be passed, but the target y is None: give the target's vectors.")
    y = Y if hasattr(Y, "ndim") and hasattr(Y, "dtype") else np.asarray(Y)
    if y.ndim == 1 or "int" in str(y.dtype) or "bool" in str(y.dtype):
        raise ValueError(
            f"Y has shape {tuple(y.shape)} and dtype {y.dtype}, like class labels: expected the target's vectors, one "
            "float row per row of X. In a scikit-learn pipeline, fit the translator first and pass it in a "
            "sklearn.frozen.FrozenEstimator. For quantised vectors, convert them with Y.astype('float32')."
        )
    return Y


def _with_weight(x: Array, y: Array, weights: Array | None) -> tuple[np.ndarray, np.ndarray]:
    """Leave out the pairs of weight 0."""
    x, y = to_numpy(x), to_numpy(y)
    if weights is None:
        return x, y
    kept = to_numpy(weights) > 0
    return x[kept], y[kept]
