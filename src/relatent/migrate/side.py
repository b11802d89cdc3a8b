"""Which of a translator's two spaces a store holds, and what that means for its vectors and for queries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from relatent import __version__
from relatent.monitor.canary import check_canary
from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.space import Space
from relatent.steps import Step
from relatent.stores import Field, Shard, Store, StoreError
from relatent.stores.fields import CODES, calibrated, is_coded, quantizer, uncoded
from relatent.translate import Translator
from relatent.translate.endpoints import BlockCheck, Side
from relatent.translate.files import BatchTranslator, check_translator

# Rows that tell which model made a store's vectors, and how many places of the store they are read from.
SAMPLE_ROWS, SAMPLE_PLACES = 1_024, 8
# Eigenvalues, relative to the largest, below which a direction has no variance but rounding.
RANK_CUTOFF = 1e-12


@dataclass(frozen=True, eq=False)
class StoredSide:
    """How stored vectors become new ones, and how queries of the new field are made.

    A translator of vectors joins old to new: the store holds its *source*, ``transform`` makes the new vectors, and the
    new model's queries are used as they are. A two-sided retrieval translator joins queries to items: the store holds
    its *target*, ``transform_target`` makes the new vectors, and queries go through ``transform``.
    """

    translator: Translator
    name: Side

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Return the new vectors of stored ones, as float32."""
        return translated(self.translate, vectors)

    @cached_property
    def translate(self) -> BatchTranslator:
        """The translation of stored vectors, for any process."""
        return self.translator.batch_udf(side=self.name)

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is done to a stored vector, in order, for a store that translates by itself."""
        folded = self.translate.folded
        return () if folded is None else folded.steps

    def back(self, vectors: np.ndarray) -> tuple[Step, ...]:
        """Return the affine map from new vectors to stored ones that is closest for these, by least squares.

        From the products of the new vectors, in whose eigenvalues directions without variance are left out.
        """
        x, y = vectors.astype(np.float64), self(vectors).astype(np.float64)
        mean_x, mean_y = (z.mean(axis=0) if len(z) else np.zeros(z.shape[1]) for z in (x, y))
        values, directions = np.linalg.eigh((y - mean_y).T @ (y - mean_y))
        kept = directions[:, values > RANK_CUTOFF * max(values[-1], 0.0)]
        matrix = (kept / values[len(values) - kept.shape[1] :]) @ (kept.T @ ((y - mean_y).T @ (x - mean_x)))
        return (Step("linear", {"matrix": matrix, "offset": mean_x - mean_y @ matrix}),)

    def queries(self, vectors: np.ndarray) -> np.ndarray:
        """Return what to search with, of the new model's vectors."""
        return vectors if self.name == "source" else np.asarray(self.translator.transform(vectors))

    @property
    def models(self) -> tuple[Fingerprint, Fingerprint]:
        """What is recorded of the old model and of the new one."""
        ends = self.translator.endpoints_
        both = ends.source.recorded(), ends.target.recorded()
        return both if self.name == "source" else both[::-1]

    def advice(self, store: Store, field: Field) -> str:
        """Return what the application must do with its queries of a field after the cutover, in a sentence."""
        asked = f"vectors of {self.models[1].model or 'the new model'}"
        if self.name == "target":
            asked = f"translator.transform({asked})"
        if field.dtype == "bit" or (store.compares_codes and is_coded(field)):
            return f"After the cutover, query with x = {asked} coded as {_coding(field)}. Others get wrong answers."
        if self.name == "source":
            return f"After the cutover, query with {asked}, as they are."
        return (
            f"This translator maps queries and documents into a shared space: after the cutover, query with {asked}, "
            "compared by inner product. Queries that were not translated get wrong answers."
        )

    def new_field(self, store: Store, translator_hash: str, about: dict[str, Any], **chosen: Any) -> Field:
        """Return the new field of a store; one of codes has the scale of some of the vectors that it will hold."""
        served, width, (old, new) = store.served, self.translate.dims[1], self.models
        made = self.translator.endpoints_.outcome(width) if self.name == "source" else Fingerprint(dim=width)
        known = {
            "translator": translator_hash,
            "model": made.model,
            "revision": made.revision,
            "source": _model(old),
            "target": _model(new),
            "dims": f"{served.dim} → {width}",
            "relatent": __version__,
            **about,
        }
        dtype = served.dtype if served.dtype == "float16" or is_coded(served) else "float32"
        metric = "hamming" if chosen.get("dtype") == "bit" else self.translator.metric_
        made_of: dict[str, Any] = {"name": next_name(served.name), "dtype": dtype, "metric": metric}
        made_of |= {name: value for name, value in chosen.items() if value is not None}
        field = Field(dim=width, provenance={n: v for n, v in known.items() if v is not None}, **made_of)
        return calibrated(field, self(sample_vectors(store))) if field.dtype in CODES else field


