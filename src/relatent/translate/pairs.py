"""What a fit takes in: sums over parallel pairs, and a sample of them to choose by. Both add."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from relatent._array import Array, as_parallel, random_generator, to_numpy
from relatent._linalg import polar, row_basis, spectrum, unit_norm
from relatent._saved import Saved, from_bytes, to_bytes
from relatent.spaces.normalize import UNIT_ROWS, Normalizer
from relatent.spaces.sample import Sample, Unpaired, all_rows, checked_ids, merged, shuffled_rows
from relatent.summary import Prepare, Summary, accumulate, check_weights, needs_double
from relatent.translate.sources import are_several, factors, side_by_side

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
# What is known of several sources.
SOURCES = ("widths", "penalties")

# Pairs kept for what cannot be chosen from sums.
SAMPLE_SIZE = 10_000
# An array of up to this many times the sample is kept alive, where allowed, instead of copying the sample out of it.
LASTING = 4
# From MANY pairs on, HELD_OUT of them held out once choose as well as three folds do, and before that two of three.
TWO_FOLDS, MANY, HELD_OUT = 2_000, 5_000, 1_000
# In trials, a basis of the span is used where pairs are fewer than this share of the coordinates, and directions of a
# rotation that change no ranking are dropped: singular values over the largest.
WORTH_A_BASIS, FAINT = 0.7, 1e-7
# Below this many, one division into folds is a matter of luck.
STEADY = 300
# Vectors of this cosine are copies, perhaps in another precision.
COPY = 1 - 1e-5


@dataclass(frozen=True, eq=False)
class Pairs:
    r"""Parallel pairs, summed up: what every fit takes in, wherever its rows come from.

    ``Pairs.of`` sums up rows; ``+`` joins what was summed up elsewhere: in another chunk, file, process or machine.
    The sample holds the pairs of smallest seeded hash of their id, so it is the same however the rows were sharded and
    in whichever order the shards are added; sums agree to rounding.

    Rows are known by their number among all pairs, ``start`` being that of the first, or by ``ids``, such as hashes of
    their keys (:func:`relatent.spaces.key_hashes`). They tell the rows of different shards apart. Pairs of weight 0 are
    left out. Of several sources, ``x`` is a list of arrays with the same rows.

    ``full_x=False`` and ``full_y=False`` sum only the squares of single coordinates of that side, which is enough for
    some maps.

    Affine normalizations are applied to the sums. Unit rows cannot be; there, the sample stands for all pairs.

    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(100, 3)), rng.normal(size=(100, 2))
    >>> joined = Pairs.of(x[60:], y[60:], start=60) + Pairs.of(x[:60], y[:60])
    >>> joined, bool(np.allclose(joined.summary.xy, Pairs.of(x, y).summary.xy))
    (Pairs(100, 3 → 2), True)
    """

    count: int
    sample: Sample
    sums: Summary | None
    """Of all pairs; None as long as they can be taken from the sample."""
    full: tuple[bool, bool] = (True, True)
    size: int = SAMPLE_SIZE
    seed: int = 0
    unpaired: Unpaired | None = None
    """Rows of both spaces beside these, which tell more of the centers that normalizations subtract."""
    widths: tuple[int, ...] | None = None
    """Coordinates of each source, where the rows are those of several side by side."""
    penalties: tuple[float, ...] | None = None
    """What each source is held back by, beside the penalty that they share (``relatent.translate.sources``)."""
    rough: bool = False
    """Whether they are those of a trial: a few digits of what is made of them are enough."""

    @staticmethod
    def of(
        x: Array,
        y: Array,
        *,
        start: int = 0,
        ids: np.ndarray | None = None,
        weights: Array | None = None,
        seed: int = 0,
        size: int = SAMPLE_SIZE,
        full_x: bool = True,
        full_y: bool = True,
        copy: bool = True,
        widths: tuple[int, ...] | None = None,
    ) -> Pairs:
        """Sum up rows. With ``copy=False`` the arrays may be kept alive, and must not change."""
        if are_several(x):
            x, y, widths = side_by_side(x, y, widths)
        x, y = as_parallel(x=x, y=y)
        w = None if weights is None else check_weights(weights, x.shape[0])
        ids = np.arange(start, start + x.shape[0], dtype=np.uint64) if ids is None else checked_ids(ids, x.shape[0])
        sums = None
        if x.shape[0] > size:
            wide = w is not None or needs_double(x, y, full_x=full_x, full_y=full_y)
            sums = accumulate(x, y, w, full_x=full_x, full_y=full_y, wide=wide).to_numpy()
        sample = all_rows(to_numpy(x), to_numpy(y), ids, w)
        count = len(sample)
        sample = sample.smallest(size, seed)
        if copy or count > LASTING * size:
            sample = sample.copied()
        return Pairs(count, sample, sums, (full_x, full_y), size, seed, widths=widths)

    @staticmethod
    def of_batch(
        batch: pa.RecordBatch | pa.Table,
        *,
        source: str = "old",
        target: str = "new",
        key: str | None = "id",
        start: int = 0,
        **options: Any,
    ) -> Pairs:
        """Sum up an Arrow batch with a column of vectors for each side. A row that is null on a side is left out.

        Rows are known by ``key``, so that batches may come from anywhere in any order; with ``key=None``, by their
        number, ``start`` being that of the first row of the batch. A batch without pairs adds nothing.
        Other ``options`` are those of :meth:`of`.

        >>> import pyarrow as pa
        >>> columns = {"id": [1, 2, 3], "old": [[1.0], [2.0], None], "new": [[1.0, 1.0], [2.0, 0.0], [3.0, 0.0]]}
        >>> batch = pa.record_batch(columns)
        >>> Pairs.of_batch(batch[:1]) + Pairs.of_batch(batch[1:])
        Pairs(2, 1 → 2)
        """
        import pyarrow as pa

        from relatent.spaces.io.columns import batch_column, batch_vectors
        from relatent.spaces.keys import key_hashes

        x, y = batch_vectors(batch, source), batch_vectors(batch, target)
        rows = np.intersect1d(x.rows, y.rows, assume_unique=True)
        if not len(rows):
            return Pairs(0, Sample(x.at(rows), y.at(rows), rows.astype(np.uint64)), None)
        ids = start + rows if key is None else key_hashes(batch_column(batch, key).take(pa.array(rows)))
        return Pairs.of(x.at(rows), y.at(rows), ids=ids, **options)

    @staticmethod
    def total(parts: Iterable[Pairs]) -> Pairs:
        """Return the sum of many, at the cost of one."""
        parts = list(parts)
        parts = [part for part in parts if part.count] or parts[:1]
        first = parts[0]
        for other in parts[1:]:
            first._check_alike(other)
        if len(parts) == 1:
            return first
        count = sum(p.count for p in parts)
        sample = merged([p.sample for p in parts], first.size, first.seed)
        if len(sample) == count:
            return replace(first, count=count, sample=sample, sums=None)
        bare = [p.sample for p in parts if p.sums is None]
        sums = [p.sums for p in parts if p.sums is not None]
        if bare:
            sums.append(first._summed(merged(bare, count, first.seed)))
        whole = sums[0]
        for part in sums[1:]:
            whole = whole + part
        return replace(first, count=count, sample=sample, sums=whole)

    @staticmethod
    def collected(parts: list[Pairs]) -> list[Pairs]:
        """Join parts once their samples hold twice what is kept: early enough for memory, late enough for time."""
        many = sum(len(p.sample) for p in parts) > 2 * parts[0].size
        return [Pairs.total(parts)] if many else parts

    def __add__(self, other: Pairs) -> Pairs:
        """Return the pairs of both."""
        return Pairs.total([self, other])

    def __reduce__(self) -> tuple[Callable[[bytes], Pairs], tuple[bytes]]:
        """Pickle as :meth:`to_bytes`: the sampled rows without the arrays that they were taken from."""
        return Pairs.from_bytes, (self.to_bytes(),)

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        """Count the pairs and the coordinates of both sides."""
        return f"Pairs({self.count:,}, {self.dims[0]} → {self.dims[1]})"

    @property
    def dims(self) -> tuple[int, int]:
        """Coordinates of the source and of the target."""
        return int(self.sample.all_x.shape[1]), int(self.sample.all_y.shape[1])

    @property
    def options(self) -> dict[str, Any]:
        """The options of :meth:`of` that pairs must share to be added."""
        full_x, full_y = self.full
        return {"seed": self.seed, "size": self.size, "full_x": full_x, "full_y": full_y, "widths": self.widths}

    @property
    def dtype(self) -> np.dtype:
        """The dtype that holds the rows of both sides."""
        return np.result_type(self.sample.all_x, self.sample.all_y)

    @property
    def complete(self) -> bool:
        """Whether the sample is all of the pairs."""
        return len(self.sample) == self.count

    @cached_property
    def summary(self) -> Summary:
        """The sums over all pairs."""
        return self._summed(self.sample) if self.sums is None else self.sums

    @cached_property
    def target_spread(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the target's coordinates."""
        if self.complete:
            wide = self.sample.y.astype(np.float64, copy=False)
            return np.mean(wide, axis=0), np.std(wide, axis=0)
        s = self.summary
        return s.mean_y, np.sqrt((np.diagonal(s.yy) if s.yy.ndim == 2 else s.yy) / s.n)

    @cached_property
    def other_targets(self) -> np.ndarray:
        """Unpaired targets, without copies of those in the sample."""
        if self.unpaired is None or self.unpaired.index is None:
            return np.empty((0, self.dims[1]))
        rows, known = (unit_norm(a.astype(np.float64, copy=False)) for a in (self.unpaired.index, self.sample.y))
        nearest = np.concatenate(
            [np.max(part @ known.T, axis=1) for part in np.array_split(rows, 1 + len(rows) // 500)]
        )
        return np.asarray(self.unpaired.index[nearest < COPY])

    def normalized(self, name: str, *, span: bool = True) -> NormalizedPairs:
        """Return the pairs as a map sees them: under a normalization, in the coordinates of their span.

        ``span=False`` leaves rows in the coordinates of their space even where they are fewer than those.
        """
        view = self._views.get((name, span))
        if view is None:
            view = self._views[name, span] = self._normalized(name, span)
        return view

    @cached_property
    def _views(self) -> dict[tuple[str, bool], NormalizedPairs]:
        """What choosing has normalized and decomposed, for solving to use again."""
        return {}

    def without_views(self) -> Pairs:
        """Return the same pairs without what was derived from them, which takes memory."""
        return replace(self)

    def _normalized(self, name: str, span: bool) -> NormalizedPairs:
        few = span and self.complete
        # A basis that is hardly smaller than the space takes longer than it saves.
        bases = [few and self.count < (WORTH_A_BASIS * d if self.rough else d) for d in self.dims]
        center_x, center_y = self._centers(name)
        if name not in UNIT_ROWS and not any(bases):
            s = self.summary
            source = self._weighted(Normalizer.from_moments(int(s.n), s.mean_x, s.xx, name)).centered_at(center_x)
            target = Normalizer.from_moments(int(s.n), s.mean_y, s.yy, name).centered_at(center_y)
            frame_x, frame_y, found = Frame(source), Frame(target), s.normalized(source, target)
            rows = None
        else:
            prepared = self._weighted(Normalizer.fit(self.sample.x, name)).centered_at(center_x)
            frame_x = Frame.spanned(self.sample.x, prepared) if bases[0] else Frame(prepared)
            frame_y = Frame.of(self.sample.y, name, bases[1], center_y)
            rows = (frame_x.apply(self.sample.x), frame_y.apply(self.sample.y)) if any(bases) else None
            found = replace(self._summed(self.sample, (frame_x.apply, frame_y.apply), rows), ambient=self.dims)
        # Moments are those about the centers: where these are not the means of the pairs, about the origin.
        found = found if center_x is None else found.about_origin()
        return NormalizedPairs(self.sample, self.complete, frame_x, frame_y, found, rows, FAINT if self.rough else 0.0)

    def _weighted(self, normalizer: Normalizer) -> Normalizer:
        """Hold back each of several sources by its penalty: one penalty for all is then one for each."""
        if self.widths is None or self.penalties is None:
            return normalizer
        squares = np.diagonal(self.summary.xx) if self.summary.xx.ndim == 2 else self.summary.xx
        return normalizer.weighted(factors(squares * normalizer.scale**2, self.widths, self.penalties))

    def _centers(self, name: str) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
        """Return what a normalization subtracts instead of the means of the pairs, if it does."""
        if self.unpaired is None or name in ("none", "l2"):
            return None, None
        s = self.summary
        return self.unpaired.centers(s.n, s.mean_x, s.mean_y)

    def without(self, rows: np.ndarray) -> Pairs:
        """Return what remains when some of the sampled pairs (by their place in the sample) are left out."""
        others = np.delete(np.arange(len(self.sample)), rows)
        sums = None
        if not self.complete or self.count > max(self.dims):
            sums = self.summary - self._summed(self.sample.part(rows))
        return replace(self, count=self.count - len(rows), sample=self.sample.part(others), sums=sums)

    def only(self, rows: np.ndarray) -> Pairs:
        """Return some of the sampled pairs, by their place in the sample."""
        return replace(self, count=len(rows), sample=self.sample.part(np.sort(rows)), sums=None)

    def block(self, x: np.ndarray, y: np.ndarray, widths: tuple[int, ...] | None) -> Pairs:
        """Return the same pairs in some of the coordinates of each side."""
        s, sums = self.sample, self.sums
        sample = Sample(s.x[:, x], s.y[:, y], s.ids, s.weights)
        return replace(self, sample=sample, sums=None if sums is None else sums.block(x, y), widths=widths)

    def folds(self, count: int, seed: int = 0) -> Iterator[tuple[Pairs, np.ndarray]]:
        """Go through folds of the sample: all other pairs, and the places of those held out."""
        count = min(count, len(self.sample))
        fold = random_generator(seed).permutation(len(self.sample)) % count
        for i in range(count):
            rows = np.flatnonzero(fold == i)
            yield self.without(rows), rows

    def trials(self, seed: int = 0) -> Iterator[tuple[Pairs, np.ndarray]]:
        """Go through what to choose by: folds, of few pairs several times, or one large held-out part."""
        rough, n = replace(self, rough=True), len(self.sample)
        if n >= MANY:
            rows = np.sort(shuffled_rows(n, HELD_OUT, seed))
            yield rough.without(rows), rows
            return
        for again in range(max(1, STEADY // n)):
            yield from islice(rough.folds(3, seed + again), 3 if n < TWO_FOLDS else 2)

    def to_bytes(self) -> bytes:
        """Return bytes for another process. No pickle: reading them runs no code. They hold the sampled rows."""
        arrays = {"x": self.sample.x, "y": self.sample.y, "ids": self.sample.ids}
        if self.sample.weights is not None:
            arrays["weights"] = self.sample.weights
        if self.sums is not None:
            arrays |= {f"sums.{name}": array for name, array in self.sums.arrays().items()}
        about = {"count": self.count, "full": list(self.full), "size": self.size, "seed": self.seed}
        about |= {name: list(kept) for name in SOURCES if (kept := getattr(self, name)) is not None}
        return to_bytes(Saved("pairs", arrays, about | {"n": None if self.sums is None else self.sums.n}))

    @staticmethod
    def from_bytes(raw: bytes) -> Pairs:
        """Return what :meth:`to_bytes` packed."""
        saved = from_bytes(raw, "the pairs")
        if saved.kind != "pairs":
            raise ValueError(f"The data holds a {saved.kind}, not pairs.")
        about, arrays = saved.about, saved.arrays
        sample = Sample(arrays["x"], arrays["y"], arrays["ids"], arrays.get("weights"))
        sums = None if about["n"] is None else Summary.from_arrays(about["n"], arrays, "sums.")
        sources: dict[str, Any] = {name: tuple(about[name]) for name in SOURCES if name in about}
        return Pairs(about["count"], sample, sums, tuple(about["full"]), about["size"], about["seed"], **sources)

    def _summed(
        self,
        sample: Sample,
        prepare: tuple[Prepare, Prepare] | None = None,
        prepared: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> Summary:
        """Sum up a sample, prepared block by block, or prepared already."""
        x, y = prepared or (sample.x, sample.y)
        prepare = None if prepared else prepare
        return accumulate(x, y, sample.weights, full_x=self.full[0], full_y=self.full[1], prepare=prepare)

    def _check_alike(self, other: Pairs) -> None:
        if self.dims != other.dims:
            raise ValueError(
                f"Pairs of {other.dims[0]} and {other.dims[1]} coordinates were given: expected the same as before, "
                f"{self.dims[0]} and {self.dims[1]}."
            )
        if self.options != other.options:
            raise ValueError(
                f"Pairs were summed with {self.options} and {other.options}: expected the same in every shard."
            )


@dataclass(frozen=True)
class Frame:
    """The coordinates that one side is solved in: normalized, and in a basis of the anchors' span where that is small.

    Directions that no anchor reaches map to nothing, so nothing is lost, and decompositions are small.
    """

    normalizer: Normalizer
    basis: np.ndarray | None = None
    """(d, r), orthonormal columns."""

    @staticmethod
    def of(rows: np.ndarray, name: str, spanned: bool, center: np.ndarray | None = None) -> Frame:
        """Fit to rows, about a center or their mean."""
        normalizer = Normalizer.fit(rows, name).centered_at(center)
        return Frame.spanned(rows, normalizer) if spanned else Frame(normalizer)

    @staticmethod
    def spanned(rows: np.ndarray, normalizer: Normalizer) -> Frame:
        """Return the coordinates of what normalized rows span."""
        return Frame(normalizer, row_basis(Frame(normalizer).apply(rows)))

    def apply(self, rows: np.ndarray) -> np.ndarray:
        """Bring rows of the space into these coordinates."""
        ready = self.normalizer.applied(rows.astype(np.float64, copy=False))
        return np.asarray(ready if self.basis is None else ready @ self.basis)


@dataclass(frozen=True, eq=False)
class NormalizedPairs:
    """Pairs as a map sees them: two frames, the summary of all pairs in these, and the sampled rows."""

    sample: Sample
    complete: bool
    """Whether the sample is all of the pairs."""
    source: Frame
    target: Frame
    summary: Summary
    rows: tuple[np.ndarray, np.ndarray] | None = None
    """The sampled rows, where they are at hand."""
    rtol: float = 0.0
    """Directions of a rotation that may be dropped, by their singular value over the largest."""

    @cached_property
    def x(self) -> np.ndarray:
        """Sampled source rows."""
        return self.source.apply(self.sample.x) if self.rows is None else self.rows[0]

    @cached_property
    def y(self) -> np.ndarray:
        """Sampled target rows."""
        return self.target.apply(self.sample.y) if self.rows is None else self.rows[1]

    @cached_property
    def spectrum_x(self) -> tuple[np.ndarray, np.ndarray]:
        """Eigenvalues and eigenvectors of the scatter of the source."""
        return spectrum(self.summary.xx)

    @cached_property
    def spectra(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Eigenvalues and eigenvectors of the scatter of both sides."""
        return self.spectrum_x, spectrum(self.summary.yy)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made of these pairs under this key, or make it."""
        if key not in self._made:
            self._made[key] = make()
        return cast(T, self._made[key])

    @cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}

    @cached_property
    def rotation(self) -> np.ndarray:
        """The orthogonal matrix that brings the source nearest to the target, both about their means."""
        return np.asarray(polar(self.summary.xy, self.rtol))

    def of(self, held: Sample) -> tuple[np.ndarray, np.ndarray]:
        """Return other pairs of the same spaces in these coordinates."""
        return self.source.apply(held.x), self.target.apply(held.y)
