"""The headline of a report, and its limitations: sentences that follow from the numbers found."""

from __future__ import annotations

from collections.abc import Iterator

from relatent.decide.anchors import WORTH
from relatent.decide.options import OPTIONS, Option
from relatent.decide.rule import GO, NO_GO, Outcome, in_words
from relatent.decide.threshold import Thresholds
from relatent.decide.verdict import DECIDING, LARGE_SHARE, Verdict
from relatent.evaluate.comparison import Comparison
from relatent.evaluate.interval import Estimate
from relatent.evaluate.several import Comparisons
from relatent.migrate.plan import FEW_ROWS
from relatent.migrate.verify import Verification
from relatent.report.data import Closeness, Findings, PairsCurve
from relatent.report.document import Code, Figure, Headline, Text

UNDECIDED = "There is too little evidence for a decision. The reasons are given below."
TONES = {GO: "good", NO_GO: "bad"}


def headline_of(found: Findings) -> Headline | None:
    """Return the answer: that of the verification, the plan or the verdict, or what was measured."""
    figures = tuple(_figures(found))
    if found.verification is not None:
        return _checked(found.verification, figures)
    if found.plan is not None:
        return _answer(found.plan.decision, found.plan.recommended, found.verdict, figures)
    if found.verdict is not None:
        decision = found.verdict.decision
        return _answer(decision.verdict, decision.recommended, found.verdict, figures)
    if found.fit is not None:
        sentence = f"On {found.fit.pairs:,} pairs; {found.fit.held_out:,} are held out for evaluation."
        return Headline("Fitted", sentence, "open", figures)
    if found.comparisons is not None:
        return _of_comparisons(found.comparisons)
    return None if found.comparison is None else _of_comparison(found.comparison)


def _checked(found: Verification, figures: tuple[Figure, ...]) -> Headline:
    failed, n = ", ".join(check.name for check in found.checks if not check.passed), len(found.checks)
    if found.rehearsed and failed:
        return Headline("Rehearsal failed", f"Do not apply it to the store before {failed} works.", "bad", figures)
    if found.rehearsed:
        return Headline("Rehearsed", f"All {n} steps worked on a copy. The store was not changed.", "good", figures)
    if failed:
        return Headline("Not verified", f"Do not switch to the new field: {failed} failed.", "bad", figures)
    return Headline("Verified", f"All {n} checks passed. The new field can be served.", "good", figures)


def _answer(decision: Outcome, recommended: Option | None, v: Verdict | None, figures: tuple[Figure, ...]) -> Headline:
    if recommended is not None:
        return Headline(f"{decision}: {recommended}", OPTIONS[recommended].advice, TONES.get(decision, "open"), figures)
    if v is None or v.deciding == DECIDING:
        return Headline("No verdict", UNDECIDED, "open", figures)
    stay, moved = (v[option][v.deciding].value for option in ("stay", "translate"))
    sentence = (
        f"No relevance judgments were given, so no option can be recommended. A translated search finds {moved:.0%} of "
        f"the new model's top {v.scores.k}, the old model {stay:.0%}."
    )
    return Headline("No verdict", sentence, "open", figures)


def _of_comparison(comparison: Comparison) -> Headline:
    cka, knn, linear = (comparison[name] for name in ("cka", "mutual_knn", "predictivity"))
    figures = (
        Figure(f"{cka.null:.3f}", "CKA of shuffled pairings"),
        Figure(f"{knn.value:.0%}", "of the nearest neighbors agree"),
        Figure(f"{linear.value:.0%}", "of the variance of the second space is linear in the first"),
    )
    return Headline(f"CKA {cka.value:.3f}", f"Linear CKA of {comparison.n:,} items in common.", "open", figures)


def _of_comparisons(found: Comparisons) -> Headline:
    cka = {pair: one["cka"].value for pair, one in found.pairs.items()}
    closest, farthest = max(cka, key=cka.__getitem__), min(cka, key=cka.__getitem__)
    figures = tuple(Figure(f"{cka[pair]:.3f}", f"CKA of {' and '.join(pair)}") for pair in (closest, farthest))
    sentence = f"Of {len(found.names)} spaces, {' and '.join(closest)} are the most similar, by linear CKA."
    return Headline(f"CKA {cka[farthest]:.3f} to {cka[closest]:.3f}", sentence, "open", figures)


def _figures(found: Findings) -> Iterator[Figure]:
    v = found.verdict
    if v is not None and v.deciding == DECIDING:
        yield _figure(v.arr, "of re-embedding's nDCG kept (ARR)", ".0%")
    elif v is not None:
        yield _figure(v["translate"][v.deciding], f"of the new model's top {v.scores.k} found", ".0%")
    if found.closeness is not None:
        yield _figure(found.closeness.fidelity["cosine"], "cosine to the true vectors", ".3f")
    if v is not None and v.itself is not None:
        yield _figure(v.itself, "self-retrieval@1", ".0%")
    if found.curve is not None:
        yield _figure(found.curve.twice, "MRR gained by twice the pairs", "+.3f")


