"""The two halves of a translation through relative codes: one knows the source's anchors, one the target's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from relatent import anchors as choose
from relatent._array import (
    Array,
    as_matrix,
    like,
    suggest,
    to_numpy,
)
from relatent._linalg import Conditioning, conditioning, pseudo_inverse, unit_norm
from relatent._saved import Saved, read_saved, understood, write_saved
from relatent.spaces.normalize import Normalizer, live_dimensions

__all__ = ["CodedMap", "CodedTransformer", "RelativeDecoder", "RelativeEncoder", "check_width"]

Half = TypeVar("Half", "RelativeEncoder", "RelativeDecoder")

CODES = {"dual": "center", "cosine": "center+l2"}
"""What a code is, and how vectors are prepared for it unless told otherwise."""


@dataclass(frozen=True)
class CodedMap:
    """x ↦ after(before(x) @ matrix): what each half does to rows, and what both together do."""

    matrix: np.ndarray
    before: Normalizer | None = None
    """Of the source: absent where codes are given."""
    after: Normalizer | None = None
    """Of the target, undone: absent where codes are wanted."""
    rescale: bool = False
    """Give decoded rows the length that the target's anchors have, if lengths are dropped."""

    def __call__(self, x: Array) -> Array:
        """Map checked rows."""
        if self.before is not None:
            x = self.before.applied(x)
        y = x @ like(self.matrix, x)
        if self.after is None:
            return y
        return self.after.undone(unit_norm(y) if self.rescale and self.after.unit else y)

    @property
    def dims_in(self) -> int:
        """Coordinates of the input."""
        return int(self.matrix.shape[0])


class CodedTransformer(TransformerMixin, BaseEstimator):
    """What the halves and the two together share: once fitted they are one map."""

    map_: CodedMap

    def transform(self, X: Array) -> Array:
        """Map rows of the fitted space."""
        check_is_fitted(self)
        x = as_matrix(X, "X")
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.map_(x)

    @property
    def matrix_(self) -> np.ndarray:
        """The matrix that normalised rows, or codes, are multiplied by."""
        return self.map_.matrix


class RelativeEncoder(CodedTransformer):
    r"""The half that knows the source's anchors: vectors become codes that any matching decoder reads.

    ``codes="dual"`` gives, on vectors centred by the anchors' mean,

    .. math:: \alpha(x) = x\,(X^\top X + \lambda I)^{-1} X^\top

    with λ = ``ridge`` × the mean eigenvalue of XᵀX: the ridge-regression weights of the anchors. Decoding is then the
    plain product αY, so encoder and decoder together are exactly ridge regression from source to target, though neither
    side sees the other's vectors. The inverse sits on the encoding side, where the noise is not. Dual codes are
    the Mahalanobis relative representation up to a factor, and at λ = 0 unchanged by every invertible affine map.

    ``codes="cosine"`` gives the relative representation of the paper: cosines of centred vectors. ``delta`` and
    ``omega`` then choose, on these anchors, the pruned subspaces that the decoder should use (``subspaces_``).

    ``ridge=None`` means 1 below 2d anchors and 0.1 from there on, as good as can be told without seeing pairs.
    The fitted encoder, and its file, hold the anchors in effect: share it as you would share them.

    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> RelativeEncoder().fit(x).transform(x[:2]).shape
    (2, 20)
    """

    kind: ClassVar[str] = "relative_encoder"

    def __init__(
        self,
        codes: str = "dual",
        *,
        normalize: str | None = None,
        ridge: float | None = None,
        delta: float = 0.0,
        omega: int = 1,
        seed: int | np.random.Generator | None = 0,
    ) -> None:
        self.codes = codes
        self.normalize = normalize
        self.ridge = ridge
        self.delta = delta
        self.omega = omega
        self.seed = seed

    def fit(self, anchors: Array, y: Any = None) -> Self:
        """Learn the codes of a space from its anchors."""
        raw, normalizer, a = _prepare(self, anchors)
        validate_data(self, anchors, reset=True, skip_check_array=True)
        k, d = a.shape
        self.conditioning_ = conditioning(a)
        self.subspaces_ = choose.subspaces(a, self.omega, self.delta, self.seed)
        if self.codes == "dual":
            self.ridge_ = (1.0 if k < 2 * d else 0.1) if self.ridge is None else self.ridge
            matrix = pseudo_inverse(a, ridge=self.ridge_)
        else:
            self.ridge_, matrix = 0.0, a.T
        self.map_ = CodedMap(matrix.astype(raw.dtype), before=normalizer)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file. It holds the anchors in effect."""
        check_is_fitted(self)
        rows = {f"subspace.{i}": s.astype(np.int64) for i, s in enumerate(self.subspaces_)}
        _save_half(self, path, rows, {"ridge": self.ridge_})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote."""
        encoder, normalizer, saved = _load_half(cls, path)
        with understood(path):
            encoder.map_ = CodedMap(saved.arrays["matrix"], before=normalizer)
            encoder.ridge_ = float(saved.about["ridge"])
        encoder.n_features_in_ = encoder.matrix_.shape[0]
        names = sorted((n for n in saved.arrays if n.startswith("subspace.")), key=lambda n: int(n.split(".")[1]))
        encoder.subspaces_ = [saved.arrays[n] for n in names]
        return encoder


