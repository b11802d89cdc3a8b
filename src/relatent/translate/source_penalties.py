"""One ridge penalty for each of several sources, and which sources are worth having: from sums alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relatent._array import Array
from relatent._terminal import Tabular, render
from relatent.spaces.normalize import UNIT_ROWS
from relatent.spaces.sample import Sample
from relatent.summary import Summary
from relatent.translate.goals import Settings
from relatent.translate.maps import find_map
from relatent.translate.pairs import Pairs
from relatent.translate.ridge import RidgePath, first_valley, trace
from relatent.translate.sources import parts

# Half powers of ten, in mean eigenvalues of a source. At the upper end, a source is left out.
PENALTIES = tuple(float(p) for p in np.logspace(-6, 6, 25))
MAX_SWEEPS = 50
# Residuals below this share of the variance are rounding noise of the sums.
NOISE = 1e-10


def weighed(pairs: Pairs, settings: Settings) -> Pairs:
    """Return pairs of several sources with a penalty for each, where the map has any; given, it is the same for all."""
    if pairs.widths is None or len(pairs.widths) < 2 or not (settings.map == "auto" or find_map(settings.map).shrinks):
        return pairs
    if settings.normalize == "whiten":
        raise ValueError(
            "normalize='whiten' mixes the coordinates of several sources, which have a penalty each: expected another, "
            "such as 'iso' or 'standard'."
        )
    if not pairs.full[0]:
        raise ValueError("The pairs were summed with full_x=False: the penalties of several sources need the scatter.")
    if settings.penalty is not None:
        return replace(pairs, penalties=(1.0,) * len(pairs.widths))
    affine = "center" if settings.normalize in UNIT_ROWS else settings.normalize
    summary = replace(pairs, penalties=None).normalized(affine, span=False).summary
    return replace(pairs, penalties=source_penalties(summary, pairs.widths))


def source_penalties(summary: Summary, widths: Sequence[int]) -> tuple[float, ...]:
    r"""Choose a ridge penalty for each of several sources by generalized cross-validation.

    .. math:: \min_{W,b} \lVert Y - \textstyle\sum_s X_s W_s - b \rVert^2 + \sum_s \lambda_s u_s \lVert W_s \rVert^2

    with :math:`u_s` the mean eigenvalue of the scatter of source s, in units of which penalties are given. From the
    best common penalty, one after the other is moved to where the error is least while the others stay, until none
    moves: coordinate descent. Only the blocks of XᵀX and XᵀY are needed. What is found does not depend on the units
    of any source. It is a local optimum: of sources that say the same, either may be left out.

    References: Golub, Heath & Wahba, Technometrics 21, 1979; Heo et al., 2026 (arXiv 2608.03893) concatenate layers
    under one penalty.

    >>> from relatent.translate import summarize
    >>> rng = np.random.default_rng(0)
    >>> x, noise = rng.normal(size=(200, 5)), 9 * rng.normal(size=(200, 5))
    >>> useful, useless = source_penalties(summarize(np.c_[x, noise], x + rng.normal(size=x.shape)), (5, 5))
    >>> useful < 1 < useless
    True
    """
    if len(widths) == 1:
        path = RidgePath.of(summary)
        return (first_valley(path.gcv, PENALTIES),)
    columns = list(parts(widths))
    units = [trace(summary.xx[part, part]) / (part.stop - part.start) or 1.0 for part in columns]
    root = np.repeat(np.asarray(units) ** -0.5, widths)
    scaled = replace(summary, xx=root[:, None] * summary.xx * root, xy=root[:, None] * summary.xy)
    place = np.full(len(widths), PENALTIES.index(first_valley(RidgePath.of(scaled).gcv, PENALTIES)))
    for _ in range(MAX_SWEEPS):
        before = place.copy()
        for i, part in enumerate(columns):
            held = np.repeat(np.asarray(PENALTIES)[place], widths)
            place[i] = _valley(Line.of(scaled, held, part), int(place[i]))
        if np.array_equal(place, before):
            break
    return tuple(PENALTIES[i] for i in place)


def _valley(line: Line, start: int) -> int:
    """Walk down from where one is: beyond a ridge in the error, repeated pairs make it collapse."""
    errors = [line.gcv(penalty) for penalty in PENALTIES]
    for step in (1, -1):
        while 0 <= start + step < len(errors) and errors[start + step] < errors[start]:
            start += step
    return start


@dataclass(frozen=True)
class Line:
    """The cross-validation error as the penalty of one source changes, the others held: one decomposition for all.

    With the other sources eliminated, what is left of this one is diagonal in the eigenvectors of the Schur
    complement: each penalty then costs a product of its width.
    """

    n: float
    values: np.ndarray
    explained: np.ndarray
    """R̃ R̃ᵀ, of what the other sources leave of XᵀY, in the eigenvectors."""
    shrunk: np.ndarray
    """How the penalized norm of the other sources changes with the square of this one's coefficients …"""
    pulled: np.ndarray
    """… and with the coefficients."""
    unexplained: float
    freedom: float
    total: float

    @staticmethod
    def of(summary: Summary, penalties: np.ndarray, part: slice) -> Line:
        """Eliminate all other sources, given the penalty of each coordinate."""
        from scipy.linalg import cho_factor, cho_solve

        d = len(penalties)
        rest = np.r_[0 : part.start, part.stop : d]
        held = penalties[rest][:, None]
        inner = cho_factor(summary.xx[np.ix_(rest, rest)] + np.diag(held[:, 0]), lower=True)
        inverse = cho_solve(inner, np.eye(len(rest)))
        alone, turn = inverse @ summary.xy[rest], inverse @ summary.xx[rest, part]
        values, vectors = np.linalg.eigh(summary.xx[part, part] - summary.xx[part, rest] @ turn)
        left = vectors.T @ (summary.xy[part] - summary.xx[part, rest] @ alone)
        turn = turn @ vectors
        total = trace(summary.yy)
        return Line(
            summary.n,
            np.maximum(values, 0.0),
            left @ left.T,
            turn.T @ (held * turn),
            np.sum(left * (turn.T @ (held * alone)), axis=1),
            total - float(np.sum(summary.xy[rest] * alone)) - float(np.sum(held * alone**2)),
            summary.n - 1 - d + float(np.sum(held[:, 0] * np.diagonal(inverse))),
            total,
        )

    def gcv(self, penalty: float) -> float:
        """Generalized cross-validation error: (RSS/n) / (freedom/n)²."""
        z = 1 / (self.values + penalty)
        power = np.diagonal(self.explained)
        explained = z @ power + penalty * (z**2 @ power) - 2 * (z @ self.pulled)
        residual = max(self.unexplained - explained - z @ (self.shrunk * self.explained) @ z, NOISE * self.total)
        freedom = (self.freedom + penalty * np.sum(z) + z @ np.diagonal(self.shrunk)) / self.n
        return float(residual / self.n / freedom**2) if freedom > 0 else np.inf


