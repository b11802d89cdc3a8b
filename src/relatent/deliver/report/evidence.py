"""The sections of a report about what was measured: pairs, cosines, cut-offs, anchors, similarity, provenance."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isnan

from relatent.deliver.next_anchors import WORTH
from relatent.deliver.report.charts import (
    SHOWN,
    bars_of_comparison,
    cosine_histogram,
    learning_curve,
    norm_histogram,
    similarity_maps,
    spectra,
)
from relatent.deliver.report.curve import PairsCurve
from relatent.deliver.report.document import Block, Bullets, Paragraph, Table
from relatent.deliver.report.findings import Findings
from relatent.evaluate.cutoffs import Cutoff, Thresholds
from relatent.evaluate.interval import Estimate
from relatent.evaluate.measures import MEASURES
from relatent.evaluate.rule import in_words

__all__ = [
    "about_anchors",
    "about_comparison",
    "about_cosines",
    "about_geometry",
    "about_pairs",
    "about_provenance",
    "about_similarity",
    "about_thresholds",
]


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
    return f"More pairs {certain} worth buying: {words} To learn which, run relatent anchors --known."


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
    """Return the new cut-offs for old ones."""
    if found.thresholds is None:
        return []
    said = (
        "A cut-off on cosine similarity means something else under another model. Each new cut-off lets as many pairs "
        "of items pass as the old one did."
    )
    return [Paragraph(said), _threshold_table(found.thresholds)]


def _threshold_table(tables: Mapping[str, Thresholds]) -> Table:
    first = next(iter(tables.values()))
    rows = tuple(
        (f"{line.old:g}", *(_cutoff(table.lines[i].new) for table in tables.values()), _passing(line))
        for i, line in enumerate(first)
    )
    header = ("old cut-off", *tables, "pairs that pass")
    return Table(f"Over all pairs of {first.rows:,} items", header, rows, tuple(range(len(header))))


def _passing(line: Cutoff) -> str:
    return f"{line.passing:,}" + (" (too few to rely on)" if line.few else "")


def _cutoff(e: Estimate) -> str:
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
