"""The sections of a report: findings as text, tables and charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, isnan
from typing import Any

import numpy as np

from relatent.decide.anchors import WORTH
from relatent.decide.options import OPTIONS, Option
from relatent.decide.rule import in_words
from relatent.decide.threshold import Thresholds
from relatent.decide.verdict import Verdict
from relatent.evaluate.comparison import MEASURES, Comparison
from relatent.evaluate.interval import Measured, Report
from relatent.evaluate.several import Comparisons
from relatent.migrate import MigrationPlan, Verification
from relatent.report import data
from relatent.report import document as doc
from relatent.report.answer import headline_of, limits

# How the measures of a similarity matrix are shown.
SHOWN = {"cka": "Linear CKA", "mutual_knn": "Mutual nearest neighbors"}


def document_of(found: data.Findings) -> doc.Document:
    """Return the report as a document, without sections on what was not measured."""
    sections = []
    for name, (title, field, make) in SECTIONS.items():
        given = found if field is None else getattr(found, field)
        blocks = () if given is None else tuple(make(given))
        sections += [doc.Section(name, title, blocks)] if blocks else []
    sizes = ", ".join(f"{s.name}: {s.rows:,} × {s.dim}" for s in found.provenance.spaces)
    subtitle = " · ".join(part for part in (sizes, found.provenance.date[:10]) if part)
    return doc.Document(found.title, subtitle, headline_of(found), tuple(sections), _note(found))


def _note(found: data.Findings) -> str:
    worst = (*found.worst_queries, *(found.closeness.worst if found.closeness is not None else ()))
    if any(row.text is not None for row in worst):
        return "This report contains no vectors. Items are identified by their keys; their texts were requested."
    return "This report contains no vectors and no texts. Items are identified by their keys."


def _checks(verification: Verification) -> list[doc.Block]:
    rows = tuple((c.name, "passed" if c.passed else "failed", c.found) for c in verification.checks)
    title = "The steps, on a small copy of the store" if verification.rehearsed else "Checks of the migrated store"
    return [doc.Table(title, ("check", "result", "found"), rows)]


def _plan(plan: MigrationPlan) -> list[doc.Block]:
    sizes = doc.Table("The store", ("", "now", "after"), tuple(plan.sizes()), (1, 2))
    return [sizes, *(doc.Paragraph(sentence) for sentence in plan.sentences())]


def _options(v: Verdict) -> list[doc.Block]:
    labels = tuple(v.label(measure) for measure in v.scores.measures)
    numbers = tuple(range(1, len(labels) + 1))
    shown = [option for option in OPTIONS if option in v.options]
    names = [OPTIONS[option].label.format(candidates=f"{v.scores.candidates:,}") for option in shown]
    scores = tuple(
        (name, *(in_words(v[o][m]) for m in v.scores.measures)) for name, o in zip(names, shown, strict=True)
    )
    changes = tuple((o, *(in_words(r[m], "+") for m in v.scores.measures)) for o, r in v.changes.items())
    recommended = v.decision.recommended
    best = shown.index(recommended) if recommended in shown else None
    return [
        doc.Bullets(v.decision.reasons),
        _option_bars(v, shown),
        doc.Table("Scores of the options, with 95 % intervals", ("option", *labels), scores, numbers, best),
        doc.Table("Paired differences from staying", ("option", *labels), changes, numbers),
        *_in_index(v),
        *_storage(v),
        doc.Paragraph(f"{v.queries:,} queries, {v.scores.items:,} items; relevant: {v.relevance}.", small=True),
        *([] if v.held_out is None else [doc.Paragraph(str(v.held_out), small=True)]),
        doc.Paragraph(f"The rule: {v.rule}", small=True),
    ]


def _in_index(v: Verdict) -> list[doc.Block]:
    if v.expected is None:
        return []
    header = ("option", v.label(v.deciding), "against staying")
    return [doc.Table(f"Expected in an index of {v.expected.rows:,} items", header, tuple(v.expected.cells()), (1, 2))]


def _option_bars(v: Verdict, shown: list[Option]) -> doc.BarChart:
    measure, chosen = v.label(v.deciding), v.decision.recommended or "translate"
    scores = {option: v[option][v.deciding] for option in shown}
    bars = tuple(doc.Bar(name, e.value, e.low, e.high, chosen=name == chosen) for name, e in scores.items())
    values = "; ".join(f"{bar.name} {bar.value:.3f}" for bar in bars)
    return doc.BarChart(
        f"{measure} of each option.", f"{values}. Lines are 95 % intervals.", measure, bars, in_table=True
    )


def _storage(v: Verdict) -> list[doc.Block]:
    if v.storage is None:
        return []
    rows = tuple(
        (c.option, c.storage, f"{c.nbytes:,}", f"{c.score.value:.3f}", in_words(c.change, "+")) for c in v.storage.lines
    )
    header = ("index", "stored as", "bytes per vector", v.storage.measure, "change")
    return [doc.Table("Scores of a smaller index", header, rows, (2, 3, 4))]


def _limits(found: data.Findings) -> list[doc.Block]:
    about_translation = found.verdict is not None or found.translator is not None
    return [doc.Bullets(tuple(limits(found)))] if about_translation else []


def _slices(found: data.Findings) -> list[doc.Block]:
    blocks: list[doc.Block] = []
    if (v := found.verdict) is not None and (lines := _worst_first(v.changes["translate"], v.deciding)):
        shown = [option for option in OPTIONS if option in v.options and option != "untranslated"]
        scores = [[f"{v[option][line.slice, v.deciding].value:.3f}" for option in shown] for line in lines]
        rows = tuple(
            (line.slice, f"{line.rows:,}", *cells, in_words(line.estimate, "+"))
            for line, cells in zip(lines, scores, strict=True)
        )
        header = ("slice", "queries", *shown, "translate against stay")
        title = f"{v.label(v.deciding)}, the worst slice first"
        blocks.append(doc.Table(title, header, rows, tuple(range(1, len(header)))))
    if found.closeness is not None and (lines := _worst_first(found.closeness.fidelity, "cosine")):
        rows = tuple((line.slice, f"{line.rows:,}", in_words(line.estimate)) for line in lines)
        title = "Cosine to the true vectors, the worst slice first"
        blocks.append(doc.Table(title, ("slice", "items", "cosine"), rows, (1, 2)))
    return blocks


def _worst_first(report: Report, measure: str) -> list[Measured]:
    lines = [line for line in report if line.measure == measure and line.slice != "all"]
    return sorted(lines, key=lambda line: line.estimate.value)


def _worst(found: data.Findings) -> list[doc.Block]:
    blocks: list[doc.Block] = []
    if found.worst_queries and (v := found.verdict) is not None:
        title = f"Queries that lose most by translating, in {v.label(v.deciding)}"
        blocks.append(_items(title, ("stay", "translate"), found.worst_queries))
    if found.closeness is not None:
        blocks.append(_items("Items with the lowest cosine to the true vector", ("cosine",), found.closeness.worst))
    return blocks


def _items(title: str, scores: tuple[str, ...], rows: tuple[data.WorstRow, ...]) -> doc.Table:
    texts = any(row.text is not None for row in rows)
    values = [
        (f"{row.value:.3f}",) if row.against is None else (f"{row.against:.3f}", f"{row.value:.3f}") for row in rows
    ]
    cells = tuple(
        (row.key, *numbers, *((row.text or "",) if texts else ())) for row, numbers in zip(rows, values, strict=True)
    )
    return doc.Table(title, ("key", *scores, *(("text",) if texts else ())), cells, tuple(range(1, len(scores) + 1)))


def _pairs(curve: data.PairsCurve) -> list[doc.Block]:
    change = f"{curve.pairs[-1]:,} more are expected to change the MRR by {in_words(curve.twice, '+')}."
    worth = "are" if curve.twice.low > WORTH else "may be" if curve.twice.high >= WORTH else "are not"
    advice = () if worth == "are not" else (" ", doc.Code("relatent anchors"), " selects them.")
    method = (
        f"The same map, fitted on fewer pairs, retrieves {curve.gallery:,} held-out items among true vectors. Nothing "
        "is known beyond twice the pairs at hand."
    )
    outlook = doc.Paragraph((f"More pairs {worth} worth their cost: {change}", *advice))
    return [outlook, _learning_curve(curve), doc.Paragraph(method, small=True)]


def _learning_curve(curve: data.PairsCurve) -> doc.LineChart:
    measured = tuple(doc.Point(n, e.value, e.low, e.high) for n, e in zip(curve.pairs, curve.mrr, strict=True))
    now, gain = measured[-1], curve.twice
    ahead = doc.Point(2 * now.x, *(now.y + g for g in (gain.value, gain.low, gain.high)))
    expected = doc.Line("extrapolated", (doc.Point(now.x, now.y, now.y, now.y), ahead), expected=True)
    text = f"With {now.x:,} pairs it is {now.y:.3f}; with twice as many, {ahead.y:.3f} is expected."
    lines = (doc.Line("measured", measured), expected)
    return doc.LineChart("MRR by number of pairs.", text, "pairs", "MRR", lines, log_x=True)


def _cosines(close: data.Closeness) -> list[doc.Block]:
    text = f"{close.rows:,} held-out items; the mean is {close.fidelity['cosine'].value:.3f}."
    names = {"cosine": "cosine", "r2": "variance explained (R²)", "norm_ratio": "norm, translated over true"}
    rows = [(label, in_words(close.fidelity[measure])) for measure, label in names.items()]
    if close.untranslated is not None:
        rows.insert(1, ("cosine without translation", in_words(close.untranslated)))
    if close.queries is not None:
        rows.insert(1, ("cosine of queries, translated as items are", in_words(close.queries)))
    return [
        _histogram(close.cosines, "Cosine of the translated vector to the true one.", text, "cosine"),
        doc.Table("On held-out items", ("measure", "value"), tuple(rows), (1,)),
    ]


def _histogram(spread: data.Spread, title: str, description: str, label: str) -> doc.Histogram:
    return doc.Histogram(title, description, label, spread.edges, tuple(spread.shares.items()))


def _thresholds(tables: Mapping[str, Thresholds]) -> list[doc.Block]:
    text = (
        "The same cosine similarity means something else under another model. As many pairs of items pass each new "
        "threshold as passed the old one."
    )
    first = next(iter(tables.values()))
    rows = []
    for i, line in enumerate(first):
        found = [table.lines[i].new for table in tables.values()]
        cells = ("nothing passes" if isnan(e.value) else in_words(e) for e in found)
        rows.append((f"{line.old:g}", *cells, f"{line.passing:,}" + (" (too few to rely on)" if line.few else "")))
    header = ("old threshold", *tables, "pairs that pass")
    title = f"Over all pairs of {first.rows:,} items"
    return [doc.Paragraph(text), doc.Table(title, header, tuple(rows), tuple(range(len(header))))]


def _anchors(a: data.Anchors) -> list[doc.Block]:
    d, condition = a.diagnosis, a.diagnosis.conditioning
    spans = isfinite(condition.condition_number)
    rows = [
        ("anchors", f"{a.known:,}" + (f", of which {a.looked_at:,} were examined" if a.looked_at < a.known else "")),
        ("rank", f"{condition.rank:,}"),
        ("effective rank", f"{condition.effective_rank:.1f}"),
        ("condition number", f"{condition.condition_number:.3g}" if spans else "infinite: some directions are missing"),
        ("near-duplicates", f"{d.duplicates:,}"),
    ]
    if d.coverage is not None:
        rows.append(("median distance of held-out items to the nearest anchor", f"{d.coverage.median:.3f}"))
        rows.append(("held-out items without an anchor on their side", f"{d.coverage.uncovered:.1%}"))
    return [doc.Table("The anchors, centered", ("measure", "value"), tuple(rows), (1,)), doc.Bullets(d.recommendations)]


def _similarity(s: data.Similarity) -> list[doc.Block]:
    if len(s.names) > 2:
        text = f"On {s.rows:,} items that all spaces share"
        return [
            doc.HeatMap(f"{SHOWN[name]}.", f"{text}; {MEASURES[name].means}.", s.names, values)
            for name, values in s.measures.items()
        ]
    rows = tuple((SHOWN[name], f"{values[0][1]:.3f}", MEASURES[name].means) for name, values in s.measures.items())
    return [doc.Table(f"On {s.rows:,} items in common", ("measure", "value", "how to read it"), rows, (1,))]


def _comparison(c: Comparison) -> list[doc.Block]:
    bars = tuple(
        doc.Bar(s.name.replace("_", " "), s.value, chance=s.null, chosen=True) for s in c if s.measure.larger_is_closer
    )
    text = "1 is the most similar; the vertical lines show shuffled pairings."
    rows = tuple(
        (s.name.replace("_", " "), f"{s.value:.3f}", f"{s.null:.3f}", f"{s.p_value:.3g}", s.measure.means) for s in c
    )
    title = f"Every measure, with the mean of {c.permutations:,} shuffled pairings"
    return [
        doc.BarChart("Measures with a maximum of 1.", text, "similarity", bars, in_table=True),
        doc.Table(title, ("measure", "value", "shuffled", "p", "how to read it"), rows, (1, 2, 3)),
    ]


def _comparisons(c: Comparisons) -> list[doc.Block]:
    header, rows = c.table()
    names = ", ".join(f"{i} {name}" for i, name in enumerate(c.names, start=1))
    cells = tuple((row[0].replace("_", " "), *row[1:]) for row in rows)
    return [doc.Table(f"{names}; {c.n:,} rows of all", header, cells, tuple(range(1, len(header))))]


def _geometry(g: data.Geometry) -> list[doc.Block]:
    lines = tuple(
        doc.Line(name, tuple(doc.Point(i, value) for i, value in enumerate(values, start=1)))
        for name, values in g.singular.items()
    )
    half = "; ".join(f"{name} {_half_variance(values)}" for name, values in g.singular.items())
    text = f"Directions with half of the variance: {half}. A line that falls early uses few of its coordinates."
    spectra = doc.LineChart(
        "Singular values.", text, "direction", "relative to the largest", lines, log_x=True, log_y=True
    )
    rows = tuple((name, f"{n.mean:.4g}", f"{n.std:.3g}", f"{n.outlier_share:.1%}") for name, n in g.norms.items())
    table = doc.Table("Norms", ("space", "mean", "standard deviation", "outliers"), rows, (1, 2, 3))
    if g.norm_spread is None:
        return [spectra, table]
    text = "Divided by the mean norm of each space, so that the spreads can be compared."
    label = "norm over the mean norm of the space"
    return [spectra, _histogram(g.norm_spread, "Distribution of the norms.", text, label), table]


def _half_variance(singular: tuple[float, ...]) -> int:
    """Return how many of the leading directions have half of the variance."""
    held = np.cumsum(np.square(singular))
    return int(np.searchsorted(held, held[-1] / 2)) + 1


def _provenance(found: data.Findings) -> list[doc.Block]:
    p: data.Provenance = found.provenance
    files = tuple(
        (s.role, s.path or s.name, f"{s.rows:,} × {s.dim} {s.dtype}", s.model or "not recorded", s.fingerprint)
        for s in p.spaces
    )
    facts = [("date", p.date), *p.versions.items(), ("seed", str(p.seed))]
    if p.command:
        facts.append(("command", p.command))
    if (t := found.translator) is not None:
        facts.append(("translator", f"{t.map}, goal {t.goal}, {t.dims[0]} → {t.dims[1]}, {t.pairs:,} pairs"))
    if found.fit is not None:
        facts.append(("joined", found.fit.joined))
    about = doc.Table("How it was made", ("what", "value"), tuple(facts))
    return [*([doc.Table("Files", ("role", "file", "size", "model", "fingerprint"), files)] if files else []), about]


# By name: the title, the field of the findings (None: all of them), and what the section shows of it.
SECTIONS: dict[str, tuple[str, str | None, Callable[[Any], list[doc.Block]]]] = {
    "checks": ("Checks", "verification", _checks),
    "plan": ("What it would take", "plan", _plan),
    "options": ("Stay, translate, rerank or re-embed", "verdict", _options),
    "limits": ("When this will not help", None, _limits),
    "slices": ("By slice", None, _slices),
    "worst": ("Worst items", None, _worst),
    "pairs": ("Would more pairs help?", "curve", _pairs),
    "cosines": ("How close translated vectors are", "closeness", _cosines),
    "thresholds": ("Similarity thresholds", "thresholds", _thresholds),
    "anchors": ("Anchors", "anchors", _anchors),
    "similarity": ("How similar the spaces are", "similarity", _similarity),
    "comparison": ("Similarity measures", "comparison", _comparison),
    "comparisons": ("Similarity measures of every pair", "comparisons", _comparisons),
    "geometry": ("Singular values and norms", "geometry", _geometry),
    "provenance": ("Provenance", None, _provenance),
}
