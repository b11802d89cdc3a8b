"""What a verdict may rest on: no copies of fitted items, and items like those to be migrated."""

import numpy as np
import pytest

import relatent as rl
from relatent.decide import Relevance, Rule, evaluate_spaces
from relatent.decide.held_out import least_unlike, near_copies, share_unlike
from relatent.translate import Translator


def on_a_curve(rng, n):
    """Rows of one intrinsic dimension: nearest neighbors are much nearer than the tenth, by chance."""
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)], axis=1)


DATA = {
    "1": on_a_curve,
    "3": lambda rng, n: rng.normal(size=(n, 3)),
    "8": lambda rng, n: rng.normal(size=(n, 8)) * np.linspace(2, 0.5, 8),
    "200": lambda rng, n: rng.normal(size=(n, 200)),
    "clusters": lambda rng, n: 5 * rng.normal(size=(10, 16))[np.arange(n) % 10] + rng.normal(size=(n, 16)),
}


@pytest.mark.parametrize("name", DATA)
def test_nothing_is_a_copy_where_there_is_none(rng, name):
    x = DATA[name](rng, 3_000)
    assert np.mean(near_copies(x[1_000:], x[:1_000])) < 0.005


@pytest.mark.parametrize("name", ["8", "200", "clusters"])
@pytest.mark.parametrize("noise", [0, 1e-6, 0.02])
@pytest.mark.parametrize("share", [0.05, 1.0])
def test_planted_copies_are_found(rng, name, noise, share):
    """However many of the rows are copies, and whatever the units are."""
    x = 100 + 7 * DATA[name](rng, 3_000)
    fitted, held_out = x[:1_000], x[1_000:].copy()
    planted = np.arange(int(share * len(held_out)))
    scale = noise * np.std(fitted, axis=0)
    held_out[planted] = fitted[planted % 1_000] + scale * rng.normal(size=(len(planted), x.shape[1]))
    found = near_copies(held_out, fitted)
    assert np.mean(found[planted]) > 0.99
    assert np.mean(np.delete(found, planted)) < 0.005 if share < 1 else True


def test_an_item_with_many_copies_is_one():
    fitted = np.repeat(np.random.default_rng(0).normal(size=(20, 4)), 20, axis=0)
    assert near_copies(fitted[:40], fitted).all()
    assert not near_copies(fitted[:40], fitted[:5]).any()  # too few to tell what is near


def test_draws_of_the_same_kind_are_alike(rng):
    x = rng.normal(size=(4_000, 40)) * np.linspace(2, 0.2, 40)
    assert max(share_unlike(x[:2_000], x[2_000 : 2_000 + n]) for n in (60, 300, 2_000)) < 0.1
    assert share_unlike(x[:2_000], x[2_000:2_030]) is None


def test_rows_of_another_kind_are_unlike(rng):
    known, other = rng.normal(size=(2, 1_000, 40))
    other += 4 * rng.normal(size=40) / np.sqrt(40)
    mixed = np.concatenate([known[500:], other])
    assert share_unlike(mixed, known[:500]) == pytest.approx(2 / 3, abs=0.15)
    assert least_unlike(mixed, known[:500], other[:500]) < 0.1 < least_unlike(mixed, known[:500], known[:100])


@pytest.fixture
def task(rng, orthogonal):
    """Two models of 700 items, and which are nearest to each other."""
    truth = rng.normal(size=(700, 16)) * np.linspace(2, 0.5, 16)
    keys = [f"k{i}" for i in range(700)]
    old, new = (truth + 0.02 * rng.normal(size=truth.shape)) @ orthogonal(16), truth @ orthogonal(16)
    spaces = [rl.Space(v.astype(np.float32), keys, n, rl.Fingerprint(16, n)) for v, n in ((old, "old"), (new, "new"))]
    near = rl.evaluate.nearest(truth[300:], truth[300:], 3, exclude_self=True).indices + 300
    pairs = [(keys[i + 300], keys[j]) for i, row in enumerate(near) for j in row]
    return (*spaces, Relevance(*zip(*pairs, strict=True)))


def fitted(spaces, n=300):
    return Translator().fit(*spaces, anchors=[f"k{i}" for i in range(n)])


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_copies_of_anchors_under_other_keys_are_not_judged(task, rng, noise):
    old, new, relevant = task
    keys = [*old.keys, *(f"copy {i}" for i in range(200))]
    copied = [
        rl.Space(
            np.concatenate([s.vectors, s.vectors[:200] + noise * rng.normal(size=(200, 16))]),
            keys,
            s.name,
            s.fingerprint,
        )
        for s in (old, new)
    ]
    found = evaluate_spaces(fitted(copied), *copied, relevant=relevant, index_rows=700)
    assert found.held_out.copies == pytest.approx(200, abs=2)
    assert found.scores.items == pytest.approx(400, abs=2)
    assert f"{found.held_out.copies} near-copies of them are left out" in str(found)
    assert found.to_dict()["held_out"]["copies"] == found.held_out.copies
    assert evaluate_spaces(fitted((old, new)), old, new, relevant=relevant).held_out.copies <= 2


@pytest.mark.parametrize("judged", [True, False])
def test_no_go_where_it_is_not_known_what_was_fitted_on(task, judged):
    old, new, relevant = task
    t = Translator().fit(old.vectors, new.vectors)
    given = {"relevant": relevant} if judged else {"rule": Rule(min_overlap=0.1)}
    found = evaluate_spaces(t, old, new, **given)
    assert (found.decision.verdict, found.decision.recommended) == ("no verdict", None)
    assert "does not know the keys it was fitted on" in found.decision.reasons[0]
    assert evaluate_spaces(t, old, new, **given, force=True).go
    assert evaluate_spaces(fitted((old, new)), old, new, **given).go


def test_no_go_for_rows_of_a_kind_that_nobody_judged(task, rng):
    """The source has as many rows again of another kind, which the target lacks."""
    old, new, relevant = task
    other = rng.normal(size=(700, 16)) + 3
    keys = [*old.keys, *(f"other {i}" for i in range(700))]
    both = rl.Space(np.concatenate([old.vectors, other]).astype(np.float32), keys, "old", old.fingerprint)
    t = fitted((old, new))
    found = evaluate_spaces(t, both, new, relevant=relevant)
    assert found.held_out.unlike == pytest.approx(0.5, abs=0.1)
    assert found.decision.verdict == "no verdict"
    assert "of the rows to migrate resemble neither" in found.decision.reasons[0]
    assert evaluate_spaces(t, both, new, relevant=relevant, force=True).go
    assert evaluate_spaces(t, old, new, relevant=relevant, migrated=both.vectors).held_out == found.held_out
    assert evaluate_spaces(t, old, new, relevant=relevant).go
    same = rl.Space(np.concatenate([old.vectors, old.vectors[::-1] + 0.05]), keys, "old", old.fingerprint)
    assert evaluate_spaces(t, same, new, relevant=relevant).go
