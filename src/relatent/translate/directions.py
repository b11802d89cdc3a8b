"""Directions: differences of vectors, moved by the linear part of a map; heads, pulled back through it.

A steering vector, a probe's normal and a class difference are no points of a space: its mean says nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._array import Array, array_namespace, as_matrices, as_matrix, like, suggest, to_numpy
from relatent._linalg import unit_norm
from relatent.spaces.normalize import scaled
from relatent.steps import Map, gaussian_kernel

if TYPE_CHECKING:
    from relatent.translate.direction_quality import DirectionQuality
    from relatent.translate.hub import Spoke

# Steps that scale rows by their length: what becomes of a direction there depends on where it begins.
BY_LENGTH = ("unit", "length")
# Of a moved basis, directions that are shorter than the longest by this factor are gone.
LOST = 1e-10
RANDOM_DIRECTIONS, COMMON = 200, 0.95


def linear(x: Array, v: Array, matrix: Array | None = None, offset: Array | None = None) -> Array:
    """Multiply by the matrix: an offset moves points, and no direction."""
    return v if matrix is None else scaled(v, like(matrix, v))


def unit(x: Array, v: Array) -> Array:
    r"""Keep what is perpendicular to the row: :math:`(v - (v \cdot u)\,u) / \lVert x \rVert` with u the unit row."""
    return length(x, v, 1.0, 1.0)


def length(x: Array, v: Array, length: Array | float, power: Array | float) -> Array:
    r""":math:`(L / \lVert x \rVert)^p\,(v - p\,(v \cdot u)\,u)`."""
    xp, row = array_namespace(x), unit_norm(x)
    norm = xp.sum(x * row, axis=1, keepdims=True)
    if not bool(xp.all(norm > 0)):
        raise ValueError("at has no derivative: the map scales rows by their length, which is 0 there. Give another.")
    along = v @ xp.matrix_transpose(row)
    return (length / norm) ** power * (v - power * along * row)


def gaussian(x: Array, v: Array, centers: Array, width: Array | float) -> Array:
    r"""Append :math:`-e^{-\lVert x-c \rVert^2 / 2\sigma^2}\,(x-c) \cdot v / \sigma^2` for each center c."""
    xp, centers = array_namespace(x), like(centers, v)
    slopes = gaussian_kernel(x, centers, width) * (v @ xp.matrix_transpose(x - centers))
    return xp.concat([v, -2 / width * slopes], axis=1)


DERIVATIVES: dict[str, Callable[..., Array]] = {"linear": linear, "unit": unit, "length": length, "gaussian": gaussian}


def moved(folded: Map, v: Array, at: Array | None = None) -> Array:
    r"""Return the Jacobian-vector products of a map: :math:`v\,J(a)`, or their mean over the rows a of ``at``.

    Of a map of which all steps are linear it is the same everywhere. Otherwise ``at=None`` stands for the mean of
    the source, unless the map scales rows by their length: near their mean, these have no direction to begin with.
    """
    steps = folded.steps
    if all(step.kind == "linear" for step in steps):
        for step in steps:
            v = linear(v, v, **step.arrays)
        return v
    points = like(_source_mean(folded)[None, :], v) if at is None else at
    total: Any = 0.0
    for i in range(points.shape[0]):
        x, passed = points[i : i + 1, :], v
        for step in steps:
            passed, x = DERIVATIVES[step.kind](x, passed, **step.arrays), step(x)
        total = total + passed
    return total / points.shape[0]


def _source_mean(folded: Map) -> np.ndarray:
    if any(step.kind in BY_LENGTH for step in folded.steps):
        raise ValueError(
            "This map scales rows by their length, so that what becomes of a direction depends on where it begins: "
            "give at=, a vector of the source, or rows of it to average over."
        )
    assert folded.before is not None
    assert folded.features is not None
    mean: np.ndarray = folded.before.mean
    if np.any(mean):
        return mean
    # No normalization subtracts it: it is that of the centers.
    return np.asarray(scaled(np.mean(folded.features.centers, axis=0), folded.before.unscale))


@dataclass(frozen=True)
class SourceHead:
    """A linear head on the source, x ↦ x @ weightᵀ + bias, in the layout of ``coef_`` and of torch's Linear."""

    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        """Return scores of rows, one column per output."""
        return x @ array_namespace(self.weight).matrix_transpose(self.weight) + self.bias


