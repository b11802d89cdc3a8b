"""The first call in a fresh interpreter, where imports are what takes time."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator

PAIR = "import numpy as np; x, y = np.random.default_rng(0).normal(size=(2, 1000, 64)); "
OURS = f"{PAIR}import relatent as rl; "
COMMAND = "from relatent.cli import app; "
SAVED = str(Path(tempfile.gettempdir()) / "relatent-first-use.safetensors")


def fresh(code: str) -> Callable[[], object]:
    """Return a function that runs code in an interpreter of its own."""
    return lambda: subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, stdout=subprocess.DEVNULL)


def setup() -> Inputs:
    """Save a translator; each interpreter draws its own rows."""
    x = np.random.default_rng(0).normal(size=(1_000, 64))
    Translator(map="orthogonal").fit(x, -x).save(SAVED, overwrite=True)
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
        "load a translator": fresh(f"{OURS}rl.load({SAVED!r})"),
        "relatent --help": fresh(f"{COMMAND}app(['--help'])"),
        "relatent info": fresh(f"{COMMAND}app(['info', {SAVED!r}])"),
        "evaluate.mrr": fresh(f"{OURS}rl.evaluate.mrr(x, y)"),
        "scikit-learn cosine": fresh(f"{PAIR}from sklearn.metrics.pairwise import cosine_similarity as c; c(x, y)"),
    },
    bare="NumPy x @ y.T",
    peer="scikit-learn cosine",
    targets=[
        Target("relative_projection", over="scikit-learn cosine", at_least=1.5),
        Target("relative_projection", over="NumPy x @ y.T", at_least=0.7),
    ],
    notes=modules,
)
