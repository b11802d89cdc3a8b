"""Several sources of one translator: layers, heads, views or models, side by side as one space."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relatent._array import Array, array_namespace, as_parallel, is_space
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.join import align
from relatent.spaces.space import Space

BETWEEN = " + "


@dataclass(frozen=True)
class Sources:
    """The widths of several sources, and what each is held back by."""

    widths: tuple[int, ...]
    penalties: tuple[float, ...] | None = None
    """In units of the mean eigenvalue of each source, beside a penalty that they share; None where none is chosen."""

    @property
    def parts(self) -> list[slice]:
        """The columns of each."""
        return list(parts(self.widths))


def parts(widths: Sequence[int]) -> Iterator[slice]:
    """Go through the columns of each of several sources."""
    ends = np.cumsum(widths)
    return (slice(int(end) - width, int(end)) for width, end in zip(widths, ends, strict=True))


def are_several(x: Any) -> bool:
    """Return whether a list of matrices or spaces was given, rather than one; a list of vectors is one matrix."""
    listed = isinstance(x, list | tuple) and len(x) > 0
    return listed and all(is_space(one) or getattr(one, "ndim", 0) == 2 for one in x)


def side_by_side(
    sources: Sequence[Any], y: Any = None, widths: tuple[int, ...] | None = None
) -> tuple[Any, Any, tuple[int, ...]]:
    """Return several sources as one, the target in the same rows, and the width of each source.

    Spaces are joined on their keys and become a space, of which the fingerprint names all models in their order.
    ``widths`` are those that are expected.
    """
    if all(is_space(one) for one in sources):
        joined, found = _joined_spaces(sources), tuple(one.dim for one in sources)
    else:
        named = {f"X[{i}]": one for i, one in enumerate(sources)} | ({} if y is None else {"y": y})
        arrays = list(as_parallel(**named))
        y = y if y is None else arrays.pop()
        joined, found = _concatenated(arrays), tuple(int(one.shape[1]) for one in arrays)
    if widths is not None and found != widths:
        raise ValueError(
            f"Sources of {_listed(found)} coordinates were given: expected {_listed(widths)}, in the order of fitting."
        )
    return joined, y, found


def factors(squares: np.ndarray, widths: Sequence[int], penalties: Sequence[float]) -> np.ndarray:
    """Return what coordinates are multiplied by, so that one penalty on all is a penalty of its own on each source.

    The sum of squares stays what it is, given the sums of squares of the coordinates: one source is left unchanged.
    """
    units = [float(np.mean(squares[part])) or 1.0 for part in parts(widths)]
    wanted = np.repeat([1 / (unit * penalty) for unit, penalty in zip(units, penalties, strict=True)], widths)
    return np.asarray(np.sqrt(wanted * (np.sum(squares) / np.sum(squares * wanted))))


def _concatenated(arrays: list[Array]) -> Array:
    xp = array_namespace(*arrays)
    if len({str(one.dtype) for one in arrays}) > 1:
        arrays = [xp.astype(one, xp.float64) for one in arrays]
    return arrays[0] if len(arrays) == 1 else xp.concat(arrays, axis=1)


def _joined_spaces(spaces: Sequence[Space]) -> Space:
    if len(spaces) == 1:
        return spaces[0]
    aligned = align({f"X[{i}]": space for i, space in enumerate(spaces)})
    vectors = _concatenated(list(aligned.vectors.values()))
    name = BETWEEN.join(space.name for space in spaces) if all(space.name for space in spaces) else ""
    return Space(vectors, aligned.keys, name, _fingerprint([space.recorded for space in spaces]))


def _fingerprint(known: list[Fingerprint]) -> Fingerprint:
    """Return what is known of all of them, in their order; what is not known of one is left open."""

    def said(field: str) -> str | None:
        values = [getattr(one, field) for one in known]
        return None if any(value is None for value in values) else BETWEEN.join(map(str, values))

    named = [_label(one) for one in known]
    model = None if any(one is None for one in named) else BETWEEN.join(map(str, named))
    rest = {field: said(field) for field in ("revision", "pooling", "normalization")}
    return Fingerprint(sum(one.dim for one in known), model, **rest)  # type: ignore[arg-type]


def _label(one: Fingerprint) -> str | None:
    """Name a model, without the organization, and its layer."""
    if one.model is None:
        return None
    name = one.model.replace("\\", "/").rsplit("/", maxsplit=1)[-1]
    return name if one.layer is None else f"{name}, layer {one.layer}"


def _listed(widths: Sequence[int]) -> str:
    return BETWEEN.join(map(str, widths))
