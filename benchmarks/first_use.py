"""The first call in a fresh interpreter, where imports are what takes time."""

import subprocess
import sys
from collections.abc import Callable

from benchmarks.harness import Inputs, Suite, Target

PAIR = "import numpy as np; x, y = np.random.default_rng(0).normal(size=(2, 1000, 64)); "
OURS = f"{PAIR}import relatent as rl; "


def fresh(code: str) -> Callable[[], object]:
    """Return a function that runs code in an interpreter of its own."""
    return lambda: subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def setup() -> Inputs:
    """Each interpreter draws its own rows."""
    return {}


def modules() -> list[str]:
    """Count the modules that each call loads."""
    count = "import sys; print(len(sys.modules), sum(name.startswith('relatent') for name in sys.modules))"
    calls = {"relative_projection": "rl.relative_projection(x, y)", "cka": "rl.evaluate.cka(x, y)"}
    shown = {
        name: subprocess.run(
            [sys.executable, "-c", f"{OURS}{call}; {count}"], capture_output=True, text=True, check=True
        )
        for name, call in calls.items()
    }
    return [f"{name} loads {' modules, of ours '.join(done.stdout.split())}." for name, done in shown.items()]


SUITE = Suite(
    title="first use in a fresh interpreter",
    setup=setup,
    size={},
    quick={},
    contenders={
        "NumPy x @ y.T": fresh(f"{PAIR}x @ y.T"),
        "relative_projection": fresh(f"{OURS}rl.relative_projection(x, y)"),
        "evaluate.cka": fresh(f"{OURS}rl.evaluate.cka(x, y)"),
        "evaluate.mrr": fresh(f"{OURS}rl.evaluate.mrr(x, y)"),
        "scikit-learn cosine": fresh(f"{PAIR}from sklearn.metrics.pairwise import cosine_similarity as c; c(x, y)"),
    },
    bare="NumPy x @ y.T",
    peer="scikit-learn cosine",
    targets=[Target("relative_projection", over="scikit-learn cosine", at_least=1.5)],
    notes=modules,
)
