"""A translator refuses foreign spaces, warns where it is not sure, and of foreign arrays."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pyarrow as pa
import pytest
from tests.spaces.networks import encode, mixed

import relatent as rl
from relatent._errors import message_for_command
from relatent.spaces import Fingerprint, Space
from relatent.spaces.probe import SpaceWarning
from relatent.translate import SpaceMismatchError
from relatent.translate import endpoints as module
from relatent.translate.endpoints import BLOCK_ROWS, ROWS_CHECKED, BlockCheck, Endpoints

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
    with pytest.raises((SpaceMismatchError, SpaceWarning), match="they agree to"):  # refused, or warned of by chance
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
    look = module.compare_blocks
    monkeypatch.setattr(module, "compare_blocks", lambda known, x: seen.append(x.shape) or look(known, x))
    endpoints.check_array(encoder(0)(20_000, 2))
    assert sum(blocks for blocks, _, _ in seen) == 20_000 // BLOCK_ROWS
    assert {rows for _, rows, _ in seen} == {ROWS_CHECKED}


def test_the_rows_of_another_model_are_named(endpoints):
    x = np.concatenate([encoder(0)(3000, 2), encoder(2)(300, 3), encoder(0)(2000, 4)])
    with pytest.warns(SpaceWarning, match=r"of rows (2,9\d\d|3,0\d\d) to 3,\d+, "):
        endpoints.check_array(x)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_mixture_is_noticed_in_every_block(endpoints, share):
    x = mixed(encoder(0)(600, 2), encoder(2)(600, 3), share)
    with pytest.warns(SpaceWarning, match=r"far out where the others hardly vary|they agree to|norm far from"):
        endpoints.check_array(x)


def test_a_migration_stops_at_rows_of_another_model_and_names_their_keys(endpoints):
    check = pickle.loads(pickle.dumps(BlockCheck(endpoints, "source", "a store")))
    keys = pa.array([f"key {i}" for i in range(1000)])
    check(encoder(0)(1000, 2), keys)
    check(encoder(2)(19, 2))  # too few to tell
    foreign = np.concatenate([encoder(0)(500, 2), encoder(2)(500, 3)])
    with pytest.raises(
        SpaceMismatchError, match=r"with keys 'key \d+' to 'key \d+' of a store (are not|may not be)"
    ) as error:
        check(foreign, keys)
    assert "--accept" in message_for_command(error.value)
    with pytest.raises(SpaceMismatchError, match="may not be"):
        check(mixed(encoder(0)(1000, 2), encoder(2)(1000, 3), 0.2))
    accepting = endpoints.accepting(Fingerprint.of(encoder(2)(1000, 4)))
    BlockCheck(accepting, "source", "a store")(foreign, keys)


def test_what_is_not_sure_is_refused_where_nobody_watches(endpoints):
    space = Space(mixed(encoder(0)(1000, 2), encoder(2)(1000, 3), 0.2), name="mixed")
    with pytest.warns(SpaceWarning, match="may not be"):
        endpoints.check(space, "source")
    with pytest.raises(SpaceMismatchError, match="'mixed' may not be the source 'old'"):
        endpoints.check(space, "source", strict=True)


def test_the_shard_of_another_model_is_named(endpoints, tmp_path):
    for i in range(5):
        rl.write_space(Space(encoder(2 if i == 3 else 0)(300, i)), tmp_path / f"{i}.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpaceWarning)  # which reading the folder gives
        space = rl.read_space(tmp_path)
    with pytest.raises(SpaceMismatchError, match=r"of .*3\.parquet from row 0 on, "):
        endpoints.check(space, "source", strict=True)


@pytest.mark.parametrize("goal", ["vectors", "retrieval"])
def test_rows_of_the_other_side_are_known_as_such_on_another_corpus(goal):
    x, y = encode(0, 0, 800), encode(1, 0, 800)
    ends = rl.Translator(goal).fit(x, y).endpoints_
    for side, own, other in (("source", 0, 1), ("target", 1, 0)):
        assert not ends.is_other_side(Space(encode(own, 2, 300, 5)), side)
        assert ends.is_other_side(Space(encode(other, 2, 300, 5)), side)
        assert not ends.is_other_side(Space(encode(3, 2, 300, 5)), side)
        with pytest.raises(SpaceMismatchError, match=f"is not the {side}"):
            ends.check(Space(encode(other, 2, 300, 5)), side)


def test_a_foreign_space_is_refused_and_an_unsure_one_warned_of(endpoints):
    own, foreign = encoder(0)(1000, 2), encoder(2)(1000, 3)
    endpoints.check(Space(own), "source")
    with pytest.raises(SpaceMismatchError, match=r"'other' is not the source 'old'.*accept it"):
        endpoints.check(Space(1e3 * foreign, name="other"), "source")
    mixes = (Space(s * own + (1 - s) * foreign, name="mixed") for s in np.linspace(0, 1, 81))
    unsure = next(space for space in mixes if endpoints.source.matches(space.fingerprint).outcome == "unsure")
    with pytest.warns(SpaceWarning, match=r"'mixed' may not be the source 'old'.*agree to 0\.\d\d"):
        endpoints.check(unsure, "source")
    accepting = endpoints.accepting(unsure.fingerprint)
    accepting.check(unsure, "source")
    assert Endpoints.from_saved(accepting.about()) == accepting
