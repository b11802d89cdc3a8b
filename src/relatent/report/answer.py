"""The answer that a report opens with: a word, a sentence and the few numbers behind it."""

from __future__ import annotations

from collections.abc import Iterator

from relatent.decide.anchors import WORTH
from relatent.decide.rule import GO, NO_GO, in_words
from relatent.decide.threshold import Thresholds
from relatent.decide.verdict import DECIDING, LARGE_SHARE, Verdict
from relatent.evaluate.interval import Estimate
from relatent.migrate.plan import FEW_ROWS
from relatent.report.data import Anchors, Closeness, Findings, PairsCurve
from relatent.report.document import Figure, Headline

MEANINGS = {
    "stay": "Stay with the old model and its index.",
    "translate": "Translate the old vectors. Nothing has to be embedded anew.",
    "rerank": "Search the translated index for candidates, and let the new model rank them.",
    "re-embed": "Embed everything with the new model.",
}
UNDECIDED = "There is too little to decide by. What is missing is said below."
TONES = {GO: "good", NO_GO: "bad"}


def headline_of(found: Findings) -> Headline | None:
    """Return the answer of a report: that of the plan or the verification, of the verdict, or of what was measured."""
    figures = tuple(_figures(found))
    if found.verification is not None:
        return _of_verification(found, figures)
    if found.plan is not None:
        return _answer(found.plan.decision, found.plan.recommended, found.verdict, figures)
    if found.verdict is not None:
        decision = found.verdict.decision
        return _answer(decision.verdict, decision.recommended, found.verdict, figures)
    if found.fit is not None:
        said = f"On {found.fit.pairs:,} pairs; {found.fit.held_out:,} are held out for an evaluation."
        return Headline("Fitted", said, "open", figures)
    if found.comparison is not None:
        return _of_comparison(found)
    return None


def _of_verification(found: Findings, figures: tuple[Figure, ...]) -> Headline:
    checks = found.verification.checks if found.verification is not None else ()
    failed = [check.name for check in checks if not check.passed]
    if failed:
        return Headline("Not verified", f"Do not cut over: {', '.join(failed)} failed.", "bad", figures)
    return Headline("Verified", f"All {len(checks)} checks passed. The new field may be served.", "good", figures)


def _answer(decision: str, recommended: str | None, v: Verdict | None, figures: tuple[Figure, ...]) -> Headline:
    if recommended is None:
        return Headline("No verdict", UNDECIDED if v is None or v.deciding == DECIDING else _alike(v), "open", figures)
    return Headline(f"{decision}: {recommended}", MEANINGS[recommended], TONES.get(decision, "open"), figures)


def _alike(v: Verdict) -> str:
    """Say how alike results are, where nothing was judged."""
    stay, moved = (v[option][v.deciding].value for option in ("stay", "translate"))
    return (
        f"Nothing was judged, so that no option can be recommended. Of the new model's top {v.scores.k}, a translated "
        f"search finds {moved:.0%} and the old model {stay:.0%}."
    )


def _of_comparison(found: Findings) -> Headline | None:
    if found.comparison is None:
        return None
    cka, knn, linear = (found.comparison[name] for name in ("cka", "mutual_knn", "predictivity"))
    figures = (
        Figure(f"{cka.null:.3f}", "CKA of shuffled pairings"),
        Figure(f"{knn.value:.0%}", "of the nearest neighbors agree"),
        Figure(f"{linear.value:.0%}", "of the second space is linear in the first"),
    )
    return Headline(f"CKA {cka.value:.3f}", f"Linear CKA of {found.comparison.n:,} items in common.", "open", figures)


def _figures(found: Findings) -> Iterator[Figure]:
    v = found.verdict
    if v is not None and v.deciding == DECIDING:
        yield _figure(v.arr, "of re-embedding's nDCG kept", "%")
    elif v is not None:
        yield _figure(v["translate"][v.deciding], f"of the new model's top {v.scores.k} found", "%")
    if found.closeness is not None:
        yield _figure(found.closeness.fidelity["cosine"], "cosine to the true vectors")
    if v is not None and v.itself is not None:
        yield _figure(v.itself, "find the very item first", "%")
    if found.curve is not None:
        gain = found.curve.twice
        yield Figure(f"{gain.value:+.3f}", "MRR that twice the pairs add", f"{gain.low:+.3f} – {gain.high:+.3f}")


def _figure(e: Estimate, label: str, unit: str = "") -> Figure:
    if unit:
        return Figure(f"{e.value:.0%}", label, f"{e.low:.0%} – {e.high:.0%}")
    return Figure(f"{e.value:.3f}", label, f"{e.low:.3f} – {e.high:.3f}")


# A threshold that moves by less than this can stay where it is.
MOVED = 0.03
# A share of items without an anchor on their side of the space that deserves a word.
UNCOVERED = 0.02
LITTLE = "Little is missing."
OUT_OF_REACH = "What is missing is not in the old vectors, or not where a map of this kind can reach it."
# Cosines to the true vector below which an item is lost rather than blurred.
LOST = 0.5


