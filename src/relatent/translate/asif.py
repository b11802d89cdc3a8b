"""ASIF: two frozen encoders and coupled examples make one zero-shot classifier, without training."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from relatent._array import (
    Array,
    array_namespace,
    as_labels,
    as_matrices,
    as_matrix,
    check_count,
    like,
    row_chunks,
    take_rows,
    to_numpy,
)
from relatent._estimator import Transformer, all_or_nothing
from relatent._linalg import map_rows, rows_per_chunk, unit_norm
from relatent._saved import Saved, read_saved, understood, write_saved
from relatent.evaluate.neighbors import Neighbors
from relatent.project.codes import needs_matrix_target
from relatent.project.relative import sparse_codes
from relatent.spaces.join import align
from relatent.spaces.normalize import Normalizer
from relatent.spaces.space import Space

# Codes that keep fewer than one entry in this many are held and multiplied as sparse matrices.
SPARSE = 8


class ASIF(Transformer):
    r"""Compare vectors of two modalities through examples that are known in both: coupled data instead of training.

    A vector is described by its cosines to the coupled examples of its own modality, of which only the largest
    ``top`` stay, raised to a power:

    .. math:: c(x)_j \propto \operatorname{sgn}(r_j)\,|r_j|^p, \quad
              r_j = \begin{cases} \cos(x, x_j) & \text{among the largest} \\ 0 & \text{else} \end{cases}
              \qquad s(x, y) = c(x) \cdot c(y), \quad \lVert c \rVert = 1

    The j-th coordinate means the same on both sides, so a picture is classified by the prompt whose code is nearest.
    With ``top=None, power=1`` these are relative representations of unit norm. Nothing is trained: :meth:`partial_fit`
    adds examples, :meth:`drop` removes them, ``set_params`` changes ``top``, ``power`` and ``temperature`` at any time.
    The product of two codes, entry by entry, names the examples behind a score.

    Unchanged when either space is rotated, reflected or rescaled by itself, moved by an offset (if centered), or when
    the pairs are reordered. An example that is mismatched misleads: see :func:`relatent.audit`. Between spaces that one
    linear map joins, such as two sentence encoders, ``Translator("retrieval")`` ranks far better from the same pairs;
    between pictures and their names the two were alike up to 400 pairs (``experiments/asif/zero_shot.py``).

    Parameters
    ----------
    top : int or None
        Examples that describe a vector, at most all; ties at the last place all stay. None keeps all of them. The
        paper keeps 800 of 1.6 million.
    power : float
        How much the nearest count more than the near: 2 here, 8 in the paper, where pairs are many and noisy.
    normalize : name
        Preparation of each side, fitted on its examples (:class:`relatent.spaces.Normalizer`). The paper has "none",
        but real encoders have an offset: centering was better in 17 of 18 draws (``experiments/asif/defaults.py``).
    temperature : float
        What :meth:`predict_proba` divides the scores by before its softmax.

    Attributes
    ----------
    source_, target_ : the coupled vectors of the two modalities, with their normalizers
    n_pairs_, top_, n_features_in_

    References: Norelli et al., NeurIPS 2023.

    >>> rng = np.random.default_rng(0)
    >>> meaning = np.repeat(np.eye(3), 20, axis=0) + 0.1 * rng.normal(size=(60, 3))
    >>> images, texts = meaning @ rng.normal(size=(3, 8)), meaning @ rng.normal(size=(3, 5))
    >>> asif = ASIF(top=10).fit(images[::2], texts[::2])
    >>> asif.predict(images[[1, 21, 41]], texts[[3, 23, 43]], classes=["cat", "dog", "owl"]).tolist()
    ['cat', 'dog', 'owl']
    """

    kind: ClassVar[str] = "asif"

    def __init__(
        self, top: int | None = 200, power: float = 2.0, normalize: str = "center", *, temperature: float = 0.1
    ) -> None:
        self.top = top
        self.power = power
        self.normalize = normalize
        self.temperature = temperature

    @all_or_nothing
    def fit(self, X: Array | Space, y: Array | Space) -> Self:
        """Take the coupled vectors: row i of X and row i of y, of the two modalities, belong together.

        Two spaces (:class:`relatent.Space`) are joined on their keys first.
        """
        self._check_parameters()
        first, second = align({"X": X, "Y": y}).vectors.values()
        _check_directions(X=first, Y=second)
        return self._hold(first, second)

    @all_or_nothing
    def partial_fit(self, X: Array | Space, y: Array | Space) -> Self:
        """Add coupled vectors; the same as having fitted all of them at once."""
        if not hasattr(self, "source_"):
            return self.fit(X, y)
        x, y = align({"X": X, "Y": y}).vectors.values()
        return self._hold(
            self.source_.with_rows(self.source_.checked(x, "X")), self.target_.with_rows(self.target_.checked(y, "Y"))
        )

    def drop(self, rows: Sequence[int] | np.ndarray) -> Self:
        """Forget coupled vectors by their rows; the same as never having seen them."""
        check_is_fitted(self)
        kept = np.setdiff1d(np.arange(self.n_pairs_), rows)
        if len(kept) + len(set(map(int, rows))) != self.n_pairs_ or np.asarray(rows).dtype == bool:
            raise ValueError(f"rows does not fit {self.n_pairs_} pairs: expected rows from 0 to {self.n_pairs_ - 1}.")
        if not len(kept):
            raise ValueError(f"All {self.n_pairs_} pairs would be dropped: at least one must stay.")
        return self._hold(take_rows(self.source_.vectors, kept), take_rows(self.target_.vectors, kept))

    def transform(self, X: Array) -> Array:
        """Return the codes of the first modality, (n, pairs), unit rows; their inner products are the scores."""
        self._check_ready()
        return self._all_codes(self.source_.checked(as_matrix(X, "X"), "X"), self.source_)

    def transform_target(self, Y: Array) -> Array:
        """Return the codes of the second modality."""
        self._check_ready()
        return self._all_codes(self.target_.checked(as_matrix(Y, "Y"), "Y"), self.target_)

    def similarity(self, X: Array, Y: Array) -> Array:
        """Score every row of X against every row of Y, from −1 to 1; codes are made in blocks and held sparse."""
        return self._scores(*self._both(X=X, Y=Y))

    def predict(self, X: Array, prompts: Array, classes: Sequence[Any] | Array | None = None) -> Array:
        """Return the class of the nearest prompt for each row of X.

        ``prompts`` are vectors of the second modality, one or more per class. ``classes`` names the class of each
        prompt; without it the answer is the prompt's row number.
        """
        scores = self._scores(*self._both(X=X, prompts=prompts))
        nearest = array_namespace(scores).argmax(scores, axis=1)
        if classes is None:
            return nearest
        names = as_labels(classes, "classes")
        if len(names) != scores.shape[1]:
            raise ValueError(f"There are {scores.shape[1]} prompts and {len(names)} classes: expected one per prompt.")
        return names[to_numpy(nearest)]

    def predict_proba(self, X: Array, prompts: Array) -> Array:
        r"""Return the probability of each prompt: softmax of s / ``temperature``, one column per prompt."""
        scores = self._scores(*self._both(X=X, prompts=prompts))
        xp = array_namespace(scores)
        weights = xp.exp((scores - xp.max(scores, axis=1, keepdims=True)) / self.temperature)
        return weights / xp.sum(weights, axis=1, keepdims=True)

    def retrieve(self, X: Array, candidates: Array, k: int = 10) -> Neighbors:
        """Find the k best of the candidates, vectors of the second modality, for each row of X, best first.

        For the other way use :meth:`swapped`. Equal scores are ordered by row number.
        """
        x, y = self._both(X=X, candidates=candidates)
        k = check_count(k, y.shape[0], "candidates")
        indices = np.empty((x.shape[0], k), dtype=np.int64)
        scores = np.empty((x.shape[0], k), dtype=to_numpy(x[:1, :]).dtype)
        for rows, block in self._blocks(x, y):
            indices[rows], scores[rows] = _best(to_numpy(block), k)
        return Neighbors(indices, scores)

    def swapped(self) -> ASIF:
        """Return the same with its sides exchanged: what is asked with Y and answered with X. Shares the examples."""
        check_is_fitted(self)
        other: ASIF = clone(self)
        other.source_, other.target_ = self.target_, self.source_
        return other._count()

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a safetensors file. It holds the coupled vectors themselves: share it as you would share them."""
        check_is_fitted(self)
        arrays = {"source": to_numpy(self.source_.vectors), "target": to_numpy(self.target_.vectors)}
        about = {"top": self.top, "power": self.power, "normalize": self.normalize, "temperature": self.temperature}
        saved = Saved(self.kind, arrays, {"options": about, "holds": "the coupled vectors of both sides"})
        write_saved(path, saved, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read what :meth:`save` wrote."""
        saved = read_saved(path, cls.kind)
        with understood(path):
            return cls(**saved.about["options"]).fit(saved.arrays["source"], saved.arrays["target"])

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that the second modality is needed, and is a matrix."""
        return needs_matrix_target(super().__sklearn_tags__())

    def __repr__(self) -> str:
        if not hasattr(self, "source_"):
            return str(super().__repr__())
        dims = f"{self.n_features_in_} ↔ {self.target_.vectors.shape[1]}"
        return f"ASIF({dims}, {self.n_pairs_:,} pairs, top {self.top_:,}, power {self.power:g})"

    @property
    def _n_features_out(self) -> int:
        return self.n_pairs_

    def _check_ready(self) -> None:
        check_is_fitted(self)
        self._check_parameters()

    def _check_parameters(self) -> None:
        if self.top is not None:
            check_count(self.top, max(self.top, 1), "coupled examples to keep")
        for name, value in (("power", self.power), ("temperature", self.temperature)):
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < float("inf"):
                raise ValueError(f"{name} is {value!r}: expected a positive number.")

    def _hold(self, x: Array, y: Array) -> Self:
        sides = [_Side.of(vectors, name, self.normalize) for vectors, name in ((x, "X"), (y, "Y"))]
        self.source_, self.target_ = sides
        return self._count()

    def _count(self) -> Self:
        self.n_pairs_, self.n_features_in_ = (int(size) for size in self.source_.vectors.shape)
        return self

    @property
    def top_(self) -> int:
        """Examples that describe a vector: ``top``, or all where they are fewer."""
        return min(self.top or self.n_pairs_, self.n_pairs_)

    def _both(self, **named: Array) -> tuple[Array, ...]:
        """Check the first array for the source's side and the second for the target's."""
        self._check_ready()
        sides = (self.source_, self.target_)
        return tuple(s.checked(a, n) for s, a, n in zip(sides, as_matrices(**named), named, strict=True))

    def _coder(self, side: _Side, x: Array) -> Callable[[Array], Array]:
        """Return the function that turns rows such as those of x into codes."""
        xp = array_namespace(x)
        directions = xp.matrix_transpose(unit_norm(side.normalizer.apply(like(side.vectors, x))))
        return lambda rows: sparse_codes(unit_norm(side.normalizer.apply(rows)) @ directions, self.top_, self.power)

    def _all_codes(self, x: Array, side: _Side) -> Array:
        return map_rows(self._coder(side, x), x, self.n_pairs_)

    def _scores(self, x: Array, y: Array) -> Array:
        out = array_namespace(x).empty((x.shape[0], y.shape[0]), dtype=x.dtype, device=x.device)
        for rows, scores in self._blocks(x, y):
            out[rows, :] = scores
        return out

    def _blocks(self, x: Array, y: Array) -> Iterator[tuple[slice, Array]]:
        """Score rows of x against all of y, block by block."""
        code, gallery = self._coder(self.source_, x), self._held(y)
        for rows in row_chunks(x.shape[0], rows_per_chunk(max(self.n_pairs_, y.shape[0]))):
            yield rows, _product(code(x[rows, :]), gallery)

    def _held(self, y: Array) -> Any:
        """Hold the codes of y: as sparse rows where many pairs would make dense ones long."""
        if self.top_ * SPARSE > self.n_pairs_:
            return self._all_codes(y, self.target_)
        code, chunks = self._coder(self.target_, y), row_chunks(y.shape[0], rows_per_chunk(self.n_pairs_))
        return vstack([csr_array(to_numpy(code(y[rows, :]))) for rows in chunks])


@dataclass(frozen=True, eq=False)
class _Side:
    """The coupled vectors of one modality, and how vectors of that modality are prepared."""

    name: str
    vectors: Array
    normalizer: Normalizer

    @staticmethod
    def of(vectors: Array, name: str, normalize: str) -> _Side:
        normalizer = Normalizer.fit(vectors, normalize)
        if not np.any(to_numpy(normalizer.apply(vectors))):
            raise ValueError(
                f"Nothing is left of {name} (n_samples={vectors.shape[0]}) after normalize={normalize!r}: at least two "
                "different pairs are needed."
            )
        return _Side(name, vectors, normalizer)

    def checked(self, x: Array, given: str) -> Array:
        """Refuse vectors of another space, and those that point nowhere."""
        if x.shape[1] != self.vectors.shape[1]:
            raise ValueError(
                f"{given} has shape {tuple(x.shape)}: expected {self.vectors.shape[1]} columns, as the coupled vectors "
                f"of {self.name} have. Encode both with the same model."
            )
        _check_directions(**{given: x})
        return x

    def with_rows(self, x: Array) -> Array:
        return array_namespace(self.vectors).concat([self.vectors, like(x, self.vectors)], axis=0)


def _check_directions(**named: Array) -> None:
    for name, x in named.items():
        xp = array_namespace(x)
        nowhere = xp.max(xp.abs(x), axis=1) == 0
        if bool(xp.any(nowhere)):
            row, count = int(xp.argmax(xp.astype(nowhere, xp.int8))), int(xp.sum(xp.astype(nowhere, xp.int64)))
            raise ValueError(
                f"{name} holds {count} zero vectors, first in row {row}: they are similar to nothing. Drop them, or "
                "see why their encoder gave zeros."
            )


def _product(codes: Array, gallery: Any) -> Array:
    if issparse(gallery):
        return like((csr_array(to_numpy(codes)) @ gallery.T).toarray(), codes)
    return codes @ array_namespace(codes).matrix_transpose(like(gallery, codes))


def _best(scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns and values of the k largest entries of every row, largest first."""
    columns = np.argpartition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k :]
    values = np.take_along_axis(scores, columns, axis=1)
    order = np.lexsort((columns, -values), axis=1)
    return np.take_along_axis(columns, order, axis=1), np.take_along_axis(values, order, axis=1)
