"""The map of a half of relative codes, or of both together, and the estimator around it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from relatent._array import Array, as_matrix, like
from relatent._linalg import unit_norm
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.normalize import Normalizer
from relatent.spaces.space import Space


@dataclass(frozen=True)
class CodedMap:
    """x ↦ after(before(x) @ matrix @ second): what each half does to rows, and what both together do."""

    matrix: np.ndarray
    before: Normalizer | None = None
    """Of the source: absent where codes are given."""
    after: Normalizer | None = None
    """Of the target, undone: absent where codes are wanted."""
    rescale: bool = False
    """Whether decoded rows get the mean norm of the target's anchors, where the preparation drops norms."""
    second: np.ndarray | None = None
    """A second factor, where two thin matrices are smaller than their product."""

    def __call__(self, x: Array) -> Array:
        """Map checked rows."""
        if self.before is not None:
            x = self.before.applied(x)
        y = x @ like(self.matrix, x)
        if self.second is not None:
            y = y @ like(self.second, y)
        if self.after is None:
            return y
        return self.after.undone(unit_norm(y) if self.rescale and self.after.unit else y)

    @property
    def product(self) -> np.ndarray:
        """The matrix that prepared rows, or codes, are multiplied by."""
        return self.matrix if self.second is None else self.matrix @ self.second

    @property
    def dims_in(self) -> int:
        """Coordinates of the input."""
        return int(self.matrix.shape[0])

    @property
    def width(self) -> int:
        """Coordinates of the output."""
        return int((self.matrix if self.second is None else self.second).shape[1])


class CodedTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the halves and the two together share: once fitted they are one map."""

    codes: str
    map_: CodedMap

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


def check_width(codes: Array, k: int) -> None:
    """Check that codes have one column per anchor."""
    if codes.shape[1] != k:
        raise ValueError(f"codes has shape {tuple(codes.shape)}: expected {k} columns, one column per anchor.")


def needs_matrix_target(tags: Tags) -> Tags:
    """Return scikit-learn's tags of what is fitted on two sets of vectors: y is required, and a matrix."""
    tags.target_tags.required = True
    tags.target_tags.multi_output = True
    tags.target_tags.single_output = False
    return tags
