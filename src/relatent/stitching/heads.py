"""A trained linear head, as other libraries leave it in a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relatent._array import Array, as_matrix, to_numpy
from relatent._atomic import FileError
from relatent.spaces.files import AnyPath
from relatent.spaces.formats.errors import readable

__all__ = ["LinearHead", "read_head"]


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Scores of classes, ``x @ weight.T + bias``, and what the classes are called. Speaks as scikit-learn does.

    >>> head = LinearHead(np.eye(2), np.zeros(2), np.asarray(["left", "up"]))
    >>> head.predict(np.asarray([[3.0, 1.0], [0.0, 2.0]])).tolist()
    ['left', 'up']
    """

    weight: np.ndarray
    bias: np.ndarray
    classes: np.ndarray

    def __call__(self, x: Array) -> np.ndarray:
        """Score each class for every row."""
        x = to_numpy(as_matrix(x))
        if x.shape[1] != self.n_features_in_:
            raise ValueError(
                f"The vectors have {x.shape[1]} coordinates and the decoder reads {self.n_features_in_}: expected the "
                "same. Give the head that was trained on the target of the translator."
            )
        return np.asarray(x @ self.weight.T.astype(x.dtype) + self.bias.astype(x.dtype))

    @property
    def n_features_in_(self) -> int:
        """Coordinates that the head reads."""
        return int(self.weight.shape[1])

    @property
    def classes_(self) -> np.ndarray:
        """Names of the classes, in the order of the scores."""
        return self.classes

    def decision_function(self, x: Array) -> np.ndarray:
        """Score each class for every row."""
        return self(x)

    def predict(self, x: Array) -> np.ndarray:
        """Name the class of each row."""
        return self.best(self(x))

    def score(self, x: Array, y: Array) -> float:
        """Share of rows whose class is named rightly."""
        return float(np.mean(self.predict(x) == to_numpy(y)))

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Name the class of the highest score."""
        return np.asarray(self.classes[np.argmax(scores, axis=1)])


def read_head(path: AnyPath) -> LinearHead:
    """Read a head from .safetensors or .npz: ``weight`` (classes × d), and ``bias`` and ``classes`` if it has them.

    These are the names of a torch Linear layer; of scikit-learn save ``coef_`` and ``intercept_`` under them.
    """
    path = Path(path)
    with readable(path):
        arrays = _arrays(path)
    weight = arrays.get("weight")
    if weight is None or weight.ndim != 2:
        raise FileError(f"{path} holds {', '.join(arrays) or 'nothing'}: expected a matrix 'weight', classes × d.")
    if len(weight) == 1:  # scikit-learn gives two classes one row
        weight, arrays["bias"] = np.concatenate([-weight, weight]), np.repeat(arrays.get("bias", [0.0]), 2) * [-1, 1]
    bias = arrays.get("bias", np.zeros(len(weight), dtype=weight.dtype))
    classes = arrays.get("classes", np.arange(len(weight)))
    if bias.shape != (len(weight),) or classes.shape != (len(weight),):
        raise FileError(
            f"{path} has weight {weight.shape}, bias {bias.shape} and classes {classes.shape}: expected one bias and "
            "one class per row of weight."
        )
    return LinearHead(weight, bias, classes)


def _arrays(path: Path) -> dict[str, np.ndarray]:
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return dict(load_file(path))
    raise FileError(f"{path} ends in {path.suffix!r}: expected a head in .safetensors or .npz.")
