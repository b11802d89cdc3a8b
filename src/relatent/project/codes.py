"""Relative codes by two independent halves: one knows the source's anchors, the other the target's."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from relatent import anchors as choose
from relatent._array import Array, as_matrix, suggest, to_numpy
from relatent._estimator import Transformer, all_or_nothing
from relatent._linalg import Conditioning, conditioning, polar, pseudo_inverse, thin_svd, unit_norm
from relatent._saved import Saved, read_saved, understood, write_saved
from relatent.project.formulas import check_width
from relatent.project.relative import code_fingerprint
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.normalize import Normalizer, live_dimensions
from relatent.spaces.space import Space
from relatent.steps import Map

Half = TypeVar("Half", "RelativeEncoder", "RelativeDecoder")

CODES = {"dual": "center", "cosine": "center+l2", "parseval": "iso"}
"""The kinds of codes, and how vectors are prepared for each by default."""
Decoded = Literal["vectors", "retrieval"]
"""What codes are decoded into: reconstructions, or queries."""
GOALS: tuple[str, ...] = get_args(Decoded)
# Of queries: the penalty of the half whitening, in units of the mean eigenvalue of the target's anchors, and the share
# of their mean, relative to what makes scores distances.
WHITENING, MEAN_SHARE = 1.0, 0.25
# Factor by which a decoder may multiply noise, squared. Cosines of two encoders differ by .1 or more; beyond this,
# that noise comes out at three times the size of the unit vectors to decode.
MAX_NOISE = 1_000.0


class CodedTransformer(Transformer):
    """What the halves and the two together share: once fitted they are one map."""

    codes: str
    map_: Map

    def transform(self, X: Array | Space) -> Array | Space:
        """Map rows of the fitted space. A space becomes a space with the same keys."""
        check_is_fitted(self)
        if isinstance(X, Space):
            return Space(self.transform(X.vectors), X.key_column(), X.name, self._outcome())
        x = as_matrix(X, "X")
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.map_(x)

    @property
    def matrix_(self) -> np.ndarray:
        """The matrix that normalized rows, or codes, are multiplied by."""
        return self.map_.product

    def __repr__(self) -> str:
        if not hasattr(self, "map_"):
            return str(super().__repr__())
        return f"{type(self).__name__}({self.codes}, {self._described()})"

    @property
    def _n_features_out(self) -> int:
        return self.map_.width

    def _outcome(self) -> Fingerprint | None:
        """Return the fingerprint of what comes out, None where nothing but the width is known."""
        return None

    def _described(self) -> str:
        return f"{self.map_.dims_in} → {self.map_.width}"


class RelativeEncoder(CodedTransformer):
    r"""The half that knows the source's anchors: vectors become codes that any matching decoder reads.

    ``codes="dual"`` gives, on vectors centered by the anchors' mean,

    .. math:: \alpha(x) = x\,(X^\top X + \lambda I)^{-1} X^\top

    with λ = ``ridge`` × the mean eigenvalue of XᵀX: the ridge-regression weights of the anchors. Decoding is then the
    product αY, so encoder and decoder together are exactly ridge regression from source to target, though neither
    side sees the other's vectors. The inverse sits on the encoding side, where the noise is not. Dual codes are
    the Mahalanobis relative representation up to a factor, and at λ = 0 unchanged by every invertible affine map.

    ``codes="cosine"`` gives the relative representation of the paper: cosines of centered vectors. ``delta`` and
    ``omega`` then choose, on these anchors, the pruned subspaces that the decoder should use (``subspaces_``).

    ``codes="parseval"`` whitens the anchors as a frame, so that its condition number is 1,

    .. math:: F = X (X^\top X)^{-1/2}, \qquad \alpha(x) = x F^\top

    on vectors centered and divided by one number. Where the anchors span the space, FᵀF = I: codes keep all norms and
    angles, and are decoded by the transpose, in which noise does not grow. From one space into another, encoder and
    decoder are the whitened cross-covariance :math:`\Sigma_x^{-1/2} C \Sigma_y^{-1/2}` with the canonical correlations
    as singular values. Unchanged by rotation, one scale and an offset; other linear maps, which dual codes undo, are
    not undone.

    ``ridge=None`` means √(d/k) for k anchors. How noisy the target is cannot be told from this side, where leaving
    anchors out shows no noise at all; this follows from a relation that explains half of it, tempered on real encoders.
    The fitted encoder, and its file, hold the anchors in effect: share it as you would share them. With the keys of
    the anchors, codes of a :class:`~relatent.Space` carry a hash of them, and a decoder over other anchors refuses.

    References: Maiorca et al., 2024 (inverse relative projection); Fiorellino et al., arXiv 2507.17835 (Parseval frame
    equalizer).

    >>> x = np.random.default_rng(0).normal(size=(20, 3))
    >>> encoder = RelativeEncoder().fit(x)
    >>> encoder, encoder.transform(x[:2]).shape
    (RelativeEncoder(dual, 20 anchors, 3-d), (2, 20))
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

    @all_or_nothing
    def fit(self, anchors: Array | Space, y: Any = None, *, keys: Sequence[Any] | np.ndarray | None = None) -> Self:
        """Learn the codes of a space from its anchors. A space brings its own keys."""
        prepared = _Prepared.of(self, anchors, keys)
        validate_data(self, prepared.given, reset=True, skip_check_array=True)
        a, (k, d) = prepared.frame, prepared.vectors.shape
        self.conditioning_ = conditioning(a)
        self.subspaces_ = choose.subspaces(a, self.omega, self.delta, self.seed)
        if self.codes == "dual":
            self.ridge_ = (d / k) ** 0.5 if self.ridge is None else self.ridge
            matrix = pseudo_inverse(a, ridge=self.ridge_)
        else:
            self.ridge_, matrix = 0.0, a.T
        self.map_ = Map(matrix.astype(prepared.dtype), before=prepared.normalizer)
        self.fingerprint_ = prepared.fingerprint
        return self

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a safetensors file. It holds the anchors in effect."""
        check_is_fitted(self)
        rows = {f"subspace.{i}": s.astype(np.int64) for i, s in enumerate(self.subspaces_)}
        _save_half(self, path, rows, {"ridge": self.ridge_}, overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote."""
        encoder, normalizer, saved = _load_half(cls, path)
        with understood(path):
            encoder.map_ = Map(saved.arrays["matrix"], before=normalizer)
            encoder.ridge_ = float(saved.about["ridge"])
        encoder.n_features_in_ = encoder.map_.dims_in
        names = sorted((n for n in saved.arrays if n.startswith("subspace.")), key=lambda n: int(n.split(".")[1]))
        encoder.subspaces_ = [saved.arrays[n] for n in names]
        return encoder

    def _outcome(self) -> Fingerprint:
        return self.fingerprint_

    def _described(self) -> str:
        return f"{self.map_.width:,} anchors, {self.map_.dims_in}-d"


