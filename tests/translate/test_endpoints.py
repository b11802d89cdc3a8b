"""A translator refuses foreign spaces, warns where it is not sure, and of foreign arrays."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import relatent as rl
from relatent.spaces import Fingerprint, Space
from relatent.spaces.probe import SpaceWarning
from relatent.translate import SpaceMismatchError
from relatent.translate import endpoints as module
from relatent.translate.endpoints import ROWS_CHECKED, Endpoints

D = 96


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
    with pytest.raises((SpaceMismatchError, SpaceWarning), match="probes agree to"):  # refused, or warned of by chance
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


def encoder(seed):
    rng = np.random.default_rng(seed)
    mix, offset = rng.normal(size=(D, D)) * np.exp(rng.normal(size=D)), rng.normal(size=D)
    return lambda n, seed: np.random.default_rng(seed).normal(size=(n, D)) @ mix + offset


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.fixture
def endpoints():
    return Endpoints.of(Space(encoder(0)(1000, 1), name="old"), encoder(1)(1000, 1))


FOREIGN = {
    "another model": lambda x: encoder(2)(len(x), 3),
    "the target": lambda x: encoder(1)(len(x), 3),
    "permuted": lambda x: x[:, np.random.default_rng(0).permutation(D)],
    "noise": lambda x: np.random.default_rng(0).normal(size=x.shape) * np.linalg.norm(x) / np.sqrt(x.size),
    "zeros": np.zeros_like,
    "times 100": lambda x: 100 * x,
    "unit rows": unit,
}


@pytest.mark.parametrize("rows", [20, 50, 5000])
@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
def test_an_array_that_is_not_of_the_source_is_warned_of(endpoints, change, rows):
    with pytest.warns(SpaceWarning, match="may not be of the source 'old' that this translator was fitted on"):
        endpoints.check_array(change(encoder(0)(rows, 2)))


@pytest.mark.parametrize("rows", [1, 19, 20, 50, 5000])
def test_an_array_of_the_source_passes(endpoints, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        endpoints.check_array(encoder(0)(rows, 2))
        endpoints.check_array(encoder(1)(rows, 2), "target")


def test_a_few_rows_say_nothing_and_what_was_accepted_passes(endpoints):
    foreign = encoder(2)(200, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        endpoints.check_array(foreign[:19])
        endpoints.accepting(Fingerprint.of(foreign)).check_array(foreign)


def test_few_rows_of_a_large_array_are_read(endpoints, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "probe_of", lambda x, _: seen.append(len(x)))
    monkeypatch.setattr(Fingerprint, "of", lambda x: seen.append(len(x)) or Fingerprint(dim=D))
    endpoints.check_array(encoder(0)(10_000, 2))
    assert seen == [ROWS_CHECKED, ROWS_CHECKED]


def test_what_a_few_directions_decide_is_not_checked_again(endpoints, monkeypatch):
    def looked(x):
        raise AssertionError("all directions were looked at")

    noise = np.random.default_rng(0).normal(size=(500, D))
    monkeypatch.setattr(Fingerprint, "of", looked)
    endpoints.check_array(encoder(0)(500, 2))
    monkeypatch.undo()
    isotropic = Endpoints.of(noise[:400], noise[:400])
    monkeypatch.setattr(Fingerprint, "of", looked)
    isotropic.check_array(noise[400:])


def test_a_foreign_space_is_refused_and_an_unsure_one_warned_of(endpoints):
    own, foreign = encoder(0)(1000, 2), encoder(2)(1000, 3)
    endpoints.check(Space(own), "source")
    with pytest.raises(SpaceMismatchError, match=r"'other' is not the source 'old'.*accept it"):
        endpoints.check(Space(1e3 * foreign, name="other"), "source")
    mixes = [Space(s * own + (1 - s) * foreign, name="mixed") for s in np.linspace(0, 1, 21)]
    outcomes = [endpoints.source.matches(space.fingerprint).outcome for space in mixes]
    unsure = mixes[outcomes.index("unsure")]
    with pytest.warns(SpaceWarning, match=r"'mixed' may not be the source 'old'.*agree to 0\.\d\d"):
        endpoints.check(unsure, "source")
    accepting = endpoints.accepting(unsure.fingerprint)
    accepting.check(unsure, "source")
    assert Endpoints.from_saved(accepting.about()) == accepting