def _figure(e: Estimate, label: str, form: str) -> Figure:
    return Figure(f"{e.value:{form}}", label, f"{e.low:{form}} – {e.high:{form}}")


# Thresholds that move by less than this can stay.
MOVED = 0.03
# A share of items without an anchor on their side of the space that is worth reporting.
UNCOVERED = 0.02
# A cosine to the true vector below which an item is lost.
LOST = 0.5


def limits(found: Findings) -> Iterator[Text]:
    """Return sentences that hold for these findings; what holds for every translation comes last."""
    in_files = max((space.rows for space in found.provenance.spaces), default=0)
    rows = in_files if found.plan is None else found.plan.rows
    if found.verdict is not None:
        yield from _of_scores(found.verdict)
        yield from _of_the_gallery(found.verdict, rows)
    if found.closeness is not None:
        yield from _of_closeness(found.closeness)
    if found.curve is not None and found.curve.twice.high < WORTH:
        yield _of_more_pairs(found.curve)
    covered = None if found.anchors is None else found.anchors.diagnosis.coverage
    if covered is not None and covered.uncovered > UNCOVERED:
        yield (
            f"{covered.uncovered:.0%} of held-out items have no anchor on their side of the space. Kinds of items that "
            "the anchors lack are translated by extrapolation: embed some of them and fit again."
        )
    if found.thresholds is not None:
        yield from _of_thresholds(found.thresholds["new model"])
    if found.translator is not None:
        yield from (f"{warning[0].upper()}{warning[1:]}." for warning in found.translator.warnings)
    if 0 < rows < FEW_ROWS:
        yield (
            f"With {rows:,} items, their texts at hand and a cheap embedder, re-embedding is simpler. A translation "
            "pays where the old model or the texts are gone, where embedding takes days, or in the meantime."
        )
    advice = "A translator works for the kinds of items that it was fitted on. On new kinds it degrades silently: use "
    yield advice, Code("relatent monitor"), " to detect them, and fit again."


def _of_scores(v: Verdict) -> Iterator[str]:
    if v.deciding != DECIDING:
        stay, moved = (v[option][v.deciding].value for option in ("stay", "translate"))
        yield (
            f"No relevance judgments were given. A translated search finds {moved:.0%} of what the new model finds, "
            f"the old model {stay:.0%}: this tells how similar the results are, not how good. To measure that, judge "
            "some queries."
        )
    elif (better := v.changes["re-embed"][DECIDING]).low <= 0:
        yield (
            f"On these queries the new model is not clearly better than the old one (change of {v.label(DECIDING)} "
            f"{in_words(better, '+')}): there is little for a translation to gain."
        )
    elif v.arr.high < 1:
        yield (
            f"Translating keeps {v.arr.value:.0%} of the {v.label(DECIDING)} of re-embedding. Only re-embedding "
            "recovers the rest."
        )


def _of_the_gallery(v: Verdict, rows: int) -> Iterator[str]:
    items, candidates = v.scores.items, v.scores.candidates
    if v.expected is not None:
        yield (
            f"The searches were over {items:,} held-out items, and {v.expected.rows:,} will be served: a larger index "
            "has more distractors. What is expected there decides; the other tables are as measured."
        )
        return
    if rows > 2 * items:
        yield (
            f"The searches were over {items:,} held-out items, and there are {rows:,} in all: a larger index has more "
            "distractors, and every score is lower."
        )
    if candidates > LARGE_SHARE * items:
        yield (
            f"Reranking used {candidates:,} candidates, {candidates / items:.0%} of the items here. In a larger index, "
            "the same number of candidates contains fewer of the relevant items."
        )


def _of_closeness(close: Closeness) -> Iterator[str]:
    upper, shares = close.cosines.edges[1:], close.cosines.shares["translated"]
    below = sum(share for share, edge in zip(shares, upper, strict=True) if edge < LOST)
    if below > 0.01:
        yield (
            f"{below:.0%} of held-out items have a cosine below {LOST} to their true vector. Near-duplicate search and "
            "exact lookup fail for these; the worst items are listed below."
        )
    explained = close.fidelity["r2"].value
    if explained < 0.5:
        yield (
            f"The translation explains {explained:.0%} of the variance of the true vectors. Whatever reads individual "
            "coordinates, such as a classifier, may need more; a search needs less."
        )


def _of_more_pairs(curve: PairsCurve) -> str:
    missing = "What is missing is not in the old vectors, or out of reach for a map of this kind."
    return (
        f"More pairs will hardly help: {curve.pairs[-1]:,} more would add {in_words(curve.twice, '+')} to the MRR. "
        + ("Little is missing." if curve.mrr[-1].value > 0.95 else missing)
    )


def _of_thresholds(table: Thresholds) -> Iterator[str]:
    moved = [line for line in table if line.passing and not line.few and abs(line.new.value - line.old) > MOVED]
    if moved:
        worst = max(moved, key=lambda line: abs(line.new.value - line.old))
        yield (
            f"Similarity thresholds do not carry over: {worst.old:g} under the old model is {worst.new.value:.2f} "
            "under the new one. Every threshold on a similarity has to change with the vectors."
        )
