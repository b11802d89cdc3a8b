"""Relative representations of arrays, spaces and files: the estimator around the formula, and its codes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from relatent import anchors as choose
from relatent._array import Array, array_namespace, as_matrix, like, suggest, take_rows, to_numpy
from relatent._estimator import Transformer, all_or_nothing
from relatent._linalg import map_rows, unit_norm
from relatent.project.similarity import Similarity, angular, basis, cosine, inner, resolve
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.files import AnyPath
from relatent.spaces.io.mapping import map_space
from relatent.spaces.keys import key_hashes
from relatent.spaces.normalize import Normalizer
from relatent.spaces.space import Space

OUTPUTS = ("none", "l2", "layer")
# Mean cosine between anchors above which a raw cosine says more about the common offset than about the vectors.
OFF_CENTER = 0.25
# Preparations that the cosine, which drops norms, cannot tell from simpler ones.
SAME_COSINE = {"l2": "none", "center+l2": "center"}


class RelativeProjection(Transformer):
    """Relative projection as an estimator: anchors are fitted, samples are transformed.

    Parameters
    ----------
    similarity : name or function
        As in :func:`relatent.relative_projection`.
    normalize : name
        Preparation of samples and anchors, fitted on the anchors (:class:`relatent.spaces.Normalizer`). Centering is
        the default, because the cosine is not invariant to an offset and real encoders have one. "standard" is the
        batch-normalized relative projection with the anchors as the batch: the cosine is then unchanged when
        coordinates are permuted, shifted or rescaled one by one, and no longer when they are rotated.
    select : None, "uniform", "farthest_point", "kmeans" or "stratified"
        None: what is given to ``fit`` are the anchors. Otherwise ``fit`` is given a space and chooses ``n_anchors``
        rows of it, "stratified" by the labels given as y.
    output : "none", "l2" or "layer"
        Afterwards leave the rows, scale them to unit norm, or to mean 0 and variance 1 (LayerNorm).

    Attributes
    ----------
    anchors_, normalizer_, anchor_rows_ (None when the anchors were given), anchor_keys_ (None without keys)

    References: Moschella et al., ICLR 2023; García-Castellanos et al., 2024 (batch normalization).

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

    @all_or_nothing
    def fit(self, X: Array | Space, y: Any = None) -> Self:
        """Take X as the anchors, or choose them from X. The keys of a space tell later which anchors they were."""
        resolve(self.similarity)
        if self.output not in OUTPUTS:
            raise ValueError(f"output is {self.output!r}.{suggest(self.output, OUTPUTS)}")
        keys = X.keys if isinstance(X, Space) and X.has_keys else None
        X = X.vectors if isinstance(X, Space) else X
        x = as_matrix(X, "X")
        validate_data(self, X, reset=True, skip_check_array=True)
        self.anchor_rows_ = self._choose(x, y)
        self.anchors_ = x if self.anchor_rows_ is None else take_rows(x, self.anchor_rows_)
        self.anchor_keys_ = keys if keys is None or self.anchor_rows_ is None else keys[self.anchor_rows_]
        self.normalizer_ = Normalizer.fit(self.anchors_, self.normalize)
        self._check_directions()
        return self

    def transform(self, X: Array | Space) -> Array | Space:
        """Return the similarity of each row of X to every anchor. A space becomes a space with the same keys."""
        check_is_fitted(self)
        if isinstance(X, Space):
            return Space(self.transform(X.vectors), X.key_column(), X.name, self.fingerprint_)
        x = as_matrix(X, "X")
        validate_data(self, X, reset=False, skip_check_array=True)
        function = resolve(self.similarity)
        anchors = self.normalizer_.apply(like(self.anchors_, x))

        def relative(rows: Array) -> Array:
            return normalized_output(function(self.normalizer_.apply(rows), anchors), self.output)

        # One that is not row-wise may compare the samples with each other.
        return map_rows(relative, x, anchors.shape[0]) if getattr(function, "rowwise", False) else relative(x)

    @property
    def fingerprint_(self) -> Fingerprint:
        """The fingerprint of relative vectors: what they are, and a hash of the keys of the anchors if known."""
        name = self.similarity if isinstance(self.similarity, str) else getattr(self.similarity, "__name__", "custom")
        kind = name if self.output == "none" else f"{name} ({self.output})"
        return code_fingerprint(kind, len(self.anchors_), self.anchor_keys_, normalize=self.normalize)

    def __repr__(self) -> str:
        if not hasattr(self, "anchors_"):
            return str(super().__repr__())
        return f"RelativeProjection({self.similarity}, {self._n_features_out:,} anchors, {self.n_features_in_}-d)"

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
                'center, and raw cosines hardly tell its vectors apart. Use normalize="center".',
                stacklevel=3,
            )


