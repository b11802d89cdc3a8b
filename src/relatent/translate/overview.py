"""What a file holds, and a translator at a glance: what it joins, what was chosen, and what to be wary of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from relatent._saved import Saved, is_saved, load, read_saved, understood
from relatent._terminal import Result
from relatent.spaces.sample import shuffled_rows
from relatent.steps import Map
from relatent.translate.pairs import SOURCES, Pairs
from relatent.translate.ridge import RidgeFit, trace
from relatent.translate.sources import Sources

if TYPE_CHECKING:
    from relatent.spaces.inspect import Inspection
    from relatent.spaces.io.files import AnyPath
    from relatent.translate.translator import Translator

# A share of the variance left unexplained from which on nothing was learned: shuffled pairs leave all of it.
NO_RELATION = 0.999
# A share that shuffled pairs never fall below, although the best of many maps explains a little of them by chance.
RELATED = 0.9
# Fewer pairs than this show nothing either way.
MIN_PAIRS = 20
# A relation is clear if a sample of pairs is this many standard deviations above shuffled pairings of it.
SAMPLE_PAIRS, SHUFFLES, CLEAR = 256, 19, 4.0
# Anchors per coordinate below which a translation loses much.
FEW = 0.5


@dataclass(frozen=True, repr=False)
class Overview(Result):
    """A fitted translator in a few lines; ``warnings`` say when not to trust it."""

    kind: str
    source: str
    target: str
    dims: tuple[int, int]
    pairs: int
    known_keys: int
    goal: str
    map: str
    score: str
    runner_up: str
    cost: str
    """Of a kernel map: the work per row beside that of an affine one."""
    holds: str
    """Of a kernel map: what of its anchors a saved file gives away."""
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            ("spaces", f"{self.source} → {self.target}"),
            ("coordinates", f"{self.dims[0]} → {self.dims[1]}"),
            ("fitted on", f"{self.pairs:,} pairs, {self.known_keys:,} of them known by key"),
            ("goal", self.goal),
            ("map", self.map),
            ("score", self.score),
            ("runner-up", self.runner_up),
            ("cost", self.cost),
            ("holds", self.holds),
            *(("warning", text) for text in self.warnings),
        ]
        return "\n".join([self.kind, *(f"  {name:<16} {text}" for name, text in lines if text)])

    __repr__ = __str__


@dataclass(frozen=True)
class Fitted(Result):
    """A fitted object other than a translator: its kind, and itself in a line."""

    kind: str
    description: str

    def __str__(self) -> str:
        return self.description


def describe(path: AnyPath, *, progress: bool | None = None, **reading: Any) -> Inspection | Overview | Fitted:
    """Return what a file holds, to be printed; ``reading`` as in :func:`relatent.read_space`."""
    if not (str(path).endswith(".safetensors") and Path(path).is_file() and is_saved(path)):
        from relatent.spaces.inspect import inspect_space
        from relatent.spaces.io.files import read_space

        return inspect_space(read_space(path, **reading), progress=progress)
    saved = read_saved(path)
    if saved.kind != "translator":
        fitted = load(path)
        return Fitted(fitted.kind, repr(fitted))
    with understood(path):  # without the estimator: scikit-learn takes longer to import than all else
        return overview(SimpleNamespace(kind=saved.kind, **saved.about["parameters"], **fitted_of(saved)))


def fitted_of(saved: Saved) -> dict[str, Any]:
    """Return the fitted attributes of a translator that was saved, without its confidence."""
    from relatent.translate.endpoints import Endpoints
    from relatent.translate.goals import Selection

    about, arrays, several = saved.about, saved.arrays, saved.about.get("sources")
    endpoints, found = Endpoints.from_saved(about["endpoints"]), Map.from_saved(arrays, about["map"], "map.")
    chosen = about["selection"]
    return {
        "endpoints_": endpoints,
        "seen_keys_": arrays["seen_keys"],
        "map_": found,
        "target_map_": Map.from_saved(arrays, about["target"], "target.") if "target" in about else None,
        "selection_": None if chosen is None else Selection(**chosen),
        "sources_": None if several is None else Sources(*(several[k] and tuple(several[k]) for k in SOURCES)),
        "chosen_": tuple(about["chosen"]),
        "n_pairs_": int(about["n_pairs"]),
        "n_features_in_": found.dims_in,
    }


def overview(t: Translator | SimpleNamespace) -> Overview:
    """Describe a fitted translator, or its attributes."""
    ends, chosen = t.endpoints_, t.selection_
    source, target = ends.source.model or ends.source_name, ends.target.model or ends.target_name
    return Overview(
        t.kind,
        source or "unnamed",
        target or "unnamed",
        (t.n_features_in_, t.map_.width),
        t.n_pairs_,
        len(t.seen_keys_),
        f"{t.goal}, frozen target" if t.frozen_target else t.goal,
        ", ".join([t.map, *t.chosen_]) if chosen is None else chosen.chosen,
        "" if chosen is None else f"{chosen.criterion} {chosen.score:.4g}",
        "" if chosen is None or chosen.runner_up is None else f"{chosen.runner_up} ({chosen.runner_up_score:.4g})",
        *_kernel(t.map_),
        tuple(concerns(t)),
    )


def _kernel(folded: Map) -> tuple[str, str]:
    """Tell the cost of a kernel map and what it holds; nothing of an affine one."""
    if folded.features is None:
        return "", ""
    centers = len(folded.features.centers)
    held = f"the source vectors of {centers:,} anchors, from which their target vectors follow"
    if folded.features.mixed:
        held = f"{centers:,} landmarks, each mixed from two anchors, and no anchor"
    return f'{folded.cost:.3g} × the work of an affine map, which max_cost="affine" asks for', held


def unexplained(pairs: Pairs) -> float:
    """Return the share of the target's variance that a cross-validated ridge leaves unexplained; 1 is no relation."""
    if not pairs.full[0]:  # a ridge needs the scatter of the source: that of the sample
        pairs = replace(pairs, count=len(pairs.sample), sums=None, full=(True, pairs.full[1]))
    p = pairs.normalized("iso")
    total = trace(p.summary.yy) / p.summary.n
    return RidgeFit.of(p).error(p) / total if total else 0.0


