"""Relative representations: describe a vector by its similarity to shared anchors."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from relatent import anchors as choose
from relatent._array import Array, array_namespace, as_matrix, as_same_space, like, suggest, take_rows, to_numpy
from relatent._linalg import unit_norm
from relatent.project.similarity import Similarity, angular, basis, cosine, inner, map_rows, resolve
from relatent.spaces.normalize import Normalizer

__all__ = ["OUTPUTS", "RelativeProjection", "normalized_output", "relative_projection"]

OUTPUTS = ("none", "l2", "layer")
# Mean cosine between anchors above which a raw cosine says more about the common offset than about the vectors.
OFF_CENTER = 0.25


def relative_projection(x: Array, anchors: Array, similarity: str | Similarity = "cosine") -> Array:
    r"""Describe each vector by its similarity to every anchor.

    .. math:: R_{ij} = \operatorname{sim}(x_i, a_j)

    ``similarity`` is a name (see :data:`relatent.project.similarity.SIMILARITIES`) or any function
    ``(x, anchors) → (n, k)``. With the cosine, the result is unchanged when both arguments are rotated, reflected or
    rescaled, and changed by an offset: center first, or use :class:`RelativeProjection`, which does.

    References: Moschella et al., ICLR 2023, section 3.1.

    >>> relative_projection(np.asarray([[3.0, 0.0]]), np.eye(2)).tolist()
    [[1.0, 0.0]]
    """
    function = resolve(similarity)
    x, anchors = as_same_space(x=x, anchors=anchors)
    return function(x, anchors)


class RelativeProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Relative projection as an estimator: anchors are fitted, samples are transformed.

    Parameters
    ----------
    similarity : name or function
        As in :func:`relative_projection`.
    normalize : name
        Preparation of samples and anchors, fitted on the anchors (:class:`relatent.spaces.Normalizer`). Centring is
        the default, because the cosine is not invariant to an offset and real encoders have one.
    select : None, "uniform", "farthest_point", "kmeans" or "stratified"
        None: what is given to ``fit`` are the anchors. Otherwise ``fit`` is given a space and chooses ``n_anchors``
        rows of it, "stratified" by the labels given as y.
    output : "none", "l2" or "layer"
        Afterwards leave the rows, scale them to unit length, or to mean 0 and variance 1 (LayerNorm).

    Attributes
    ----------
    anchors_, normalizer_, anchor_rows_ (None when the anchors were given)

    >>> x = np.random.default_rng(0).normal(size=(50, 8))
    >>> relative = RelativeProjection(select="kmeans", n_anchors=5).fit(x)
    >>> relative.transform(x).shape, len(relative.anchor_rows_)
    ((50, 5), 5)
    """

    def __init__(
        self,
        similarity: str | Similarity = "cosine",
        *,
        normalize: str = "center",
        select: str | None = None,
        n_anchors: int = 300,
        output: str = "none",
        seed: int | np.random.Generator | None = 0,
    ) -> None:
        self.similarity = similarity
        self.normalize = normalize
        self.select = select
        self.n_anchors = n_anchors
        self.output = output
        self.seed = seed

    def fit(self, X: Array, y: Any = None) -> Self:
        """Take X as the anchors, or choose them from X."""
        resolve(self.similarity)
        if self.output not in OUTPUTS:
            raise ValueError(f"output is {self.output!r}.{suggest(self.output, OUTPUTS)}")
        x = as_matrix(X, "X")
        validate_data(self, X, reset=True, skip_check_array=True)
        self.anchor_rows_ = self._choose(x, y)
        self.anchors_ = x if self.anchor_rows_ is None else take_rows(x, self.anchor_rows_)
        self.normalizer_ = Normalizer.fit(self.anchors_, self.normalize)
        self._check_directions()
        return self

    def transform(self, X: Array) -> Array:
        """Give the similarity of each row of X to every anchor."""
        check_is_fitted(self)
        x = as_matrix(X, "X")
        validate_data(self, X, reset=False, skip_check_array=True)
        function = resolve(self.similarity)
        anchors = self.normalizer_.apply(like(self.anchors_, x))
        if not getattr(function, "rowwise", False):  # it may compare the samples with each other
            return normalized_output(function(self.normalizer_.apply(x), anchors), self.output)
        return map_rows(
            lambda rows: normalized_output(function(self.normalizer_.apply(rows), anchors), self.output),
            x,
            anchors.shape[0],
        )

    @property
    def _n_features_out(self) -> int:
        return int(self.anchors_.shape[0])

    def _choose(self, x: Array, y: Any) -> np.ndarray | None:
        if self.select is None:
            return None
        if self.select == "stratified":
            if y is None:
                raise ValueError('select="stratified" needs the labels: call fit(X, labels).')
            if len(y) != x.shape[0]:
                raise ValueError(f"X has {x.shape[0]} rows and there are {len(y)} labels: expected one per row.")
            return choose.stratified(y, self.n_anchors, self.seed)
        strategies = {s.__name__: s for s in (choose.uniform, choose.farthest_point, choose.kmeans)}
        if self.select not in strategies:
            raise ValueError(
                f"There is no strategy {self.select!r}.{suggest(self.select, [*strategies, 'stratified'])}"
            )
        return strategies[self.select](x, self.n_anchors, self.seed)

    def _check_directions(self) -> None:
        """Refuse anchors that have no direction left, warn of those that all have the same."""
        if resolve(self.similarity) not in (cosine, inner, angular, basis):
            return
        directions = to_numpy(unit_norm(self.normalizer_.apply(self.anchors_)))
        if not np.any(directions):
            raise ValueError(
                f"Nothing is left of the anchors (n_samples={len(directions)}) after normalize={self.normalize!r}: "
                "at least two different ones are needed."
            )
        direction = np.mean(directions, axis=0)
        if resolve(self.similarity) is cosine and direction @ direction > OFF_CENTER:
            warnings.warn(
                f"The anchors have a mean cosine of {direction @ direction:.2f} with each other: the space is off "
                'centre, and raw cosines hardly tell its vectors apart. Use normalize="center".',
                stacklevel=3,
            )


def normalized_output(r: Array, output: str) -> Array:
    """Scale rows to unit length ("l2"), or to mean 0 and variance 1 ("layer"); "none" leaves them."""
    xp = array_namespace(r)
    if output == "l2":
        return unit_norm(r)
    if output == "layer":
        r = r - xp.mean(r, axis=1, keepdims=True)
        return r / xp.sqrt(xp.mean(r**2, axis=1, keepdims=True) + 1e-5)
    return r
