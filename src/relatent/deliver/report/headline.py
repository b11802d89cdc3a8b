"""The answer that a report opens with: a word, a sentence and the few numbers behind it."""

from __future__ import annotations

from collections.abc import Iterator

from relatent.deliver.report.document import Figure, Headline
from relatent.deliver.report.findings import Findings
from relatent.evaluate.interval import Estimate
from relatent.evaluate.rule import GO, NO_GO
from relatent.evaluate.verdict import DECIDING, Verdict

__all__ = ["headline_of"]

MEANINGS = {
    "stay": "Stay with the old model and its index.",
    "translate": "Translate the old vectors. Nothing has to be embedded anew.",
    "cascade": "Search the translated index for candidates, and let the new model rank them.",
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
