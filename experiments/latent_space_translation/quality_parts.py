"""The parts of the quality experiment: each takes one split of one pair of spaces, and returns measures by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from experiments.latent_space_translation import baselines
from experiments.latent_space_translation.baselines import cosines, csls, error, reciprocal_rank
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import relatent as rl

HEADS: dict[str, Callable[[], object]] = {
    "svc": lambda: SVC(kernel="linear", C=0.1),
    "logistic": lambda: LogisticRegression(C=0.1, max_iter=300),
    "mlp": lambda: MLPClassifier((128,), early_stopping=True, random_state=0),
}
# What expected quality is asked about: every goal, and maps that are named.
ASKED: dict[str, dict[str, object]] = {
    "vectors": {"goal": "vectors"},
    "retrieval": {"goal": "retrieval"},
    "frozen target": {"goal": "retrieval", "frozen_target": True},
    "stitching": {"goal": "stitching"},
    "orthogonal": {"map": "orthogonal"},
    "affine": {"map": "affine"},
}
FORETOLD = ("recall@1", "recall@10", "mrr")
FEW, MANY, POOL = 20, 1_000, 2_500
# Rows beside the anchors that are given of each side.
OTHERS = 1_000


@dataclass(frozen=True)
class Split:
    """Parallel rows to learn from and rows to measure with. ``heads`` and ``labels`` are empty without labels."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    heads: dict[str, Pipeline]
    labels: np.ndarray
    seed: int
    rest: tuple[np.ndarray, np.ndarray]
    """Everything that is not measured with, the rows to learn from included."""

    @cached_property
    def others(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Rows of the source and of the target that are neither learned from nor measured with, of different items."""
        x, y = (side[len(self.x) :] for side in self.rest)
        half = min(OTHERS, len(x) // 2)
        return (x[:half], y[half : 2 * half]) if half else (None, None)

    @cached_property
    def six(self) -> list[np.ndarray]:
        """What the papers' six settings make of the test rows."""
        return list(baselines.best6(self.x, self.y, self.test_x))


def train_heads(y: np.ndarray, labels: np.ndarray) -> dict[str, Pipeline]:
    """Train one head of each kind on vectors of the target."""
    return {name: make_pipeline(StandardScaler(), head()).fit(y, labels) for name, head in HEADS.items()}


def vectors(s: Split) -> dict[str, float]:
    """Reconstruction error as a share of the variance."""
    found = rl.Translator("vectors").fit(s.x, s.y).transform(s.test_x)
    return {
        "ours": error(found, s.test_y),
        "best6": min(error(p, s.test_y) for p in s.six),
        "kernel ridge": error(baselines.kernel_ridge(s.x, s.y, s.test_x), s.test_y),
    }


def retrieval(s: Split) -> dict[str, float]:
    """Mean reciprocal rank among the test rows, both sides moved, by what is given beside the anchors.

    That is nothing, other rows of the source as bank, other rows of both sides (no item in common), and the test
    queries as bank. The last is transductive, as is CSLS, which takes its neighborhoods from all test queries.
    """
    x, y = s.others
    given: dict[str, dict[str, object]] = {
        "ours": {},
        "ours+rows": {"bank": x},
        "ours+both": {"unlabeled": (x, y)},
        "ours+queries": {"bank": s.test_x},
    }
    ours = {
        name: reciprocal_rank(_scores(rl.Translator("retrieval").fit(s.x, s.y, **options), s))
        for name, options in given.items()
    }
    cca = baselines.cca_scores(s.x, s.y, s.test_x, s.test_y)
    return ours | _ranked_six(s) | {"cca+csls": reciprocal_rank(cca)}


def frozen(s: Split) -> dict[str, float]:
    """Mean reciprocal rank among the test rows as they are, by cosine, and by CSLS on top of it.

    The index that is given is of other rows of the target.
    """
    alone, indexed = (
        cosines(rl.Translator("retrieval", frozen_target=True).fit(s.x, s.y, index=index).transform(s.test_x), s.test_y)
        for index in (None, s.others[1])
    )
    return {
        "ours": reciprocal_rank(alone),
        "ours+index": reciprocal_rank(indexed),
        "ours+csls": reciprocal_rank(csls(alone)),
        **_ranked_six(s),
    }


def stitching(s: Split) -> dict[str, float]:
    """Accuracy of heads that were trained on the target, and read translated vectors; none without labels."""
    if not s.heads:
        return {}
    moved = rl.Translator("stitching").fit(s.x, s.y).transform(s.test_x)
    found = {}
    for name, head in s.heads.items():
        found[f"ours {name}"] = float(head.score(moved, s.labels))
        found[f"best6 {name}"] = max(float(head.score(p, s.labels)) for p in s.six)
        found[f"own {name}"] = float(head.score(s.test_y, s.labels))
    return found


def expected(s: Split) -> dict[str, float]:
    """Error of what is foretold against what is found, and whether the interval holds what is found (1 or 0)."""
    found = {}
    for name, options in ASKED.items():
        t = rl.Translator(**options).fit(s.x, s.y)
        told = t.expected_quality(index=s.test_y)
        truth = _found(_scores(t, s))
        for measure in FORETOLD:
            e = told[measure]
            found[f"{name} {measure} error"] = e.value - truth[measure]
            found[f"{name} {measure} held"] = float(e.low <= truth[measure] <= e.high)
    return found


def few(s: Split) -> dict[str, float]:
    """MRR with 20 known pairs, alone and grown over items of which half are on both sides; with 1,000 pairs."""
    x, y = s.rest
    m = min(POOL - FEW, int((len(x) - FEW) / 1.5))
    rows_x = np.arange(FEW + m)
    rows_y = np.concatenate([np.arange(FEW + m // 2), np.arange(FEW + m, FEW + 2 * m - m // 2)])
    known = np.arange(FEW)
    grown = rl.grow_pairs(x[rows_x], y[rows_y], (known, known), progress=False)

    def mrr(t: rl.Translator) -> float:
        return reciprocal_rank(_scores(t, s))

    alone, most = (rl.Translator("retrieval").fit(x[:k], y[:k]) for k in (FEW, min(MANY, len(x))))
    return {"alone": mrr(alone), "grown": mrr(grown.translator), "1,000": mrr(most), "said": float(grown.succeeded)}


PARTS: dict[str, Callable[[Split], dict[str, float]]] = {
    "vectors": vectors,
    "retrieval": retrieval,
    "frozen": frozen,
    "stitching": stitching,
    "expected": expected,
    "few": few,
}


def _scores(t: rl.Translator, s: Split) -> np.ndarray:
    """Score every test query with every test target, by the metric that the translator asks for."""
    queries, gallery = t.transform(s.test_x), t.transform_target(s.test_y)
    return cosines(queries, gallery) if t.metric_ == "cosine" else queries @ gallery.T


def _ranked_six(s: Split) -> dict[str, float]:
    scores = [cosines(p, s.test_y) for p in s.six]
    return {
        "best6": max(map(reciprocal_rank, scores)),
        "best6+csls": max(reciprocal_rank(csls(found)) for found in scores),
    }


def _found(scores: np.ndarray) -> dict[str, float]:
    ranks = 1 + np.sum(scores > np.diagonal(scores)[:, None], axis=1)
    near = ranks <= 10
    return {
        "recall@1": float(np.mean(ranks == 1)),
        "recall@10": float(np.mean(near)),
        "mrr": float(np.mean(near / ranks)),
    }