def no_relation(pairs: Pairs) -> str | None:
    """Return that two sides show no relation, if they do not; None where they do, or pairs are too few to tell.

    A sample that clearly shows one, which takes milliseconds, spares the cross-validation that decides.
    """
    if len(pairs.sample) < MIN_PAIRS or _clearly_related(pairs):
        return None
    left = unexplained(pairs)
    return None if left < NO_RELATION else unrelated(pairs, left)


def unrelated(pairs: Pairs, left: float) -> str:
    """Return the message that two sides show no relation, given the share of variance that is left unexplained."""
    return (
        f"The two sides show no relation: from {len(pairs):,} pairs, the best linear map leaves {left:.1%} of the "
        "target's variance unexplained in cross-validation. The likely cause is wrong pairs"
    )


def _clearly_related(pairs: Pairs) -> bool:
    """Return whether what is close on one side is close on the other: far more than in shuffled pairings."""
    rows = shuffled_rows(len(pairs.sample), min(len(pairs.sample), SAMPLE_PAIRS), pairs.seed)
    some = pairs.sample.part(rows)
    x, y = _products(some.x), _products(some.y)
    orders = (shuffled_rows(len(rows), len(rows), seed) for seed in range(SHUFFLES))
    null = [float(np.vdot(x, y[np.ix_(order, order)])) for order in orders]
    return bool(np.vdot(x, y) > np.mean(null) + CLEAR * np.std(null))


def _products(rows: np.ndarray) -> np.ndarray:
    """Return the inner products of centered rows, without those of a row with itself."""
    centered = (rows - np.mean(rows, axis=0, dtype=np.float64)).astype(np.float32)  # a few digits are enough
    products = centered @ centered.T
    np.fill_diagonal(products, 0.0)
    return np.asarray(products)


def notes(t: Translator) -> Iterator[str]:
    """Say what a kernel gains and costs, and what is not known of queries."""
    cost, holds = _kernel(t.map_)
    if cost and t.selection_ is not None and t.selection_.runner_up_score is not None:
        scores = f"{t.selection_.score:.3f}, where a linear map has {t.selection_.runner_up_score:.3f}"
        yield f"Kernel: it has {scores}. It takes {cost}; a saved file holds {holds}"
    if (t.goal == "index" or t.frozen_target) and not t.choice_.knows_queries:
        yield (
            "No queries were given: whether the models embed queries otherwise than documents, as with prefixes or "
            "task types, is not known"
        )


def concerns(t: Translator | SimpleNamespace, *, related: bool = False) -> list[str]:
    """Say when not to trust a translator; that its pairs are ``related`` need not be checked again."""
    from relatent.translate.goals import Solution

    found = []
    if t.n_pairs_ < FEW * t.n_features_in_:
        found.append(
            f"{t.n_pairs_:,} anchors are few for {t.n_features_in_} coordinates: see expected_quality() for what more "
            "would add"
        )
    if not related and hasattr(t, "pairs_") and unexplained(t.pairs_) >= NO_RELATION:
        found.append("the two sides show no relation; check that the pairs belong together")
    if Solution(t.map_, t.target_map_).metric == "inner":
        found.append(
            "it maps queries and documents into a shared space: compare translated queries with translated targets, by "
            "inner product"
        )
    return found
