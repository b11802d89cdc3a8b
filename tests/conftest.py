from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import settings

import relatent as rl
from relatent.translate import Translator

# The machine decides how long an example takes, not the code under test.
settings.register_profile("relatent", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("relatent")


def _read_only(a: np.ndarray) -> np.ndarray:
    a = np.array(a)
    a.setflags(write=False)
    return a


def _torch(a: np.ndarray) -> Any:
    import torch  # which the environment of `make test-stores` does without

    return torch.from_numpy(np.array(a))


KINDS: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": np.array,
    "read-only": _read_only,
    "torch": _torch,
    "strict": lambda a: array_api_strict.asarray(np.array(a)),
}


@pytest.fixture(params=KINDS, scope="session")
def xp(request: pytest.FixtureRequest) -> Callable[[np.ndarray], Any]:
    """A function that turns a NumPy array into an array of one kind; every kind must give the same mathematics."""
    return KINDS[request.param]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def orthogonal(rng: np.random.Generator) -> Callable[[int], np.ndarray]:
    """Draw a random orthogonal matrix."""
    return lambda d: np.linalg.qr(rng.normal(size=(d, d)))[0]


@pytest.fixture
def spaces(rng, orthogonal):
    x = rng.normal(size=(600, 8)) * np.linspace(2, 0.5, 8)
    keys = [f"k{i}" for i in range(600)]
    order = rng.permutation(600)
    old = rl.Space(x.astype(np.float32), keys, "old", rl.Fingerprint(8, "old"), others={"half": ["a", "b"] * 300})
    new = rl.Space(
        (x @ orthogonal(8)).astype(np.float32)[order], [keys[i] for i in order], "new", rl.Fingerprint(8, "new")
    )
    return old, new


@pytest.fixture
def translator(spaces):
    t = Translator()
    t.fit(*spaces, held_out=0.2)
    return t
