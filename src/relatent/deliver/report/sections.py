"""Findings as a document: the answer first, then what it rests on, what speaks against it, and where it comes from."""

from __future__ import annotations

from collections.abc import Callable

from relatent.deliver.report import evidence
from relatent.deliver.report.charts import bars_of_options
from relatent.deliver.report.document import Block, Bullets, Document, Paragraph, Section, Table
from relatent.deliver.report.findings import Closeness, Findings, WorstRow
from relatent.deliver.report.headline import headline_of
from relatent.deliver.report.limits import limits
from relatent.evaluate.interval import Measured, Report
from relatent.evaluate.options import OPTIONS
from relatent.evaluate.rule import in_words
from relatent.evaluate.verdict import MEANINGS, Verdict

__all__ = ["document_of"]


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
    "options": ("Stay, translate, cascade or re-embed", _options),
    "limits": ("When this will not help", _limits),
    "slices": ("By slice", _slices),
    "worst": ("Items that fare worst", _worst),
    "pairs": ("Is it worth buying more pairs?", evidence.about_pairs),
    "cosines": ("How close translated vectors come", evidence.about_cosines),
    "thresholds": ("Cut-offs on similarity", evidence.about_thresholds),
    "anchors": ("Anchors", evidence.about_anchors),
    "similarity": ("How similar the spaces are", evidence.about_similarity),
    "comparison": ("Measures of similarity", evidence.about_comparison),
    "geometry": ("Singular values and norms", evidence.about_geometry),
    "provenance": ("Provenance", evidence.about_provenance),
}
