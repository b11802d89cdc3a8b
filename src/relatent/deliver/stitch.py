"""`relatent stitch`: a trained linear head reads the translated vectors of another encoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._terminal import render
from relatent.deliver.translate import check_translator, map_space
from relatent.evaluate.interval import Estimate, bootstrap
from relatent.spaces.chunks import Chunk
from relatent.spaces.files import AnyPath
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.keys import key_hashes
from relatent.spaces.space import Space
from relatent.stitching import LinearHead, stitch
from relatent.translate import Translator

__all__ = ["Stitched", "stitch_space"]


@dataclass(frozen=True)
class Stitched:
    """How often the head was right, where the truth is known: untranslated, translated, and on its own encoder."""

    rows: int
    classes: int
    accuracy: dict[str, Estimate]
    scored: int = 0
    """Rows that the accuracy of translated vectors is measured on."""
    left_out: int = 0
    """Rows that the translator was fitted on, which are predicted but not scored."""

    def __str__(self) -> str:
        """Lay it out for a person."""
        lines = [f"{self.rows:,} rows read by a head of {self.classes} classes."]
        if self.left_out:
            lines.append(f"{self.left_out:,} rows that the translator was fitted on are left out of the accuracy.")
        if self.left_out and not self.scored:
            lines.append("No other row is there to score: hold some out when fitting, or give rows of other keys.")
        cells = [(name, f"{e.value:.3f}", f"{e.low:.3f} – {e.high:.3f}") for name, e in self.accuracy.items()]
        if cells:
            lines.append(f"Accuracy on {self.scored:,} rows:")
            lines.append(render(("vectors", "accuracy", "95 % interval"), cells, (1, 2)))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        scores = {name: e.to_dict() for name, e in self.accuracy.items()}
        return {
            "rows": self.rows,
            "classes": self.classes,
            "scored": self.scored,
            "left_out": self.left_out,
            "accuracy": scores,
        }


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
) -> Stitched:
    """Let a head that was trained on the target read the translated source; write its scores and a ``prediction``.

    With ``truth``, a column of the source, the accuracy is given beside that of untranslated vectors, where the
    dimensions allow it, and beside that on the head's own encoder, where ``target`` is given with the same column.
    Rows whose keys the translator was fitted on are left out of it. ``accept`` lets a source pass whose fingerprint is
    another's.
    """
    check_translator(translator)
    if accept:
        translator.accept(source)
    translator.endpoints_.check(source, "source")
    read = stitch(None, translator, head)
    readers = {} if truth is None else _readers(source, target, head, read)
    for space, _ in readers.values():  # before anything is written
        _check_column(space, truth)
    known = Fingerprint(dim=len(head.weight), model=f"scores of {len(head.weight)} classes")
    map_space(source, path, read, known, column=("prediction", head.best), overwrite=overwrite, progress=progress)
    right = {
        name: np.concatenate([*_right(space, read_rows, head, str(truth), translator.seen_keys_)])
        for name, (space, read_rows) in readers.items()
    }
    scored = len(right["translated"]) if right else 0
    accuracy = {name: bootstrap(values) for name, values in right.items() if len(values)}
    return Stitched(len(source), len(head.weight), accuracy, scored, len(source) - scored if right else 0)


def _readers(
    source: Space, target: Space | None, head: LinearHead, read: Callable[[np.ndarray], Any]
) -> dict[str, tuple[Space, Callable[[np.ndarray], Any]]]:
    """Return what to score, by name: a space and what reads its vectors."""
    readers: dict[str, tuple[Space, Callable[[np.ndarray], Any]]] = {}
    if source.dim == head.n_features_in_:
        readers["untranslated"] = (source, head)
    readers["translated"] = (source, read)
    if target is not None:
        readers["own encoder (ceiling)"] = (target, head)
    return readers


def _check_column(space: Space, name: str | None) -> None:
    if name not in space.schema.names:
        raise ValueError(f"{space.name or 'The space'} has no column {name!r}.{suggest(name, space.schema.names)}")


def _right(
    space: Space, read: Callable[[np.ndarray], Any], head: LinearHead, truth: str, seen: np.ndarray
) -> Iterator[np.ndarray]:
    """Return, chunk by chunk, whether the head names the class of each row whose key was not seen: 1 or 0."""
    for chunk in space.chunks():
        rows = np.flatnonzero(~np.isin(_hashes(chunk), seen))
        true = chunk.others.column(truth).take(rows).to_pylist()
        found = head.best(np.asarray(read(chunk.vectors[rows]))).tolist() if len(rows) else []
        yield np.asarray([str(a) == str(b) for a, b in zip(found, true, strict=True)], dtype=np.float64)


def _hashes(chunk: Chunk) -> np.ndarray:
    """Return the hashes of the keys, or of the row numbers where there are none."""
    keys = chunk.keys
    return key_hashes(range(chunk.start, chunk.start + len(chunk)) if keys is None else keys.to_pylist())
