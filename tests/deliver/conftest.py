import numpy as np
import pytest

import relatent as rl
from relatent.deliver import fit_spaces
from relatent.translate import Translator


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
    fit_spaces(t, *spaces)
    return t