@dataclass(frozen=True)
class Subspace:
    """A subspace that was moved."""

    basis: Array
    """(r, d), orthonormal rows of the target."""
    gains: np.ndarray
    """How much the map stretches the orthonormal directions that become these, descending."""
    angles: np.ndarray | None
    """Principal angles to the target's own subspace, in radians, descending; None if it was not given."""


@dataclass(frozen=True)
class CanonicalDirection:
    """A direction that several models have in common."""

    vector: Array
    """Of the hub, of unit length."""
    moved: dict[str, Array]
    """The same in each space of the hub, of unit length: also in those of which no direction was given."""
    scores: dict[str, float]
    """Leave one out: the cosine of each space's own direction with what those of the others make of it."""
    random: float
    """What 95 % of these cosines stay below, in absolute value, if the others' directions are random and isotropic."""


class Directions:
    """What a fitted translator does with directions."""

    map_: Map
    target_map_: Map | None

    def direction(self, v: Array, at: Array | None = None) -> Array:
        r"""Move a direction, or rows of directions: a difference of two vectors, not a vector.

        .. math:: v\,J(a), \qquad t(x) = x W + b \;\Rightarrow\; v\,W

        A steering vector or a class difference has no mean to subtract, which :meth:`transform` would do. For an
        affine map ``at`` makes no difference. For a kernel map it is where the Jacobian is taken: a vector of the
        source, or rows of it to average over; by default, the source mean. A map that scales rows by their length
        (``normalize="center+l2"``, ``goal="index"``) needs it.

        Linear in v. With ``goal="retrieval"`` both sides are mapped into a space of their own, where no direction is
        the target's: refused.

        References: Huang et al., ACL 2025; Bello et al., 2025 (arXiv 2506.00653); Oozeer et al., 2025
        (arXiv 2503.04429).

        >>> from relatent import Translator
        >>> rng = np.random.default_rng(0)
        >>> x, w = rng.normal(size=(100, 4)), rng.normal(size=(4, 3))
        >>> t = Translator(map="affine").fit(x, x @ w + 5)
        >>> bool(np.allclose(t.direction(x[0]), x[0] @ w)), bool(np.allclose(t.transform(x[:1])[0], x[0] @ w))
        (True, False)
        """
        folded, rows = self._own_map(), _rows(v, "v")
        if at is None:
            (given,) = as_matrices(v=rows)
            points = None
        else:
            given, points = as_matrices(v=rows, at=_rows(at, "at"))
            points = like(points, given)
        for name, one in (("v", given), ("at", points)):
            if one is not None and one.shape[1] != folded.dims_in:
                raise ValueError(
                    f"{name} has shape {tuple(one.shape)}: expected {folded.dims_in} columns, as the source has."
                )
        found = moved(folded, given, points)
        return found[0, :] if _is_single(v) else found

    def subspace(self, V: Array, *, at: Array | None = None, own: Array | None = None) -> Subspace:
        """Move the subspace that rows of directions span.

        Directions that the map shrinks to nothing are left out of the basis. ``own`` are rows of the target that were
        found there in the same way, such as differences between classes: the angles to their span tell how far the
        moved subspace is the target's own.

        >>> from relatent import Translator
        >>> x = np.random.default_rng(0).normal(size=(100, 3))
        >>> s = Translator(map="affine").fit(x, 2 * x).subspace(np.eye(3)[:2], own=np.eye(3)[:2])
        >>> s.gains.tolist(), np.degrees(s.angles).round(3).tolist()
        ([2.0, 2.0], [0.0, 0.0])
        """
        rows = as_matrix(_rows(V, "V"), "V")
        wide = to_numpy(rows).astype(np.float64)
        if not np.any(wide):
            raise ValueError(f"V has shape {wide.shape} and holds zeros only: give at least one direction.")
        point = None if at is None else to_numpy(as_matrix(_rows(at, "at"), "at")).astype(np.float64)
        _, gains, basis = np.linalg.svd(self.direction(_spanned(wide), point), full_matrices=False)
        kept = gains > LOST * gains[0] if gains[0] else gains > 0
        angles = None
        if own is not None:
            from scipy.linalg import subspace_angles

            its = to_numpy(as_matrix(_rows(own, "own"), "own")).astype(np.float64)
            if its.shape[1] != basis.shape[1]:
                raise ValueError(f"own has shape {its.shape}: expected {basis.shape[1]} columns, as the target has.")
            angles = np.asarray(subspace_angles(basis[kept].T, _spanned(its).T))
        return Subspace(like(basis[kept], rows), gains[kept], angles)

    def pull_back(self, W: Array, b: Array | float | None = None) -> SourceHead:
        r"""Return the head on the source that reads as the head :math:`y W^\top + b` on translated vectors does.

        .. math:: (x M + o)\,W^\top + b = x\,(W M^\top)^\top + (b + o W^\top)

        W is (outputs, d), as ``coef_`` of scikit-learn and the weight of torch's Linear, or one row. A probe that was
        trained on one model then reads another at the cost of its own product. Exact for affine maps; others are no
        matrix, and are refused.

        >>> from relatent import Translator
        >>> rng = np.random.default_rng(0)
        >>> x, W = rng.normal(size=(100, 4)), rng.normal(size=(2, 4))
        >>> t = Translator(map="ridge").fit(x, 2 * x + 1)
        >>> bool(np.allclose(t.pull_back(W, 0.5)(x), t.transform(x) @ W.T + 0.5))
        True
        """
        folded = self._own_map()
        if any(step.kind != "linear" for step in folded.steps):
            raise ValueError(
                "This map is not affine, so that no matrix reads the source as the head reads what it makes of it: fit "
                'with max_cost="affine" and a normalization that is (normalize="iso"), or put the translator before it.'
            )
        given = as_matrix(_rows(W, "W"), "W")
        if given.shape[1] != folded.width:
            raise ValueError(
                f"W has shape {tuple(given.shape)}: expected (outputs, {folded.width}), a row per output, as the "
                "target has coordinates. Transpose a matrix that rows are multiplied by."
            )
        xp = array_namespace(given)
        weight = xp.astype(given, xp.float64)
        bias = _bias(b, weight)
        for step in reversed(folded.steps):
            matrix, offset = step.arrays.get("matrix"), step.arrays.get("offset")
            if offset is not None:
                bias = bias + weight @ like(offset, weight)
            if matrix is not None:
                matrix = like(matrix, weight)
                weight = scaled(weight, matrix if matrix.ndim == 1 else xp.matrix_transpose(matrix))
        weight, bias = xp.astype(weight, given.dtype), xp.astype(bias, given.dtype)
        return SourceHead(weight[0, :], bias[0]) if _is_single(W) else SourceHead(weight, bias)

    def direction_quality(
        self, x: Array, y: Array, labels: Array, *, at: Array | None = None, seed: int = 0
    ) -> DirectionQuality:
        """Tell how far a moved concept direction is the target's own, from labeled pairs that were not fitted on.

        See :class:`relatent.translate.direction_quality.DirectionQuality`: the cosine of the moved class difference
        with that of the target, its interval, what random directions reach, and what the target's own would.

        >>> from relatent import Translator
        >>> rng = np.random.default_rng(0)
        >>> x, labels = rng.normal(size=(400, 4)), np.arange(400) % 2
        >>> x[:, 0] += 2 * labels
        >>> y = x @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
        >>> q = Translator().fit(x[:200], y[:200]).direction_quality(x[200:], y[200:], labels[200:])
        >>> bool(q[1].value > 0.99)
        True
        """
        from relatent.translate.direction_quality import direction_quality

        return direction_quality(self, x, y, labels, at=at, seed=seed)

    def _own_map(self) -> Map:
        """Return the map into the target's own space."""
        self._check_fitted()
        if self.target_map_ is not None:
            raise ValueError(
                "This translator maps both sides into a shared space, where no direction or head is the target's: fit "
                'another with the goal "vectors" or "stitching", or with frozen_target=True.'
            )
        return self.map_

    def _check_fitted(self) -> None:
        raise NotImplementedError


