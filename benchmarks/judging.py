"""What a user waits for when judging a translator: evaluation, comparison, audit, expected quality, growing pairs.

No peer does these steps: each is shown beside the thin SVDs of both sides, and there are no targets.
"""

from __future__ import annotations

import numpy as np

import relatent as rl
from benchmarks.harness import Inputs, Suite
from relatent.decide.evaluation import evaluate_spaces


def setup(n: int, d: int) -> Inputs:
    """Draw pairs with a decaying spectrum and noise on both sides, and fit a translator."""
    rng = np.random.default_rng(0)
    scale = np.arange(1, d + 1, dtype=np.float32) ** -0.6
    common, noise_x, noise_y = (rng.standard_normal((n, d), dtype=np.float32) * scale for _ in range(3))
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0].astype(np.float32)
    x, y = common + noise_x / 2, (common + noise_y / 2) @ turn
    return {"x": x, "y": y, "translator": rl.Translator("retrieval").fit(x, y, force=True)}


def evaluated(x: np.ndarray, y: np.ndarray, translator: rl.Translator) -> object:
    """Reach a verdict, with its intervals."""
    keys = [str(i) for i in range(len(x))]
    return evaluate_spaces(translator, rl.Space(x, keys), rl.Space(y, keys), force=True)


def compared(x: np.ndarray, y: np.ndarray, **_: object) -> object:
    """Compute all measures, with twenty shuffled pairings."""
    return rl.compare(x, y)


def audited(x: np.ndarray, y: np.ndarray, **_: object) -> object:
    """Find pairs that do not belong together."""
    return rl.audit(x, y)


def foretold(translator: rl.Translator, **_: object) -> object:
    """Predict the quality of the translator."""
    return translator.expected_quality()


def grown(x: np.ndarray, y: np.ndarray, **_: object) -> object:
    """Grow sixty known pairs."""
    known = np.arange(60)
    return rl.grow_pairs(x, y, (known, known))


def decomposed(x: np.ndarray, y: np.ndarray, **_: object) -> object:
    """Decompose both sides: the bare operation."""
    return [np.linalg.svd(side, full_matrices=False) for side in (x, y)]


SUITE = Suite(
    title="judging a translator, float32",
    setup=setup,
    size={"n": 5_000, "d": 768},
    quick={"n": 800, "d": 64},
    contenders={
        "evaluate": evaluated,
        "compare": compared,
        "audit": audited,
        "expected_quality": foretold,
        "grow_pairs": grown,
        "thin SVD of both sides": decomposed,
    },
    bare="thin SVD of both sides",
    peer="thin SVD of both sides",
    repeats=1,
)
