"""Trained linear heads read from files, and a translated space read by one: predictions, scores and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import Array, as_matrix, suggest, to_numpy
from relatent._files import FileError, readable
from relatent._terminal import Result, render
from relatent.evaluate.interval import Estimate, bootstrap
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.io.files import AnyPath
from relatent.spaces.io.mapping import map_space
from relatent.spaces.keys import key_hashes
from relatent.spaces.space import Space
from relatent.stitching.compose import stitch
from relatent.translate import Translator
from relatent.translate.files import check_translator


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Scores of classes, ``x @ weight.T + bias``, and the names of the classes, with the methods of scikit-learn.

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
        """Return the class of each row."""
        return self.best(self(x))

    def score(self, x: Array, y: Array) -> float:
        """Return the share of rows that are classified correctly."""
        return float(np.mean(self.predict(x) == to_numpy(y)))

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Return the class with the highest score in each row."""
        return np.asarray(self.classes[np.argmax(scores, axis=1)])


def read_head(path: AnyPath) -> LinearHead:
    """Read a head from .safetensors or .npz: ``weight`` (classes × d), optional ``bias`` and ``classes``.

    These are the names of a torch Linear layer; save ``coef_`` and ``intercept_`` of scikit-learn under them.
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


@dataclass(frozen=True)
class StitchReport(Result):
    """Accuracy of the head where the truth is known: untranslated, translated, and on its own encoder."""

    rows: int
    classes: int
    accuracy: dict[str, Estimate]
    scored: int = 0
    """Rows that the accuracy of translated vectors is measured on."""
    left_out: int = 0
    """Rows that the translator was fitted on, which are predicted but not scored."""

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows read by a head of {self.classes} classes."]
        if self.left_out:
            lines.append(f"{self.left_out:,} rows that the translator was fitted on are left out of the accuracy.")
        if self.left_out and not self.scored:
            lines.append("There are no other rows to score: hold some out when fitting, or give rows of other keys.")
        cells = [(name, f"{e.value:.3f}", f"{e.low:.3f} – {e.high:.3f}") for name, e in self.accuracy.items()]
        if cells:
            lines.append(f"Accuracy on {self.scored:,} rows:")
            lines.append(render(("vectors", "accuracy", "95 % interval"), cells, (1, 2)))
        return "\n".join(lines)


def stitch_space(
    translator: Translator,
    source: Space,
    head: LinearHead,
    path: AnyPath,
    *,
    truth: str | None = None,
    target: Space | None = None,
    accept: bool = False,
    overwrite: bool = False,
    progress: bool | None = None,
) -> StitchReport:
    """Apply a head that was trained on the target to the translated source; write its scores and a ``prediction``.

    With ``truth``, a column of the source, the accuracy is reported beside that of untranslated vectors, if the
    dimensions agree, and beside that on the head's own encoder, if ``target`` is given with the same column.
    Rows whose keys the translator was fitted on are left out of it. ``accept`` allows a source whose fingerprint
    differs from that of the translator.
    """
    check_translator(translator)
    if accept:
        translator.accept(source)
    translator.endpoints_.check(source, "source")
    read = stitch(None, translator, head)
    readers = {} if truth is None else _readers(source, target, head, read)
    for space, _ in readers.values():  # before anything is written
        names = space.schema.names
        if truth not in names:
            raise ValueError(f"{space.name or 'The space'} has no column {truth!r}.{suggest(truth, names)}")
    known = Fingerprint(dim=len(head.weight), model=f"scores of {len(head.weight)} classes")
    map_space(read, source, path, known, column=("prediction", head.best), overwrite=overwrite, progress=progress)
    right = {
        name: np.concatenate([*_right(space, read_rows, head, str(truth), translator.seen_keys_)])
        for name, (space, read_rows) in readers.items()
    }
    scored = len(right["translated"]) if right else 0
    accuracy = {name: bootstrap(values) for name, values in right.items() if len(values)}
    return StitchReport(len(source), len(head.weight), accuracy, scored, len(source) - scored if right else 0)


def _readers(
    source: Space, target: Space | None, head: LinearHead, read: Callable[[np.ndarray], Any]
) -> dict[str, tuple[Space, Callable[[np.ndarray], Any]]]:
    """Return the space and the reader of its vectors for each line of the accuracy."""
    readers: dict[str, tuple[Space, Callable[[np.ndarray], Any]]] = {}
    if source.dim == head.n_features_in_:
        readers["untranslated"] = (source, head)
    readers["translated"] = (source, read)
    if target is not None:
        readers["own encoder (ceiling)"] = (target, head)
    return readers


def _right(
    space: Space, read: Callable[[np.ndarray], Any], head: LinearHead, truth: str, seen: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield per chunk whether each row whose key (or number) was not seen is classified correctly, 1 or 0."""
    for chunk in space.chunks():
        keys, numbers = chunk.keys, range(chunk.start, chunk.start + len(chunk))
        rows = np.flatnonzero(~np.isin(key_hashes(numbers if keys is None else keys.to_pylist()), seen))
        true = chunk.others.column(truth).take(rows).to_pylist()
        found = head.best(np.asarray(read(chunk.vectors[rows]))).tolist() if len(rows) else []
        yield np.asarray([str(a) == str(b) for a, b in zip(found, true, strict=True)], dtype=np.float64)