def canonical(spokes: Mapping[str, Spoke], given: Mapping[str, Array], at: Mapping[str, Array]) -> CanonicalDirection:
    """Average unit directions of several spaces in their hub, and bring the mean into every space."""
    if len(given) < 2:
        raise ValueError(f"Directions of {len(given)} spaces were given: expected at least 2 to have something common.")
    for name in (*given, *at):
        if name not in spokes:
            raise ValueError(f"The hub has no space {name!r}.{suggest(name, spokes)}")
    into = {name: unit_norm(_into(spokes, name, v, at)) for name, v in given.items()}
    xp = array_namespace(*into.values())
    total = sum(into.values())

    def brought(vector: Array, name: str) -> Array:
        return unit_norm(moved(spokes[name].out, vector))

    own = {name: unit_norm(as_matrix(_rows(v, name), name)) for name, v in given.items()}
    scores = {name: float(xp.sum(brought(total - into[name], name) * own[name])) for name in given}
    vector = unit_norm(total)
    return CanonicalDirection(
        vector[0, :],
        {name: brought(vector, name)[0, :] for name in spokes},
        scores,
        _chance(spokes, {name: to_numpy(v) for name, v in own.items()}, at),
    )


def _chance(spokes: Mapping[str, Spoke], own: Mapping[str, np.ndarray], at: Mapping[str, Array]) -> float:
    """Return what most leave-one-out cosines stay below where directions are random."""
    rng = np.random.default_rng(0)
    drawn = {name: rng.normal(size=(RANDOM_DIRECTIONS, v.shape[1])) for name, v in own.items()}
    points = {name: to_numpy(a) for name, a in at.items()}
    into = {name: unit_norm(_into(spokes, name, v, points)) for name, v in drawn.items()}
    total = sum(into.values())
    found = [unit_norm(moved(spokes[name].out, total - into[name])) @ own[name].T for name in own]
    return float(np.quantile(np.abs(np.concatenate(found)), COMMON))


