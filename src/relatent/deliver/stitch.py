"""A trained linear head reads translated vectors: the stitch of an old encoder to a new model's classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._terminal import render
from relatent.deliver.translate import check_translator, map_space
from relatent.evaluate.interval import Estimate, bootstrap
from relatent.spaces.files import AnyPath
from relatent.spaces.fingerprint import Fingerprint
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

    def __str__(self) -> str:
        """Lay it out for a person."""
        first = f"{self.rows:,} rows read by a head of {self.classes} classes."
        cells = [(name, f"{e.value:.3f}", f"{e.low:.3f} – {e.high:.3f}") for name, e in self.accuracy.items()]
        return "\n".join([first, *([render(("vectors", "accuracy", "95 % interval"), cells, (1, 2))] if cells else [])])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        scores = {name: e.to_dict() for name, e in self.accuracy.items()}
        return {"rows": self.rows, "classes": self.classes, "accuracy": scores}


def stitch_space(
    translator: Translator,
    source: Space,
    head: LinearHead,
    path: AnyPath,
    *,
    truth: str | None = None,
    target: Space | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Stitched:
    """Let a head that was trained on the target read the translated source; write its scores and a ``prediction``.

    With ``truth``, a column of the source, the accuracy is given beside that of untranslated vectors, where the
    dimensions allow it, and beside that on the head's own encoder, where ``target`` is given with the same column.
    """
    check_translator(translator)
    translator.endpoints_.check(source, "source")
    read = stitch(None, translator, head)
    scored = _Accuracy(source, truth, target, head)
    known = Fingerprint(dim=len(head.weight), model=f"scores of {len(head.weight)} classes")
    map_space(source, path, read, known, column=("prediction", head.best), overwrite=overwrite, progress=progress)
    return Stitched(len(source), len(head.weight), scored.of(read))


class _Accuracy:
    """Who is right how often. Columns are looked for before anything is written."""

    def __init__(self, source: Space, truth: str | None, target: Space | None, head: LinearHead) -> None:
        self.source, self.truth, self.target, self.head = source, truth, target, head
        for space in (source, target):
            if truth is not None and space is not None and truth not in space.schema.names:
                raise ValueError(
                    f"{space.name or 'The space'} has no column {truth!r}.{suggest(truth, space.schema.names)}"
                )

    def of(self, read: Any) -> dict[str, Estimate]:
        if self.truth is None:
            return {}
        ways: dict[str, tuple[Space, Any]] = {}
        if self.source.dim == self.head.weight.shape[1]:
            ways["untranslated"] = (self.source, self.head)
        ways["translated"] = (self.source, read)
        if self.target is not None:
            ways["own encoder (ceiling)"] = (self.target, self.head)
        return {name: self._right(space, way) for name, (space, way) in ways.items()}

    def _right(self, space: Space, read: Any) -> Estimate:
        found = [self.head.best(read(chunk.vectors)) for chunk in space.chunks() if len(chunk)]
        true = space.others.column(self.truth).to_pylist()
        right = [str(a) == str(b) for a, b in zip(np.concatenate(found).tolist(), true, strict=True)]
        return bootstrap(np.asarray(right, dtype=np.float64))