@dataclass(frozen=True)
class SourceSelection(Tabular):
    """Sources in the order in which they help most, and the held-out R² with each and those before it."""

    order: tuple[int, ...]
    r2: tuple[float, ...]

    @property
    def best(self) -> tuple[int, ...]:
        """The sources up to the highest R²."""
        return self.order[: int(np.argmax(self.r2)) + 1]

    def records(self) -> list[dict[str, Any]]:
        """Return one record per source."""
        return [{"source": i, "r2": value} for i, value in zip(self.order, self.r2, strict=True)]

    def __str__(self) -> str:
        cells = [(str(i), f"{value:.4f}") for i, value in zip(self.order, self.r2, strict=True)]
        return render(("source", "held-out R² up to it"), cells, numbers=(0, 1))


def select_sources(
    sources: Sequence[Array] | Pairs, y: Array | None = None, *, max_sources: int | None = None, seed: int = 0
) -> SourceSelection:
    r"""Order sources greedily: first the one that predicts held-out targets best, then what adds most to it.

    .. math:: R^2 = 1 - \frac{\sum \lVert y - \hat y \rVert^2}{\sum \lVert y - \bar y \rVert^2}

    on held-out pairs, :math:`\hat y` being a ridge on the sources side by side, each divided by its root mean square,
    with the penalty of least generalized cross-validation error. Summed up once, every subset is a block of the sums.
    ``max_sources`` stops early. Two sources that say the same are not both near the front: the second adds nothing.

    >>> rng = np.random.default_rng(0)
    >>> a, b, noise = (rng.normal(size=(300, 4)) for _ in range(3))
    >>> select_sources([noise, a, b], np.c_[a, 0.5 * b]).best
    (1, 2)
    """
    pairs = sources if isinstance(sources, Pairs) else Pairs.of(sources, y, seed=seed)
    if pairs.widths is None:
        raise ValueError("One source was given: expected several to select from, a list of arrays with the same rows.")
    count = len(pairs.widths)
    wanted = count if max_sources is None else max_sources
    if not 1 <= wanted <= count:
        raise ValueError(f"max_sources is {max_sources}: expected 1 to {count}, as many as there are sources.")
    even = replace(pairs, penalties=(1.0,) * count)
    trials = [_HeldOut.of(rest, pairs.sample.part(rows)) for rest, rows in even.trials(seed)]
    columns = list(parts(pairs.widths))
    order: list[int] = []
    scores: list[float] = []
    while len(order) < wanted:
        found = {
            i: float(np.mean([trial.r2(np.concatenate([np.r_[columns[j]] for j in (*order, i)])) for trial in trials]))
            for i in range(count)
            if i not in order
        }
        order.append(max(found, key=found.__getitem__))
        scores.append(found[order[-1]])
    return SourceSelection(tuple(order), tuple(scores))


@dataclass(frozen=True)
class _HeldOut:
    """Sums of the pairs that are fitted on, and of held-out ones, about the same means."""

    known: Summary
    xx: np.ndarray
    xy: np.ndarray
    total: float

    @staticmethod
    def of(rest: Pairs, held: Sample) -> _HeldOut:
        p = rest.normalized("iso", span=False)
        x, y = p.of(held)
        return _HeldOut(p.summary, x.T @ x, x.T @ y, float(np.sum(y**2)))

    def r2(self, columns: np.ndarray) -> float:
        """Fit on some coordinates of the source, and predict what is held out."""
        some = np.ix_(columns, columns)
        path = RidgePath.of(replace(self.known, mean_x=columns, xx=self.known.xx[some], xy=self.known.xy[columns]))
        matrix = path.matrix(path.best())
        residual = self.total - 2 * np.sum(matrix * self.xy[columns]) + np.sum(matrix * (self.xx[some] @ matrix))
        return 1 - float(residual) / (self.total or 1.0)