def _into(spokes: Mapping[str, Spoke], name: str, v: Array, at: Mapping[str, Array]) -> Array:
    rows, folded = as_matrix(_rows(v, name), name), spokes[name].into
    if rows.shape[1] != folded.dims_in:
        raise ValueError(f"The direction of {name!r} has {rows.shape[1]} coordinates: expected {folded.dims_in}.")
    return moved(folded, rows, as_matrix(_rows(at[name], "at"), "at") if name in at else None)


def _spanned(rows: np.ndarray) -> np.ndarray:
    """Return orthonormal rows that span the same."""
    _, values, basis = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(basis[values > max(rows.shape) * np.finfo(np.float64).eps * values[0]])


def _rows(v: Any, name: str) -> Any:
    """Return one direction as a row, and rows as they are."""
    rows = v if hasattr(v, "ndim") else np.asarray(v)
    if rows.ndim not in (1, 2):
        raise ValueError(f"{name} has shape {tuple(rows.shape)}: expected one direction, 1-D, or rows of them.")
    return rows[None, :] if rows.ndim == 1 else rows


def _is_single(v: Any) -> bool:
    return (v.ndim if hasattr(v, "ndim") else np.asarray(v).ndim) == 1


def _bias(b: Any, weight: Array) -> Array:
    """Return one bias per output."""
    xp, outputs = array_namespace(weight), weight.shape[0]
    given = np.zeros(outputs) if b is None else b
    given = np.full(outputs, float(given)) if isinstance(given, int | float) else given
    found = like(given if hasattr(given, "ndim") else np.asarray(given, dtype=np.float64), weight)
    found = xp.reshape(found, (-1,))
    if found.shape[0] not in (1, outputs):
        raise ValueError(f"b has {found.shape[0]} entries for {outputs} outputs: expected one per output.")
    return xp.broadcast_to(found, (outputs,))
