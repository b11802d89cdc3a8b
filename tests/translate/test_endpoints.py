from __future__ import annotations

import numpy as np
import pytest

import relatent as rl
from relatent.translate import SpaceMismatchError


@pytest.fixture
def spaces(rng, orthogonal):
    """An old and a new model of the same width over nearly the same keys, in another order."""
    x = rng.normal(size=(300, 32)) * np.linspace(0.2, 3, 32) + np.linspace(-1, 1, 32)
    y = x @ orthogonal(32)
    keys = [f"doc {i}" for i in range(300)]
    order = rng.permutation(290)
    old = rl.Space(x, keys, "old", rl.Fingerprint(dim=32, model="old-model"))
    new = rl.Space(y[order], [keys[i] for i in order], "new", rl.Fingerprint(dim=32, model="new-model"))
    return old, new


def test_spaces_are_joined_on_keys_and_remembered(spaces, tmp_path):
    old, new = spaces
    t = rl.Translator(map="orthogonal").fit(old, new)
    assert t.n_pairs_ == 290
    x, y = rl.parallel(old, new)
    np.testing.assert_allclose(t.transform(x), y, atol=1e-8)
    t.save(tmp_path / "t.safetensors")
    assert rl.load(tmp_path / "t.safetensors").endpoints_ == t.endpoints_


def test_a_space_gives_a_space_that_says_where_it_came_from(spaces):
    old, new = spaces
    out = rl.Translator(map="orthogonal").fit(old, new).transform(old)
    assert out.keys.tolist() == old.keys.tolist()
    assert (out.fingerprint.model, out.fingerprint.revision) == ("new-model", "translated from old-model")


def test_another_space_of_the_same_width_is_refused_until_accepted(spaces, rng, tmp_path):
    old, new = spaces
    t = rl.Translator(map="orthogonal").fit(old, new)
    with pytest.raises(SpaceMismatchError, match="model is 'old-model' in one and 'new-model' in the other"):
        t.transform(new)
    unnamed = rl.Space(new.vectors, new.keys, "unnamed")  # no model recorded: the probe gives it away
    bare = rl.Translator(map="orthogonal").fit(*rl.parallel(old, new))
    with pytest.raises(SpaceMismatchError, match="agree only to"):
        bare.transform(unnamed)
    assert bare.accept(unnamed).transform(unnamed).shape == new.shape
    bare.save(tmp_path / "t.safetensors")
    assert len(rl.load(tmp_path / "t.safetensors").endpoints_.accepted) == 1


def test_the_target_side_is_checked_too(spaces):
    old, new = spaces
    t = rl.Translator("retrieval").fit(old, new)
    assert t.transform_target(new).shape[1] == t.transform(old).shape[1]
    with pytest.raises(SpaceMismatchError, match="not the target 'new'"):
        t.transform_target(old)
