"""`relatent project`: write a whole space as its similarities to anchors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relatent import anchors as choose
from relatent.deliver.translate import map_space
from relatent.project import RelativeProjection
from relatent.spaces.files import AnyPath
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.keys import key_hashes
from relatent.spaces.space import Space

__all__ = ["project_space"]


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

    Two spaces that are projected on anchors of the same keys, in the same order, can be compared as they are.
    """
    rows = _rows_of(space, anchors)
    relative = RelativeProjection(similarity, normalize=normalize, output=output).fit(space.take(rows))
    known = Fingerprint(dim=len(rows), model=f"relative to {len(rows)} anchors ({similarity}, {normalize}, {output})")
    map_space(space, path, relative.transform, known, overwrite=overwrite, progress=progress)
    return known


def _rows_of(space: Space, anchors: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Find anchors by key, an integer key and its text being the same."""
    texts = dict(zip(key_hashes(space.keys).tolist(), space.keys, strict=True))
    missing = [key for key, number in zip(anchors, key_hashes(anchors).tolist(), strict=True) if number not in texts]
    if missing:
        raise ValueError(
            f"{len(missing)} of the {len(anchors)} anchors are not among the keys of {space.name or 'the space'}, "
            f"first {missing[0]!r}: expected anchors of the same items."
        )
    return choose.by_keys(list(space.keys), [texts[number] for number in key_hashes(anchors).tolist()])
