"""The sections of a report about what was measured: pairs, cosines, thresholds, anchors, similarity, provenance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite, isnan

from relatent.decide.anchors import WORTH
from relatent.decide.options import OPTIONS
from relatent.decide.rule import in_words
from relatent.decide.threshold import Threshold, Thresholds
from relatent.decide.verdict import MEANINGS, Verdict
from relatent.evaluate.comparison import MEASURES
from relatent.evaluate.interval import Estimate, Measured, Report
from relatent.report.answer import headline_of, limits
from relatent.report.charts import (
    SHOWN,
    bars_of_comparison,
    bars_of_options,
    cosine_histogram,
    learning_curve,
    norm_histogram,
    similarity_maps,
    spectra,
)
from relatent.report.data import Closeness, Findings, PairsCurve, WorstRow
from relatent.report.document import Block, Bullets, Document, Paragraph, Section, Table


def about_pairs(found: Findings) -> list[Block]:
    """Return whether more pairs are worth buying, and the learning curve that says so."""
    if found.curve is None:
        return []
    said = (
        f"The same map, fitted on fewer pairs, looks {found.curve.gallery:,} held-out items up among true vectors. "
        "Beyond twice the pairs at hand, nothing is known."
    )
    return [Paragraph(_worth(found.curve)), learning_curve(found.curve), Paragraph(said, small=True)]


def _worth(curve: PairsCurve) -> str:
    words = f"{curve.pairs[-1]:,} more are expected to change the MRR by {in_words(curve.twice, '+')}."
    if curve.twice.high < WORTH:
        return f"More pairs are not worth buying: {words}"
    certain = "are" if curve.twice.low > WORTH else "may be"
    return f"More pairs {certain} worth buying: {words} To learn which, run relatent anchors SOURCE TARGET."


def about_cosines(found: Findings) -> list[Block]:
    """Return how close translated vectors come to the true ones."""
    close = found.closeness
    if close is None:
        return []
    names = {"cosine": "cosine", "r2": "variance explained (R²)", "norm_ratio": "norm, translated over true"}
    rows = [(label, in_words(close.fidelity[measure])) for measure, label in names.items()]
    if close.untranslated is not None:
        rows.insert(1, ("cosine without translation", in_words(close.untranslated)))
    return [cosine_histogram(close), Table("On held-out items", ("measure", "value"), tuple(rows), (1,))]


def about_thresholds(found: Findings) -> list[Block]:
    """Return the new thresholds for old ones."""
    if found.thresholds is None:
        return []
    said = (
        "A threshold on cosine similarity means something else under another model. Each new threshold lets as many "
        "pairs of items pass as the old one did."
    )
    return [Paragraph(said), _threshold_table(found.thresholds)]


def _threshold_table(tables: Mapping[str, Thresholds]) -> Table:
    first = next(iter(tables.values()))
    rows = tuple(
        (f"{line.old:g}", *(_threshold(table.lines[i].new) for table in tables.values()), _passing(line))
        for i, line in enumerate(first)
    )
    header = ("old threshold", *tables, "pairs that pass")
    return Table(f"Over all pairs of {first.rows:,} items", header, rows, tuple(range(len(header))))


def _passing(line: Threshold) -> str:
    return f"{line.passing:,}" + (" (too few to rely on)" if line.few else "")


def _threshold(e: Estimate) -> str:
    return "nothing passes" if isnan(e.value) else in_words(e)


def about_anchors(found: Findings) -> list[Block]:
    """Return what was found about the anchors."""
    if found.anchors is None:
        return []
    a, d = found.anchors, found.anchors.diagnosis
    rows = [
        ("anchors", f"{a.known:,}" + (f", of which {a.looked_at:,} were looked at" if a.looked_at < a.known else "")),
        ("rank", f"{d.conditioning.rank:,}"),
        ("effective rank", f"{d.conditioning.effective_rank:.1f}"),
        ("condition number", _condition(d.conditioning.condition_number)),
        ("near-duplicates", f"{d.duplicates:,}"),
    ]
    if d.coverage is not None:
        rows.append(("distance of held-out items to the nearest anchor, median", f"{d.coverage.median:.3f}"))
        rows.append(("held-out items without an anchor on their side", f"{d.coverage.uncovered:.1%}"))
    return [Table("The anchors, centered", ("measure", "value"), tuple(rows), (1,)), Bullets(d.recommendations)]


def _condition(value: float) -> str:
    return f"{value:.3g}" if isfinite(value) else "infinite: they do not span every direction"


def about_geometry(found: Findings) -> list[Block]:
    """Return singular values and norms of each space."""
    if found.geometry is None:
        return []
    g = found.geometry
    rows = tuple((name, f"{n.mean:.4g}", f"{n.std:.3g}", f"{n.outlier_share:.1%}") for name, n in g.norms.items())
    table = Table("Norms", ("space", "mean", "standard deviation", "outliers"), rows, (1, 2, 3))
    return [spectra(g), *([] if g.norm_spread is None else [norm_histogram(g.norm_spread)]), table]


def about_similarity(found: Findings) -> list[Block]:
    """Return how similar every two spaces are: a matrix, or two numbers where there are two spaces."""
    s = found.similarity
    if s is None:
        return []
    if len(s.names) > 2:
        return list(similarity_maps(s))
    rows = tuple((SHOWN[name], f"{values[0][1]:.3f}", MEASURES[name].means) for name, values in s.measures.items())
    return [Table(f"On {s.rows:,} items in common", ("measure", "value", "how to read it"), rows, (1,))]


def about_comparison(found: Findings) -> list[Block]:
    """Return every measure of a comparison."""
    c = found.comparison
    if c is None:
        return []
    rows = tuple(
        (s.name.replace("_", " "), f"{s.value:.3f}", f"{s.null:.3f}", f"{s.p_value:.3g}", s.measure.means) for s in c
    )
    title = f"Every measure, beside the mean of {c.permutations:,} shuffled pairings"
    table = Table(title, ("measure", "value", "shuffled", "p", "how to read it"), rows, (1, 2, 3))
    return [bars_of_comparison(c), table]


def about_provenance(found: Findings) -> list[Block]:
    """Return files, fingerprints, versions and the command."""
    p = found.provenance
    blocks: list[Block] = []
    if p.spaces:
        rows = tuple(
            (s.role, s.path or s.name, f"{s.rows:,} × {s.dim} {s.dtype}", s.model or "not recorded", s.fingerprint)
            for s in p.spaces
        )
        blocks.append(Table("Files", ("role", "file", "size", "model", "fingerprint"), rows))
    facts = [("made", p.date), *p.versions.items(), ("seed", str(p.seed))]
    facts += [("command", p.command)] if p.command else []
    if found.translator is not None:
        t = found.translator
        facts += [("translator", f"{t.map}, goal {t.goal}, {t.dims[0]} → {t.dims[1]}, {t.pairs:,} pairs")]
    if found.fit is not None:
        facts.append(("joined", found.fit.joined))
    return [*blocks, Table("How it was made", ("what", "value"), tuple(facts))]


def document_of(found: Findings) -> Document:
    """Return the report as a document; sections about what was not looked at are left out."""
    sections = [
        Section(name, title, tuple(blocks)) for name, (title, make) in SECTIONS.items() if (blocks := make(found))
    ]
    spaces = found.provenance.spaces
    said = ", ".join(f"{s.name}: {s.rows:,} × {s.dim}" for s in spaces)
    subtitle = " · ".join(part for part in (said, found.provenance.date[:10]) if part)
    return Document(found.title, subtitle, headline_of(found), tuple(sections), _note(found))


def _note(found: Findings) -> str:
    worst = [*found.worst_queries, *(found.closeness.worst if found.closeness is not None else ())]
    if any(row.text is not None for row in worst):
        return "This report holds no vectors. Items are named by keys, and texts are shown because they were asked for."
    return "This report holds no vectors and no texts. Items are named by their keys."


def _checks(found: Findings) -> list[Block]:
    if found.verification is None:
        return []
    rows = tuple((c.name, "passed" if c.passed else "failed", c.found) for c in found.verification.checks)
    return [Table("What was looked at", ("check", "result", "found"), rows)]


def _plan(found: Findings) -> list[Block]:
    plan = found.plan
    if plan is None:
        return []
    return [
        Table("The store", ("what", "now", "after"), tuple(plan.sizes()), (1, 2)),
        *(Paragraph(sentence) for sentence in plan.sentences()),
    ]


def _options(found: Findings) -> list[Block]:
    v = found.verdict
    if v is None:
        return []
    labels = tuple(v.label(measure) for measure in v.scores.measures)
    numbers = tuple(range(1, len(labels) + 1))
    shown = [option for option in OPTIONS if option in v.options]
    scores = tuple((_meaning(v, o), *(in_words(v[o][m]) for m in v.scores.measures)) for o in shown)
    changes = tuple((o, *(in_words(r[m], "+") for m in v.scores.measures)) for o, r in v.changes.items())
    recommended = v.decision.recommended
    best = shown.index(recommended) if recommended in shown else None
    return [
        Bullets(v.decision.reasons),
        bars_of_options(v),
        Table("What each option scores, with 95 % intervals", ("option", *labels), scores, numbers, best),
        Table("How each differs from staying, query by query", ("against staying", *labels), changes, numbers),
        *_storage(v),
        Paragraph(f"{v.queries:,} queries, {v.scores.items:,} items; relevant: {v.relevance}.", small=True),
        Paragraph(f"The rule: {v.rule}", small=True),
    ]


def _meaning(v: Verdict, option: str) -> str:
    return MEANINGS[option].format(candidates=f"{v.scores.candidates:,}")


def _storage(v: Verdict) -> list[Block]:
    stored = v.storage
    if stored is None:
        return []
    rows = tuple(
        (c.option, c.storage, f"{c.nbytes:,}", f"{c.score.value:.3f}", in_words(c.change, "+")) for c in stored.lines
    )
    return [
        Table(
            "What a smaller index costs",
            ("index", "stored as", "bytes per vector", stored.measure, "change"),
            rows,
            (2, 3, 4),
        )
    ]


def _slices(found: Findings) -> list[Block]:
    tables = [
        None if found.verdict is None else _slices_of_options(found.verdict),
        None if found.closeness is None else _slices_of_cosines(found.closeness),
    ]
    return [table for table in tables if table is not None]


def _slices_of_options(v: Verdict) -> Table | None:
    lines = _worst_first(v.changes["translate"], v.deciding)
    shown = [option for option in OPTIONS if option in v.options and option != "untranslated"]
    rows = tuple(
        (
            line.slice,
            f"{line.rows:,}",
            *(f"{v[option][line.slice, v.deciding].value:.3f}" for option in shown),
            in_words(line.estimate, "+"),
        )
        for line in lines
    )
    header = ("slice", "queries", *shown, "translate against stay")
    title = f"{v.label(v.deciding)}, the worst slice first"
    return Table(title, header, rows, tuple(range(1, len(header)))) if rows else None


def _slices_of_cosines(close: Closeness) -> Table | None:
    lines = _worst_first(close.fidelity, "cosine")
    rows = tuple((line.slice, f"{line.rows:,}", in_words(line.estimate)) for line in lines)
    title = "Cosine to the true vectors, the worst slice first"
    return Table(title, ("slice", "items", "cosine"), rows, (1, 2)) if rows else None


def _worst_first(report: Report, measure: str) -> list[Measured]:
    lines = [line for line in report if line.measure == measure and line.slice != "all"]
    return sorted(lines, key=lambda line: line.estimate.value)


def _worst(found: Findings) -> list[Block]:
    blocks: list[Block] = []
    if found.worst_queries and found.verdict is not None:
        measure = found.verdict.label(found.verdict.deciding)
        blocks.append(_named(f"Queries that lose most by translating, in {measure}", found.worst_queries, "stay"))
    if found.closeness is not None:
        blocks.append(_named("Items whose translation is farthest from the true vector", found.closeness.worst, None))
    return blocks


def _named(title: str, rows: tuple[WorstRow, ...], against: str | None) -> Table:
    texts = any(row.text is not None for row in rows)
    header = ("key", *((against, "translate") if against else ("cosine",)), *(("text",) if texts else ()))
    cells = tuple(
        (
            row.key,
            *((f"{row.against:.3f}",) if row.against is not None else ()),
            f"{row.value:.3f}",
            *((row.text or "",) if texts else ()),
        )
        for row in rows
    )
    return Table(title, header, cells, (1, 2) if against else (1,))


def _limits(found: Findings) -> list[Block]:
    about_translation = found.verdict is not None or found.translator is not None
    return [Bullets(tuple(limits(found)))] if about_translation else []


SECTIONS: dict[str, tuple[str, Callable[[Findings], list[Block]]]] = {
    "checks": ("Checks", _checks),
    "plan": ("What it would take", _plan),
    "options": ("Stay, translate, rerank or re-embed", _options),
    "limits": ("When this will not help", _limits),
    "slices": ("By slice", _slices),
    "worst": ("Items that fare worst", _worst),
    "pairs": ("Is it worth buying more pairs?", about_pairs),
    "cosines": ("How close translated vectors come", about_cosines),
    "thresholds": ("Thresholds on similarity", about_thresholds),
    "anchors": ("Anchors", about_anchors),
    "similarity": ("How similar the spaces are", about_similarity),
    "comparison": ("Measures of similarity", about_comparison),
    "geometry": ("Singular values and norms", about_geometry),
    "provenance": ("Provenance", about_provenance),
}