class RelativeDecoder(CodedTransformer):
    r"""The half that knows the target's anchors: codes of any matching encoder become vectors.

    ``codes="dual"`` gives αY plus the mean; ``codes="parseval"`` αF, with F the whitened frame of these anchors, in
    their scale and plus the mean. ``codes="cosine"`` inverts the relative projection on each subspace and averages,
    which is one matrix:

    .. math:: D = \frac1\omega \sum_i E_{S_i} (Y_{S_i}^\top)^+ \qquad \hat Y = R D

    then, because averages shrink, scales the rows to the anchors' mean norm (unless ``rescale=False``) and adds
    the mean. ``subspaces`` are lists of anchor rows, best those of the encoder (``encoder.subspaces_``); without
    any, all anchors are inverted at once. ``rtol`` and ``ridge`` as in :func:`inverse_relative_projection`.
    ``ridge=None`` is the published pseudo-inverse where subspaces are pruned; for all anchors, it damps by the mean
    eigenvalue of YᵀY (k/d in these units), because their pseudo-inverse amplifies noise without bound as k nears d. A
    warning is issued where noise would exceed what is decoded. Coordinates in which the anchors do not vary get their
    mean.

    ``goal="retrieval"``, of dual codes, gives queries instead of reconstructions: what to look up by cosine in an index
    of the target's own vectors. Directions in which all targets vary tell them apart least, so they are shrunk,

    .. math:: \hat q = \alpha\, Y (Y^\top Y + \lambda I)^{-1/2} + c\, m

    with Y the unit rows of the anchors, centered by their mean m, and λ the mean eigenvalue of YᵀY. A quarter of the
    multiple c of m that makes scores distances is added: it takes down targets that are near to many queries. All of it
    is known from the target's anchors alone.

    >>> from relatent._linalg import unit_norm
    >>> y = np.random.default_rng(0).normal(size=(20, 3))
    >>> codes = RelativeEncoder("cosine").fit(y).transform(y)
    >>> back = RelativeDecoder("cosine", rescale=False, ridge=0.0).fit(y).transform(codes)
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
        ridge: float | None = None,
        rescale: bool = True,
        goal: Decoded = "vectors",
    ) -> None:
        self.codes = codes
        self.normalize = normalize
        self.subspaces = subspaces
        self.rtol = rtol
        self.ridge = ridge
        self.rescale = rescale
        self.goal = goal

    @all_or_nothing
    def fit(self, anchors: Array | Space, y: Any = None, *, keys: Sequence[Any] | np.ndarray | None = None) -> Self:
        """Learn to decode into a space from its anchors, which must be those of the encoder, in the same order."""
        self._check_goal()
        prepared = _Prepared.of(self, anchors, keys)
        a = prepared.frame
        self.n_features_in_ = len(a)
        kept = [np.arange(len(a))] if self.subspaces is None else list(self.subspaces)
        _check_subspaces(kept, len(a))
        self.conditioning_ = max((conditioning(a[rows]) for rows in kept), key=lambda c: c.condition_number)
        matrix, after = self._inverse(a, kept) if self.codes == "cosine" else a, prepared.normalizer
        if self.goal == "retrieval":
            matrix, mean = _half_whitened(prepared.raw)
            after = replace(after, mean=mean)
        matrix = np.where(prepared.live, matrix, 0.0).astype(prepared.dtype)
        self.map_ = Map(matrix, after=after, rescale=self.rescale)
        self.fingerprint_ = prepared.fingerprint
        return self

    def transform(self, X: Array | Space) -> Array | Space:
        """Decode codes into vectors of the target.

        Codes in a space are refused if their kind or the keys of their anchors are not those of this decoder. Codes
        in a bare array carry neither, and only their width is checked.
        """
        check_is_fitted(self)
        if isinstance(X, Space):
            self._check_codes(X)
            return super().transform(X)
        codes = as_matrix(X, "codes")
        check_width(codes, self.n_features_in_)
        return self.map_(codes)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a safetensors file. It holds the anchors in effect."""
        check_is_fitted(self)
        _save_half(self, path, {}, {"rescale": self.rescale, "goal": self.goal}, overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote."""
        decoder, normalizer, saved = _load_half(cls, path)
        with understood(path):
            decoder.rescale, decoder.goal = bool(saved.about["rescale"]), saved.about.get("goal", "vectors")
            decoder.map_ = Map(saved.arrays["matrix"], after=normalizer, rescale=decoder.rescale)
        decoder.n_features_in_ = decoder.map_.dims_in
        return decoder

    def _inverse(self, a: np.ndarray, kept: list[np.ndarray]) -> np.ndarray:
        matrix, ridge = np.zeros(a.shape), self._damping(a, kept)
        for rows in kept:
            matrix[rows] += pseudo_inverse(a[rows].T, self.rtol, ridge) / len(kept)
        if np.sum(matrix**2) > MAX_NOISE:
            warnings.warn(
                f"Decoding these codes multiplies their noise by {np.sum(matrix**2) ** 0.5:.3g}: the inverse of "
                f"{len(a)} anchors with {a.shape[1]} coordinates is close to singular, and encoders that differ will "
                'decode into noise. Leave ridge and rtol out, prune with delta=0.7 and omega=8, or use codes="dual".',
                stacklevel=4,  # of whoever calls fit
            )
        return matrix

    def _damping(self, a: np.ndarray, kept: list[np.ndarray]) -> float:
        if self.ridge is not None:
            return self.ridge
        regular = self.rtol is not None or any(len(rows) < len(a) for rows in kept)
        return 0.0 if regular else len(a) / a.shape[1]

    def _check_goal(self) -> None:
        if self.goal not in GOALS:
            raise ValueError(f"There is no goal {self.goal!r}.{suggest(self.goal, GOALS)}")
        if self.goal == "retrieval" and self.codes != "dual":
            raise ValueError(f'goal="retrieval" is for dual codes, and the codes are {self.codes!r}: leave one out.')

    def _check_codes(self, space: Space) -> None:
        match = self.fingerprint_.matches(space.fingerprint)
        if not match:
            raise ValueError(
                f"The codes {space.name!r} are not those of this decoder: {match.reason}. Codes can be decoded only "
                "over the anchors that they were encoded with: fit the decoder on anchors of the same keys, in the "
                "same order, and with the same kind of codes."
            )

    def _described(self) -> str:
        return f"{self.map_.dims_in:,} anchors, {self.map_.width}-d"


@dataclass(frozen=True, eq=False)
class _Prepared:
    """What both halves take from anchors."""

    given: Any
    raw: np.ndarray
    vectors: np.ndarray
    """Normalized, in float64."""
    normalizer: Normalizer
    live: np.ndarray
    dtype: np.dtype
    fingerprint: Fingerprint
    frame: np.ndarray
    """What codes are inner products with: the normalized anchors, or these whitened as a frame."""

    @staticmethod
    def of(half: Any, anchors: Array | Space, keys: Sequence[Any] | np.ndarray | None) -> _Prepared:
        """Check the kind of codes and the anchors, and normalize them."""
        if half.codes not in CODES:
            raise ValueError(f"There are no codes {half.codes!r}.{suggest(half.codes, CODES)}")
        if half.codes == "parseval" and half.ridge is not None:
            raise ValueError(
                f'ridge is {half.ridge}, and codes="parseval" inverts nothing that it could damp: leave it out.'
            )
        if isinstance(anchors, Space):
            keys = anchors.keys if anchors.has_keys and keys is None else keys
            anchors = anchors.vectors
        raw, name = to_numpy(as_matrix(anchors, "anchors")), half.normalize or CODES[half.codes]
        normalizer = Normalizer.fit(raw, name)
        a = normalizer.apply(raw.astype(np.float64))
        if not np.any(a):
            raise ValueError(
                f"All anchors are the same vector (n_samples={len(a)}): at least two different ones are needed."
            )
        # Dual codes weigh anchors, and are decoded under any preparation of the target.
        known = code_fingerprint(half.codes, len(a), keys, normalize=None if half.codes == "dual" else name)
        frame, live = polar(a) if half.codes == "parseval" else a, live_dimensions(np.std(raw, axis=0))
        return _Prepared(anchors, raw, a, normalizer, live, raw.dtype, known, frame)


def _half_whitened(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Y (YᵀY + λI)^-½ of centered unit rows, and what to add to queries."""
    rows = unit_norm(a.astype(np.float64))
    mean = np.mean(rows, axis=0)
    u, s, vt = thin_svd(rows - mean)
    weights = 1 / np.sqrt(s**2 + WHITENING * np.sum(s**2) / a.shape[1])
    return (u * (s * weights)) @ vt, MEAN_SHARE * np.sum(s**2 * weights) / np.sum(s**2) * mean


def _save_half(
    half: Any, path: str | os.PathLike[str], arrays: dict[str, np.ndarray], about: dict[str, Any], overwrite: bool
) -> None:
    normalizer = half.map_.before or half.map_.after  # a half has one of the two
    condition = asdict(half.conditioning_)
    if np.isinf(condition["condition_number"]):  # JSON has no infinity
        condition["condition_number"] = None
    about = {
        "codes": half.codes,
        "normalizer": normalizer.about(),
        "conditioning": condition,
        "fingerprint": half.fingerprint_.to_json(),
        **about,
    }
    saved = Saved(half.kind, {"matrix": half.map_.matrix, **normalizer.arrays(), **arrays}, about)
    write_saved(path, saved, overwrite=overwrite)


def _load_half(cls: type[Half], path: str | os.PathLike[str]) -> tuple[Half, Normalizer, Saved]:
    saved = read_saved(path, cls.kind)
    with understood(path):
        half = cls(saved.about["codes"], normalize=saved.about["normalizer"]["name"])
        normalizer = Normalizer.from_saved(saved.arrays, saved.about["normalizer"])
        condition = saved.about["conditioning"]
        condition["condition_number"] = condition["condition_number"] or float("inf")
        half.conditioning_ = Conditioning(**condition)
        half.fingerprint_ = Fingerprint.from_json(saved.about["fingerprint"])
    return half, normalizer, saved


def _check_subspaces(subspaces: list[np.ndarray], k: int) -> None:
    if not subspaces or any(len(rows) == 0 or np.min(rows) < 0 or np.max(rows) >= k for rows in subspaces):
        raise ValueError(
            f"subspaces does not fit {k} anchors: expected at least one list of rows from 0 to {k - 1}. "
            "Fit encoder and decoder on parallel anchors."
        )


def needs_matrix_target(tags: Tags) -> Tags:
    """Return scikit-learn's tags of what is fitted on two sets of vectors: y is required, and a matrix."""
    tags.target_tags.required = True
    tags.target_tags.multi_output = True
    tags.target_tags.single_output = False
    return tags