def next_name(served: str) -> str:
    """Return a name for the field that is to follow the served one.

    >>> [next_name(name) for name in ("embedding", "embedding_new", "embedding_new_2")]
    ['embedding_new', 'embedding_new_2', 'embedding_new_3']
    """
    earlier = re.fullmatch(r"(.*_new)(?:_(\d+))?", served)
    return f"{served}_new" if earlier is None else f"{earlier[1]}_{int(earlier[2] or 1) + 1}"


def stored_side(translator: Any) -> StoredSide:
    """Return the side that a store holds: the target of a two-sided translator, else the source."""
    check_translator(translator)
    return StoredSide(translator, "source" if translator.target_map_ is None else "target")


def translated(translate: BatchTranslator, vectors: np.ndarray) -> np.ndarray:
    """Return the new vectors of stored ones, of whatever type they are stored as, in float32.

    Whether they are of the right model is checked once, when they are first read (:class:`BlockCheck`).
    """
    given = vectors.astype(np.result_type(vectors, np.float32), copy=False)
    if not len(given):
        return np.empty((0, translate.dims[1]), np.float32)
    return np.asarray(given if translate.folded is None else translate.folded(given), dtype=np.float32)


def sample_vectors(store: Store, rows: int = SAMPLE_ROWS) -> np.ndarray:
    """Read a few rows, spread over the served field."""
    served, places = store.served, store.places(SAMPLE_PLACES)
    take = max(1, rows // len(places))
    scans = (store.scan(served, shard=place, rows=take, unreadable=lambda *_: None) for place in places)
    found = [chunk.vectors for scan in scans for chunk in islice(scan, 1)]
    return np.concatenate(found) if found else np.empty((0, served.dim), dtype=np.float32)


def check_fingerprint(
    side: StoredSide, store: Store, *, canary: Space | None = None, accept: bool = False
) -> BlockCheck | None:
    """Refuse a store whose vectors are not, or not surely, of the side that the translator takes from it.

    With a ``canary``, items of the store with their vectors in the model of that side, these decide. Return what checks
    the rows that are read later; None where that is settled.
    """
    if canary is not None:
        _check_items(store, canary)
        return None
    served = store.served
    recorded = Fingerprint(served.dim, served.provenance.get("model"), served.provenance.get("revision"))
    space = Space(sample_vectors(store), name=str(store.address), fingerprint=recorded)
    if accept and served.dim == getattr(side.translator.endpoints_, side.name).dim:
        side.translator.accept(space)
    ends = side.translator.endpoints_
    if ends.is_other_side(space, side.name):
        raise _wrong_way(side, store)
    ends.check(space, side.name, strict=True)
    return None if accept else BlockCheck(ends, side.name, str(store.address))


def _check_items(store: Store, canary: Space) -> None:
    """Refuse a store whose vectors of the canary's items are not those of the canary."""
    keys, vectors = [], []
    for key in [] if canary.keys is None else canary.keys.tolist():
        for chunk in islice(store.scan(store.served, shard=Shard(low=key), rows=1), 1):
            if chunk.keys is not None and len(chunk) and chunk.keys[0].as_py() == key:
                keys.append(key)
                vectors.append(chunk.vectors[0])
    if not keys:
        raise StoreError(f"{store.address} has none of the canary's items: give a canary that was made of its items.")
    found = check_canary(canary, Space(np.asarray(vectors), keys))
    if not (found.ok or (found.outcome == "rescaled" and store.served.metric == "cosine")):
        raise StoreError(f"{store.address} does not hold the vectors of the canary: {found}")


def _wrong_way(side: StoredSide, store: Store) -> StoreError:
    if side.name == "source":
        return StoreError(
            f"{store.address} holds the target of this translator, whose vectors stay as they are: nothing has to be "
            "written. Send queries through translator.transform; or fit the other way, from the stored model to the "
            "new one, to migrate the store."
        )
    return StoreError(
        f"{store.address} holds the source of this translator, which ranks items of the target for queries of the "
        "source: expected a store of its target. Fit it from the new model to the stored one, or fit vectors from the "
        "stored model to the new one."
    )


def _coding(field: Field) -> str:
    """Return the Python expression that codes a query x as the vectors of a field are coded."""
    if field.dtype == "bit":
        return "x > 0, a bit for each coordinate"
    norm = ", of x at norm 1" if field.metric == "cosine" else ""
    numbers = f"{field.dtype!r}, {field.dim}, {field.scale}, {field.offset}"
    return f"relatent.spaces.Quantizer({numbers}).encode(x){norm}"


def _model(known: Fingerprint) -> str | None:
    return known.model if known.revision is None else f"{known.model}@{known.revision}"


# How close a stored vector is to what it should be --------------------------------------------------------------------

# Relative to the norm: a few units in the last place.
TOLERANCE = {"float32": 1e-5, "float16": 2e-3}
# A code is the nearest one, but for the rounding of what is coded.
STEPS = 0.51
# The same in the arithmetic of a store that translates by itself: sums of float32 in another order, of kernels too.
SLACK = 10.0
TINY = 1e-300


def deviations(
    of: Field, expected: np.ndarray, stored: np.ndarray, slack: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the error of each row, and which rows are further off than the numbers of the field require.

    The error is that of :func:`relative_errors`; of bits, the share that differs. ``slack`` multiplies the tolerance.
    """
    if of.dtype == "bit":
        return _of_bits(expected, stored, slack)
    errors = relative_errors(of, expected, stored)
    return errors, _off_by_a_step(of, expected, stored) if is_coded(of) else errors > slack * TOLERANCE[of.dtype]


def relative_errors(of: Field, expected: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Return the norm of each difference relative to the norm; of directions where only the cosine counts."""
    expected, stored = expected.astype(np.float64), stored.astype(np.float64)
    norms = np.maximum(np.linalg.norm(expected, axis=1), TINY)
    if of.metric == "cosine":  # which a store may compute from vectors that it keeps at norm 1
        stored = stored * (norms / np.maximum(np.linalg.norm(stored, axis=1), TINY))[:, None]
    return np.asarray(np.linalg.norm(expected - stored, axis=1) / norms)


def clipped(of: Field, expected: np.ndarray) -> np.ndarray:
    """Count the coordinates of each row that lie more than a step beyond the largest and the smallest code."""
    if not is_coded(of):
        return np.zeros(len(expected), dtype=np.intp)
    x, (low, high) = uncoded(of, expected), quantizer(of).range
    step = quantizer(of).scale  # less than that is only rounded
    return np.asarray(np.count_nonzero((x < low - step) | (x > high + step), axis=1))


def _off_by_a_step(of: Field, expected: np.ndarray, stored: np.ndarray) -> np.ndarray:
    """Return which rows have a coordinate that is not the nearest one that a code stands for."""
    within = np.clip(uncoded(of, expected), *quantizer(of).range)
    return np.asarray((np.abs(within - stored) > STEPS * quantizer(of).scale).any(axis=1))


def _of_bits(expected: np.ndarray, stored: np.ndarray, slack: float) -> tuple[np.ndarray, np.ndarray]:
    """Compare bits; those of coordinates that are zero but for their rounding may be either."""
    sure = np.abs(expected) > slack * TOLERANCE["float32"] * np.linalg.norm(expected, axis=1, keepdims=True)
    differs = sure & ((expected > 0) != (stored > 0))
    return differs.mean(axis=1), differs.any(axis=1)
