"""How a translator learns: it takes pairs in, wherever they come from, and solves for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import validate_data

from relatent._array import Array, as_parallel, is_space, to_numpy
from relatent._estimator import Transformer
from relatent._linalg import ONE_THREAD, threads_for
from relatent.spaces.sample import Unpaired
from relatent.spaces.space import Space
from relatent.steps import Map
from relatent.translate.endpoints import Endpoints
from relatent.translate.goals import (
    Choice,
    Judge,
    MaxCost,
    Queries,
    Selection,
    Settings,
    Solution,
    Solver,
    check_pairs,
    find_goal,
    refuse_labels,
)
from relatent.translate.likelihood import INDEX_SIZE, BankRows, unpaired_rows
from relatent.translate.pairs import Pairs
from relatent.translate.sources import Sources, are_several, side_by_side

if TYPE_CHECKING:
    from relatent.translate.confidence import Confidence
    from relatent.translate.joined import FitReport

NO_KEYS = np.empty(0, dtype=np.uint64)
# Pairs that a warning names.
NAMED = 5


class Learner(Transformer):
    """What :class:`relatent.Translator` is fitted by; it has the settings, and what can be done once it is fitted."""

    goal: str
    map: str
    normalize: str
    penalty: float | None
    rank: int | None
    frozen_target: bool
    max_cost: MaxCost | None
    blocks: int | Sequence[Sequence[int]] | None
    seed: int
    map_: Map
    target_map_: Map | None = None
    selection_: Selection | None = None
    fit_report_: FitReport | None = None
    confidence_: Confidence | None = None
    sources_: Sources | None = None
    choice_: Choice
    chosen_: tuple[str, ...]
    parts_: list[Pairs]
    bank_: BankRows

    @property
    def goal_(self) -> Solver:
        """What chooses and solves."""
        goal = find_goal(self.goal, self.map, self.frozen_target)
        if self.blocks is None:
            return goal
        from relatent.translate.goals.blocks import Blocks

        return Blocks.of(goal, self.blocks, self._settings, self.goal)

    @property
    def _settings(self) -> Settings:
        bank = getattr(self, "bank_", BankRows(seed=self.seed))
        return Settings(self.map, self.normalize, self.penalty, self.rank, self.seed, self.max_cost, bank)

    def _pairs_options(self, size: int) -> dict[str, Any]:
        """Return the options of :meth:`relatent.Pairs.of` that spare what this translator does not need."""
        full_x, full_y = self.goal_.needs(self._settings)
        widths = None if self.sources_ is None else self.sources_.widths
        return {"seed": self.seed, "size": size, "full_x": full_x, "full_y": full_y, "widths": widths}

    def _one_source(self, X: Any, y: Any = None) -> tuple[Any, Any]:
        """Return a list of sources as one, side by side; what is none stays as it is."""
        if not are_several(X):
            return X, y
        known = None if self.sources_ is None else self.sources_.widths
        X, y, widths = side_by_side(X, y if y is None or is_space(y) else refuse_labels(y), known)
        if not hasattr(self, "map_"):
            self.sources_ = Sources(widths)
        return X, y

    def _take(self, X: Any, y: Any, weights: Array | None, *, size: int, copy: bool) -> Self:
        """Add a chunk; without ``copy``, the arrays stay as they are."""
        X, y = self._one_source(X, y)
        first, ids, endpoints = not hasattr(self, "parts_"), None, None
        if isinstance(X, Space) and isinstance(y, Space):
            from relatent.spaces.join import parallel
            from relatent.spaces.keys import key_hashes

            endpoints, joined = Endpoints.of(X, y), parallel(X, y)
            ids = key_hashes(joined.keys) if X.has_keys else None
            X, y = joined
        x, y = as_parallel(X=X, Y=refuse_labels(y))
        validate_data(self, X, reset=first, skip_check_array=True)
        if first:
            with ONE_THREAD:
                self.endpoints_ = endpoints or Endpoints.of(to_numpy(x), to_numpy(y))
            self.parts_, self.n_pairs_, self.seen_keys_ = [], 0, NO_KEYS
        options = self.parts_[0].options if self.parts_ else self._pairs_options(size)
        chunk = Pairs.of(x, y, start=self.n_pairs_, ids=ids, weights=weights, copy=copy, **options)
        self.parts_ = Pairs.collected([*self.parts_, chunk])
        self.n_pairs_ += x.shape[0]
        if ids is not None:
            self.seen_keys_ = np.union1d(self.seen_keys_, ids)
        return self

    def _take_beside(self, X: Any, y: Any, bank: Any, unlabeled: Any, index: Any) -> None:
        """Take rows of which no pair is known."""
        ranks = self.goal == "retrieval" and self.map == "auto"
        x_rows, y_rows = unpaired_rows(unlabeled, index, (X, y), used=ranks)
        if x_rows is not None or y_rows is not None:
            self.unpaired_ = Unpaired.of(x_rows, y_rows, INDEX_SIZE, self.seed)
        if bank is not None or (x_rows is not None and self.bank_.size and not self.frozen_target):
            rows = x_rows if bank is None else bank
            self.bank_ = self.bank_.with_rows(rows, X, used=ranks and not self.frozen_target)

    def _take_pairs(self, pairs: Pairs) -> Self:
        full = self.goal_.needs(self._settings)
        if any(wanted and not there for wanted, there in zip(full, pairs.full, strict=True)):
            raise ValueError(
                f"The pairs were summed with (full_x, full_y) = {pairs.full}: this translator needs {full}. Sum them "
                "again with Pairs.of(..., full_x=True, full_y=True), the default."
            )
        self.parts_, self.seen_keys_ = [pairs], NO_KEYS
        self.sources_ = None if pairs.widths is None else Sources(pairs.widths)
        self.endpoints_, self.n_features_in_ = Endpoints.of(pairs.sample.x, pairs.sample.y), pairs.dims[0]
        return self

    def _join(
        self,
        source: Space,
        target: Space,
        size: int,
        joining: dict[str, Any],
        known: tuple[Any, ...],
    ) -> Self:
        """Join two spaces; ``known`` is what is given to :meth:`_solve`."""
        from relatent._terminal import stages
        from relatent.translate.joined import join_pairs

        joined = join_pairs(source, target, self._pairs_options(size), **joining)
        self.parts_, self.seen_keys_ = [joined.pairs], joined.seen_keys
        self.endpoints_, self.n_features_in_ = Endpoints.of(source, target), source.dim
        with stages(joining["progress"]) as stage:
            stage("choosing a map")
            self._solve(*known)
        self.fit_report_ = joined.report(self)
        if not joining["force"]:
            self._warn_mismatched("key", joined.keys_of)
        return self

    def _solve(self, judge: Judge | None = None, queries: Any = None, relevant: Any = None) -> Self:
        pairs = replace(Pairs.total(self.parts_), unpaired=getattr(self, "unpaired_", None), penalties=None)
        if self.sources_ is not None and self.blocks is None:  # else, each block has its own
            from relatent.translate.source_penalties import weighed

            pairs = weighed(pairs, self._settings)
            self.sources_ = replace(self.sources_, penalties=pairs.penalties)
        used = self.map == "auto" and (self.goal == "index" or self.frozen_target)
        asked = Queries.of(queries, relevant, pairs.dims, used=used)
        self.pairs_ = pairs.without_views()
        self.parts_, self.n_pairs_ = [self.pairs_], len(pairs)
        check_pairs(pairs, getattr(self.goal_, "MIN_PAIRS", 2))
        with threads_for(len(pairs.sample), min(len(pairs), max(pairs.dims))):
            self.choice_ = self.goal_.choose(pairs, replace(self._settings, judge=judge, queries=asked))
            solved: Solution = self.goal_.solve(pairs, self.choice_)
        self.map_, self.target_map_, self.selection_ = solved.source, solved.target, self.choice_.selection
        several = () if pairs.widths is None or len(pairs.widths) == 1 else (f"{len(pairs.widths)} sources",)
        self.chosen_, self.fit_report_, self.confidence_ = (*self.choice_.words, *several), None, None
        return self

    def _warn_unrelated(self) -> None:
        from relatent.translate.overview import RELATED, no_relation

        # What is left of the variance in held-out pairs, perhaps by a kernel, which shows more than a linear map.
        left = self.selection_.score if self.goal == "vectors" and self.selection_ is not None else 1.0
        with threads_for(len(self.pairs_.sample), min(len(self.pairs_), max(self.pairs_.dims))):
            found = None if left < RELATED else no_relation(self.pairs_)
        if found is not None:
            advice = ": rows in another order. Check that row i of X and row i of y mean the same, or use force=True."
            warnings.warn(found + advice, stacklevel=4)  # of whoever calls fit

    def _warn_mismatched(self, what: str, keys: Callable[[np.ndarray], list[Any]] | None = None) -> None:
        from relatent.translate.pair_audit import mismatched

        with ONE_THREAD:  # it takes a sample
            found = mismatched(self.pairs_)
        if found is not None:
            worst = found.ids[:NAMED].tolist() if keys is None else keys(found.ids[:NAMED])
            warnings.warn(found.warning(f"{what} {', '.join(map(str, worst))}"), stacklevel=4)

    def _forget(self) -> None:
        for name in [name for name in vars(self) if name.endswith("_")]:
            del self.__dict__[name]