class RelativeDecoder(CodedTransformer):
    r"""The half that knows the target's anchors: codes of any matching encoder become vectors.

    ``codes="dual"`` gives αY plus the mean. ``codes="cosine"`` inverts the relative projection on each subspace and
    averages, which is one matrix:

    .. math:: D = \frac1\omega \sum_i E_{S_i} (Y_{S_i}^\top)^+ \qquad \hat Y = R D

    then, because averages shrink, scales the rows to the anchors' mean length (unless ``rescale=False``) and adds
    the mean. ``subspaces`` are lists of anchor numbers, best those of the encoder (``encoder.subspaces_``); without
    any, all anchors are inverted at once. ``rtol`` and ``ridge`` as in :func:`inverse_relative_projection`.
    Coordinates in which the anchors do not vary get their mean.

    >>> y = np.random.default_rng(0).normal(size=(20, 3))
    >>> codes = RelativeEncoder("cosine").fit(y).transform(y)
    >>> back = RelativeDecoder("cosine", rescale=False).fit(y).transform(codes)
    >>> bool(np.allclose(unit_norm(back - y.mean(0)), unit_norm(y - y.mean(0))))
    True
    """

    kind: ClassVar[str] = "relative_decoder"

    def __init__(
        self,
        codes: str = "dual",
        *,
        normalize: str | None = None,
        subspaces: Sequence[np.ndarray] | None = None,
        rtol: float | None = None,
        ridge: float = 0.0,
        rescale: bool = True,
    ) -> None:
        self.codes = codes
        self.normalize = normalize
        self.subspaces = subspaces
        self.rtol = rtol
        self.ridge = ridge
        self.rescale = rescale

    def fit(self, anchors: Array, y: Any = None) -> Self:
        """Learn to decode into a space from its anchors."""
        raw, normalizer, a = _prepare(self, anchors)
        self.n_features_in_ = len(a)
        kept = [np.arange(len(a))] if self.subspaces is None else list(self.subspaces)
        _check_subspaces(kept, len(a))
        self.conditioning_ = max((conditioning(a[rows]) for rows in kept), key=lambda c: c.condition_number)
        matrix = a if self.codes == "dual" else self._inverse(a, kept)
        live = live_dimensions(np.std(raw, axis=0))
        matrix = np.where(live, matrix, 0.0).astype(raw.dtype)
        self.map_ = CodedMap(matrix, after=normalizer, rescale=self.rescale)
        return self

    def transform(self, X: Array) -> Array:
        """Decode codes into vectors of the target."""
        check_is_fitted(self)
        codes = as_matrix(X, "codes")
        check_width(codes, self.n_features_in_)
        return self.map_(codes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file. It holds the anchors in effect."""
        check_is_fitted(self)
        _save_half(self, path, {}, {"rescale": self.rescale})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote."""
        decoder, normalizer, saved = _load_half(cls, path)
        with understood(path):
            decoder.rescale = bool(saved.about["rescale"])
            decoder.map_ = CodedMap(saved.arrays["matrix"], after=normalizer, rescale=decoder.rescale)
        decoder.n_features_in_ = decoder.matrix_.shape[0]
        return decoder

    def _inverse(self, a: np.ndarray, kept: list[np.ndarray]) -> np.ndarray:
        matrix = np.zeros(a.shape)
        for rows in kept:
            matrix[rows] += pseudo_inverse(a[rows].T, self.rtol, self.ridge) / len(kept)
        return matrix


def _prepare(half: Any, anchors: Array) -> tuple[np.ndarray, Normalizer, np.ndarray]:
    """Check what both halves check, and normalise the anchors in float64."""
    if half.codes not in CODES:
        raise ValueError(f"There are no codes {half.codes!r}.{suggest(half.codes, CODES)}")
    raw = to_numpy(as_matrix(anchors, "anchors"))
    normalizer = Normalizer.fit(raw, half.normalize or CODES[half.codes])
    a = normalizer.apply(raw.astype(np.float64))
    if not np.any(a):
        raise ValueError(
            f"All anchors are the same vector (n_samples={len(a)}): at least two different ones are needed."
        )
    return raw, normalizer, a


def _save_half(half: Any, path: str | os.PathLike[str], arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    normalizer = half.map_.before or half.map_.after  # a half has one of the two
    condition = asdict(half.conditioning_)
    if np.isinf(condition["condition_number"]):  # JSON has no infinity
        condition["condition_number"] = None
    about = {"codes": half.codes, "normalizer": normalizer.about(), "conditioning": condition, **about}
    write_saved(path, Saved(half.kind, {"matrix": half.matrix_, **normalizer.arrays(), **arrays}, about))


def _load_half(cls: type[Half], path: str | os.PathLike[str]) -> tuple[Half, Normalizer, Saved]:
    saved = read_saved(path, cls.kind)
    with understood(path):
        half = cls(saved.about["codes"], normalize=saved.about["normalizer"]["name"])
        normalizer = Normalizer.from_saved(saved.arrays, saved.about["normalizer"])
        condition = saved.about["conditioning"]
        condition["condition_number"] = condition["condition_number"] or float("inf")
        half.conditioning_ = Conditioning(**condition)
    return half, normalizer, saved


def _check_subspaces(subspaces: list[np.ndarray], k: int) -> None:
    if not subspaces or any(len(rows) == 0 or np.min(rows) < 0 or np.max(rows) >= k for rows in subspaces):
        raise ValueError(
            f"subspaces does not fit {k} anchors: expected at least one list of numbers from 0 to {k - 1}. "
            "Fit encoder and decoder on parallel anchors."
        )


def check_width(codes: Array, k: int) -> None:
    """Check that codes have one column per anchor."""
    if codes.shape[1] != k:
        raise ValueError(f"codes has shape {tuple(codes.shape)}: expected {k} columns, one column per anchor.")
