"""The charts of a report, from its findings."""

from __future__ import annotations

from relatent.decide.options import OPTIONS
from relatent.decide.verdict import Verdict
from relatent.evaluate.comparison import MEASURES, Comparison
from relatent.report.data import Closeness, Geometry, PairsCurve, Similarity, Spread
from relatent.report.document import Band, Bar, BarChart, HeatMap, Histogram, Line, LineChart

# How the measures of a similarity matrix are shown.
SHOWN = {"cka": "Linear CKA", "mutual_knn": "Mutual nearest neighbors"}


def bars_of_options(verdict: Verdict) -> BarChart:
    """Return the deciding measure of every option, with intervals."""
    measure = verdict.label(verdict.deciding)
    shown = [option for option in OPTIONS if option in verdict.options]
    bars = tuple(
        Bar(option, e.value, e.low, e.high, chosen=option == (verdict.decision.recommended or "translate"))
        for option, e in ((option, verdict[option][verdict.deciding]) for option in shown)
    )
    said = "; ".join(f"{bar.name} {bar.value:.3f}" for bar in bars)
    return BarChart(f"{measure} of each option.", f"{said}. Lines are 95 % intervals.", measure, bars, in_table=True)


def learning_curve(curve: PairsCurve) -> LineChart:
    """Return the score at each number of pairs, and what twice as many are expected to give."""
    measured = tuple(Band(n, e.value, e.low, e.high) for n, e in zip(curve.pairs, curve.mrr, strict=True))
    now, gain = measured[-1], curve.twice
    ahead = Band(2 * now.x, *(now.y + g for g in (gain.value, gain.low, gain.high)))
    lines = (
        Line("measured", measured),
        Line("expected of twice as many", (Band(now.x, now.y, now.y, now.y), ahead), expected=True),
    )
    said = f"With {now.x:,} pairs it is {now.y:.3f}; twice as many are expected to reach {ahead.y:.3f}."
    return LineChart("MRR against the number of pairs.", said, "pairs", "MRR", lines, log_x=True)


def cosine_histogram(close: Closeness) -> Histogram:
    """Return how the cosines of held-out items are spread."""
    mean = close.fidelity["cosine"].value
    said = f"Of {close.rows:,} held-out items; the mean is {mean:.3f}."
    return _histogram(close.cosines, "Cosine of the translated vector to the true one.", said, "cosine")


def norm_histogram(spread: Spread) -> Histogram:
    """Return how the norms of each space are spread."""
    said = "Each is divided by the mean norm of its space, so that narrow and wide spreads can be compared."
    return _histogram(spread, "Spread of the norms.", said, "norm over the mean norm of the space")


def _histogram(spread: Spread, title: str, description: str, label: str) -> Histogram:
    return Histogram(title, description, label, spread.edges, tuple(spread.shares.items()))


def spectra(geometry: Geometry) -> LineChart:
    """Return the singular values of each space, the largest being 1."""
    lines = tuple(
        Line(name, tuple(Band(i, value) for i, value in enumerate(values, start=1)))
        for name, values in geometry.singular.items()
    )
    used = "; ".join(f"{name} {_half(values)}" for name, values in geometry.singular.items())
    said = f"Directions that hold half of the variance: {used}. A line that falls early uses few of its coordinates."
    return LineChart("Singular values.", said, "direction", "relative to the largest", lines, log_x=True, log_y=True)


def _half(values: tuple[float, ...]) -> int:
    """Return how many of the leading directions hold half of the variance of those shown."""
    total, held = sum(v * v for v in values), 0.0
    for i, value in enumerate(values, start=1):
        held += value * value
        if held >= total / 2:
            return i
    return len(values)


def similarity_maps(similarity: Similarity) -> list[HeatMap]:
    """Return one matrix per measure of similarity."""
    rows = f"On {similarity.rows:,} items that all spaces share"
    return [
        HeatMap(f"{SHOWN[name]}.", f"{rows}; {MEASURES[name].means}.", similarity.names, values)
        for name, values in similarity.measures.items()
    ]


def bars_of_comparison(comparison: Comparison) -> BarChart:
    """Return the measures that grow with similarity and end at 1."""
    shown = [s for s in comparison if s.measure.larger_is_closer]
    bars = tuple(Bar(s.name.replace("_", " "), s.value, chance=s.null, chosen=True) for s in shown)
    said = "1 is as similar as the measure can tell; the upright lines are what shuffled pairings give."
    return BarChart("Measures that end at 1.", said, "similarity", bars, in_table=True)
