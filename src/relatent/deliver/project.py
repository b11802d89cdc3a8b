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

    Two spaces that are projected on anchors of the same keys, in the same order, can be compared as they are. The file
    records the kind of projection and a hash of these keys; what was projected on others is then told apart.
    """
    fitted = RelativeProjection(similarity, normalize=normalize, output=output).fit(_anchors(space, anchors))
    known = fitted.fingerprint_
    map_space(space, path, fitted.transform, known, overwrite=overwrite, progress=progress)
    return known


def _anchors(space: Space, keys: Sequence[Any] | np.ndarray) -> Space:
    """Find anchors by key, in the order given."""
    try:
        return Space(space.take(choose.by_keys(space, keys)), keys)
    except KeyError as error:
        raise ValueError(
            f"{error.args[0]} Expected anchors of the same items as {space.name or 'the space'}."
        ) from error
