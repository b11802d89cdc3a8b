"""A bank of queries that shows, when an index is built, which of its items are hubs: near to many queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent._array import as_matrix, to_numpy
from relatent.spaces.sample import shuffled_rows
from relatent.spaces.space import Space
from relatent.steps import Bank
from relatent.translate.pairs import Pairs

# Rows beyond which a bank takes space and time, and tells little more.
BANK_SIZE = 1_000
# The best queries of a large bank that are averaged over (CSLS takes ten); of a small one, this share.
NEIGHBORS, SHARE = 5, 0.05


def bank_of(queries: np.ndarray, offsets: np.ndarray, weight: float) -> Bank:
    """Return the bank of these queries, with the number of neighbors that suits its size."""
    return Bank(queries, offsets, weight, min(NEIGHBORS, int(np.ceil(SHARE * len(queries)))))


@dataclass(frozen=True, eq=False)
class BankRows:
    """Where the queries of a bank come from: source vectors that were given for it, or the pairs' own."""

    given: np.ndarray | None = None
    size: int = BANK_SIZE
    """The maximum; 0 is no bank."""
    seed: int = 0

    def of(self, pairs: Pairs) -> np.ndarray:
        """Return the source vectors for a map that is fitted to these pairs."""
        rows = pairs.sample.x if self.given is None else self.given
        if len(rows) <= self.size:
            return rows
        return np.asarray(rows[np.sort(shuffled_rows(len(rows), self.size, self.seed))])

    def with_rows(self, bank: Any, source: Any, *, used: bool) -> BankRows:
        """Return the same with rows that were given, if they are of the source's space and there is a use for them."""
        if not (used and self.size):
            raise ValueError(
                'bank was given, and only goal="retrieval" without a frozen target and with a bank_size above 0 uses '
                "one: leave it out."
            )
        rows = to_numpy(as_matrix(bank.vectors if isinstance(bank, Space) else bank, "bank"))
        dim = source.dims[0] if isinstance(source, Pairs) else np.shape(source)[-1]
        if rows.shape[1] != dim:
            raise ValueError(f"bank has shape {rows.shape}: expected {dim} columns, vectors of the source.")
        return replace(self, given=rows)