def limits(found: Findings) -> list[str]:
    """Return sentences that are true of these findings; what holds of every translation comes last."""
    in_files = max((space.rows for space in found.provenance.spaces), default=0)
    rows = in_files if found.plan is None else found.plan.rows
    said: list[str] = []
    said += [] if found.verdict is None else _of_the_verdict(found.verdict, rows)
    said += [] if found.closeness is None else _of_closeness(found.closeness)
    said += [] if found.curve is None else _of_the_curve(found.curve)
    said += [] if found.anchors is None else _of_anchors(found.anchors)
    said += [] if found.thresholds is None else _of_thresholds(found.thresholds["new model"])
    said += [] if found.translator is None else (f"{w[0].upper()}{w[1:]}." for w in found.translator.warnings)
    said += _always(rows)
    return said


def _of_the_verdict(v: Verdict, rows: int) -> Iterator[str]:
    if v.deciding != DECIDING:
        stay, moved = (v[option][v.deciding].value for option in ("stay", "translate"))
        yield (
            f"No judged pairs were given. A translated search finds {moved:.0%} of what the new model would find and "
            f"the old model {stay:.0%}: that says how alike results are, not how good. If you need to know whether "
            "they are good, judge some queries (--relevant)."
        )
    else:
        better = v.changes["re-embed"][DECIDING]
        if better.low <= 0:
            yield (
                f"On these queries the new model is not clearly better than the old one (change of "
                f"{v.label(DECIDING)} {in_words(better, '+')}): there is little that a translation could bring over."
            )
        elif v.arr.high < 1:
            yield (
                f"Translating keeps {v.arr.value:.0%} of what re-embedding reaches in {v.label(DECIDING)}. The rest "
                "comes back only when items are embedded anew."
            )
    yield from _of_the_gallery(v, rows)


def _of_the_gallery(v: Verdict, rows: int) -> Iterator[str]:
    items, candidates = v.scores.items, v.scores.candidates
    if rows > 2 * items:
        yield (
            f"These searches were among {items:,} held-out items, and there are {rows:,} in all: among more items "
            "there are more to confuse, and every score is lower."
        )
    if candidates > LARGE_SHARE * items:
        yield (
            f"Reranking ranked {candidates:,} candidates, {candidates / items:.0%} of the items here. In a larger "
            "index so many candidates hold less of what should be found."
        )


def _of_closeness(close: Closeness) -> Iterator[str]:
    upper, shares = close.cosines.edges[1:], close.cosines.shares["translated"]
    below = sum(share for share, edge in zip(shares, upper, strict=True) if edge < LOST)
    if below > 0.01:
        yield (
            f"{below:.0%} of held-out items come out with a cosine below {LOST} to their true vector. For these, near "
            "copies and exact look-ups will not work; the items that fare worst are listed below."
        )
    kept = close.fidelity["r2"].value
    if kept < 0.5:
        yield (
            f"The translation explains {kept:.0%} of the variance of the true vectors. What reads single coordinates, "
            "such as a classifier, may need more than that; a search needs less."
        )


def _of_the_curve(curve: PairsCurve) -> Iterator[str]:
    if curve.twice.high < WORTH:
        yield (
            f"More pairs will hardly help: {curve.pairs[-1]:,} more would add {in_words(curve.twice, '+')} to the MRR. "
            + (LITTLE if curve.mrr[-1].value > 0.95 else OUT_OF_REACH)
        )


def _of_anchors(anchors: Anchors) -> Iterator[str]:
    covered = anchors.diagnosis.coverage
    if covered is not None and covered.uncovered > UNCOVERED:
        yield (
            f"{covered.uncovered:.0%} of held-out items have no anchor on their side of the space. Items of a kind "
            "that was not among the anchors are translated by guessing: embed some of that kind and fit again."
        )


def _of_thresholds(table: Thresholds) -> Iterator[str]:
    moved = [line for line in table if line.passing and not line.few and abs(line.new.value - line.old) > MOVED]
    if moved:
        worst = max(moved, key=lambda line: abs(line.new.value - line.old))
        yield (
            f"Thresholds on similarity do not carry over: {worst.old:g} in the old model is {worst.new.value:.2f} in "
            "the new one. Whatever compares a similarity with a number has to change with the vectors."
        )


def _always(rows: int) -> Iterator[str]:
    if 0 < rows < FEW_ROWS:
        yield (
            f"With {rows:,} items, the texts at hand and a cheap embedder, embedding them anew is the simpler way. A "
            "translation earns its keep where the old model or the texts are gone, where embedding takes days, or "
            "until it is done."
        )
    yield (
        "A translator knows the kinds of items that it was fitted on. When new kinds come in, it does worse without "
        "saying so: watch for that (relatent monitor drift) and fit again."
    )