def normalized_output(r: Array, output: str) -> Array:
    """Scale rows to unit norm ("l2"), or to mean 0 and variance 1 ("layer"); "none" leaves them."""
    xp = array_namespace(r)
    if output == "l2":
        return unit_norm(r)
    if output == "layer":
        r = r - xp.mean(r, axis=1, keepdims=True)
        return r / xp.sqrt(xp.mean(r**2, axis=1, keepdims=True) + 1e-5)
    return r


def sparse_codes(r: Array, top: int, power: float) -> Array:
    r"""Keep the largest similarities of every row, raise them to a power, and scale the row to norm 1.

    .. math:: c_j \propto \operatorname{sgn}(r_j)\,|r_j|^p \text{ if } r_j \text{ is among the largest, else } 0

    Ties at the last place all stay, so that the order of the anchors decides nothing. With all of them kept and
    power 1 it is r in unit rows. Unchanged when a row is multiplied by a positive number.

    References: Norelli et al., NeurIPS 2023, section 2.

    >>> sparse_codes(np.asarray([[0.6, 0.3, 0.1]]), top=2, power=2.0).round(3).tolist()
    [[0.97, 0.243, 0.0]]
    """
    xp = array_namespace(r)
    if top < r.shape[1]:
        r = xp.where(r >= _kth_largest(r, top), r, xp.zeros_like(r))
    size = xp.abs(r)
    largest = xp.max(size, axis=1, keepdims=True)  # a high power of small numbers would vanish
    size = (size / xp.where(largest == 0, xp.ones_like(largest), largest)) ** power
    return unit_norm(xp.sign(r) * size)


def _kth_largest(r: Array, k: int) -> Array:
    """Return the k-th largest entry of every row, as a column."""
    if isinstance(r, np.ndarray):
        return np.partition(r, r.shape[1] - k, axis=1)[:, r.shape[1] - k, None]
    if hasattr(r, "topk"):
        return r.topk(k, dim=1).values[:, -1:]
    return array_namespace(r).sort(r, axis=1)[:, r.shape[1] - k, None]


def code_fingerprint(
    kind: str, k: int, keys: Sequence[Any] | np.ndarray | None = None, *, normalize: str | None = None
) -> Fingerprint:
    """Return the fingerprint of codes over k anchors: their kind, and a hash of the anchors' keys in their order.

    Codes match if kind and keys do. Without keys only the kind and the number of anchors are known.

    >>> a, b = code_fingerprint("dual", 2, ["x", "y"]), code_fingerprint("dual", 2, ["y", "x"])
    >>> bool(a.matches(a)), bool(a.matches(b)), bool(a.matches(code_fingerprint("dual", 2)))
    (True, False, True)
    """
    if keys is not None and len(keys) != k:
        raise ValueError(f"There are {k} anchors and {len(keys)} keys: expected one key per anchor.")
    digest = None if keys is None else blake2b(key_hashes(keys).tobytes(), digest_size=8).hexdigest()
    return Fingerprint(
        dim=k,
        model=f"{kind} codes",
        revision=None if digest is None else f"anchors {digest}",
        normalization=None if normalize is None else SAME_COSINE.get(normalize, normalize),
    )


def project_space(
    space: Space,
    anchors: Sequence[Any] | np.ndarray,
    path: AnyPath,
    *,
    similarity: str = "cosine",
    normalize: str = "center",
    output: str = "none",
    overwrite: bool = False,
    progress: bool | None = None,
) -> Fingerprint:
    """Write the relative representation of a space: the similarity of every row to the anchors, named by key.

    Two spaces that are projected on anchors of the same keys, in the same order, can be compared as they are. The file
    records the kind of projection and a hash of these keys; what was projected on others is then told apart.
    """
    fitted = RelativeProjection(similarity, normalize=normalize, output=output).fit(_anchors(space, anchors))
    known = fitted.fingerprint_
    map_space(fitted.transform, space, path, known, overwrite=overwrite, progress=progress)
    return known


def _anchors(space: Space, keys: Sequence[Any] | np.ndarray) -> Space:
    """Find anchors by key, in the order given."""
    try:
        return Space(space.take(choose.by_keys(space, keys)), keys)
    except KeyError as error:
        raise ValueError(
            f"{error.args[0]} Expected anchors of the same items as {space.name or 'the space'}."
        ) from error
