"""Both halves of an inverse relative projection as one translator."""

from __future__ import annotations

import os
from typing import ClassVar, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from relatent._array import Array
from relatent._estimator import all_or_nothing
from relatent._linalg import polar, pseudo_inverse
from relatent._saved import Saved, read_saved, understood, write_saved
from relatent.project.codes import CodedTransformer, Decoded, RelativeDecoder, RelativeEncoder, needs_matrix_target
from relatent.spaces.join import align
from relatent.spaces.normalize import Normalizer
from relatent.spaces.space import Space
from relatent.steps import Map

# In a file: the one matrix, or the first and the second of two thin ones.
FACTORS = ("matrix", "second")


class RelativeTranslator(CodedTransformer):
    """Both halves of an inverse relative projection, folded into one matrix.

    The default is dual codes, which is ridge regression and far more stable than inverting cosines. Every step of the
    paper is an option of ``codes="cosine"``: pruning (``delta``), subspaces (``omega``), ``complete``, ``rescale``, and
    beyond the paper a threshold (``rtol``) or damping (``ridge``) of the pseudo-inverse. ``ridge=None`` leaves it to
    the halves: :class:`RelativeEncoder` for dual codes; for cosines, :class:`RelativeDecoder`, which damps the inverse
    of anchors that are not pruned. ``ridge=0.0`` is the pseudo-inverse. ``codes="parseval"`` needs no inverse: the
    anchors are whitened as a frame.

    ``complete``: the identity of the source is encoded with the pruned anchors, its codes are completed to all anchors
    and decoded with the full set, and the nearest semi-orthogonal matrix is kept. (Read word for word, the paper's
    step changes nothing once the pruned anchors span the space; it says that it estimates "the rotation and
    reflection matrix", and this does.)

    ``goal="retrieval"``, of dual codes, gives queries for an index of the target instead of reconstructions
    (:class:`RelativeDecoder`).

    Attributes
    ----------
    encoder_, decoder_ : the halves, each of which can be used and saved alone
    matrix_ : (d_source, d_target), held as two thin factors where anchors are few; the file that ``save`` writes holds
        it, and neither halves nor anchors

    References: Maiorca et al., 2024 (inverse relative projection).

    >>> rng = np.random.default_rng(0)
    >>> x, q = rng.normal(size=(50, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    >>> bool(np.allclose(RelativeTranslator(ridge=0.0).fit(x, x @ q).transform(x), x @ q))
    True
    """

    kind: ClassVar[str] = "relative_translator"

    def __init__(
        self,
        codes: str = "dual",
        *,
        normalize: str | None = None,
        ridge: float | None = None,
        rtol: float | None = None,
        delta: float = 0.0,
        omega: int = 1,
        complete: bool = False,
        rescale: bool = True,
        goal: Decoded = "vectors",
        seed: int | np.random.Generator | None = 0,
    ) -> None:
        self.codes = codes
        self.normalize = normalize
        self.ridge = ridge
        self.rtol = rtol
        self.delta = delta
        self.omega = omega
        self.complete = complete
        self.rescale = rescale
        self.goal = goal
        self.seed = seed

    @all_or_nothing
    def fit(self, X: Array | Space, y: Array | Space) -> Self:
        """Learn from parallel anchors: row i of X and row i of y, the target's vectors, mean the same.

        Two spaces (:class:`relatent.Space`) are joined on their keys first.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None: give the target's vectors.")
        aligned = align({"X": X, "Y": y})
        source, target = aligned.vectors.values()
        if self.codes != "cosine" and (self.delta, self.omega, self.rtol) != (0, 1, None):
            raise ValueError(
                f'delta, omega and rtol are steps of codes="cosine": with {self.codes} codes they would do nothing.'
            )
        validate_data(self, source if isinstance(X, Space) else X, reset=True, skip_check_array=True)
        self.encoder_ = RelativeEncoder(
            self.codes, normalize=self.normalize, ridge=self.ridge, delta=self.delta, omega=self.omega, seed=self.seed
        ).fit(source, keys=aligned.keys)
        pruned = self.codes == "cosine" and not self.complete
        self.decoder_ = RelativeDecoder(
            self.codes,
            normalize=self.normalize,
            subspaces=self.encoder_.subspaces_ if pruned else None,
            rtol=self.rtol,
            ridge=self.ridge,
            rescale=self.rescale,
            goal=self.goal,
        ).fit(target, keys=aligned.keys)
        before, after, dtype = self.encoder_.map_.before, self.decoder_.map_.after, self.encoder_.matrix_.dtype
        *basis, matrix = (factor.astype(dtype) for factor in self._factors())
        self.map_ = Map(matrix, basis=basis[0] if basis else None, before=before, after=after, rescale=self.rescale)
        return self

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a safetensors file with the one matrix; it holds no anchors."""
        check_is_fitted(self)
        source, target = self.map_.before, self.map_.after
        assert source is not None
        assert target is not None
        factors = [factor for factor in (self.map_.basis, self.map_.matrix) if factor is not None]
        arrays = dict(zip(FACTORS, factors, strict=False)) | source.arrays("source.") | target.arrays("target.")
        settings = {"codes": self.codes, "rescale": self.rescale, "goal": self.goal}
        about = settings | {"source": source.about(), "target": target.about()}
        write_saved(path, Saved(self.kind, arrays, about), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote: a translator that transforms, without its halves."""
        saved = read_saved(path, cls.kind)
        with understood(path):
            goal = saved.about.get("goal", "vectors")
            translator = cls(saved.about["codes"], rescale=saved.about["rescale"], goal=goal)
            *basis, matrix = (saved.arrays[name] for name in FACTORS if name in saved.arrays)
            before, after = (Normalizer.from_saved(saved.arrays, saved.about[s], f"{s}.") for s in ("source", "target"))
            translator.map_ = Map(
                matrix, basis=basis[0] if basis else None, before=before, after=after, rescale=translator.rescale
            )
            translator.n_features_in_ = translator.map_.dims_in
        return translator

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that the target is needed, and is a matrix."""
        return needs_matrix_target(super().__sklearn_tags__())

    def _factors(self) -> tuple[np.ndarray, ...]:
        """Return the matrix of both halves together, or two thin factors of it where they are smaller."""
        left, right = (half.matrix_.astype(np.float64) for half in (self.encoder_, self.decoder_))
        if self.complete:
            left = self._onto_pruned(left)
        (d, k), e = left.shape, right.shape[1]
        if k * (d + e) >= d * e:
            return (polar(left @ right) if self.complete else left @ right,)
        # Few anchors in wide spaces: the product has rank k, so that k × k is all there is to decompose.
        (q, r), (p, s) = np.linalg.qr(left), np.linalg.qr(right.T)
        return q @ (polar(r @ s.T) if self.complete else r @ s.T), p.T

    def _onto_pruned(self, left: np.ndarray) -> np.ndarray:
        """Project columns onto what the pruned anchors span, averaged over the subspaces."""
        a = self.encoder_.matrix_.T.astype(np.float64)
        parts = [pseudo_inverse(a[rows]) @ (a[rows] @ left) for rows in self.encoder_.subspaces_]
        return np.asarray(np.mean(parts, axis=0))
