import json

import array_api_strict
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import relatent as rl
from relatent import _linalg
from relatent._array import to_numpy
from relatent.project.relative import sparse_codes
from relatent.translate import asif as module


@pytest.fixture
def pairs(rng):
    """Four kinds of things, seen by two unlike models: coupled vectors, test vectors, kinds, a prompt per kind."""
    kinds = np.repeat(np.arange(4), 30)
    meaning = 2 * np.eye(4)[kinds] + 0.3 * rng.normal(size=(120, 4))
    x = np.tanh(meaning @ rng.normal(size=(4, 12))) + 0.5
    y = meaning @ rng.normal(size=(4, 7)) + 1
    order = rng.permutation(120)
    prompts = np.stack([y[kinds == k].mean(axis=0) for k in range(4)])
    return x[order], y[order], kinds[order], prompts


def slow_code(vector, examples, top, power, center):
    """One code at a time, entry by entry, as the paper tells it."""
    mean = sum(examples) / len(examples) if center else 0 * vector
    cosines = []
    for example in examples:
        a, b = vector - mean, example - mean
        cosines.append(sum(a * b) / (sum(a * a) ** 0.5 * sum(b * b) ** 0.5))
    kept = sorted(range(len(cosines)), key=lambda j: -cosines[j])[:top]
    code = [abs(c) ** power * (1 if c > 0 else -1) if j in kept else 0.0 for j, c in enumerate(cosines)]
    length = sum(c * c for c in code) ** 0.5
    return np.asarray([c / length for c in code])


@pytest.mark.parametrize("normalize", ["center", "none"])
@pytest.mark.parametrize(("top", "power"), [(1, 1), (5, 3), (30, 2.5), (80, 8), (None, 2)])
def test_it_is_what_the_paper_says_entry_by_entry(xp, pairs, top, power, normalize):
    x, y, *_ = pairs
    fitted = rl.ASIF(top, power, normalize).fit(xp(x[:80]), xp(y[:80]))
    codes_x = [slow_code(v, x[:80], top or 80, power, normalize == "center") for v in x[80:90]]
    codes_y = [slow_code(v, y[:80], top or 80, power, normalize == "center") for v in y[80:86]]
    assert np.allclose(to_numpy(fitted.transform(xp(x[80:90]))), codes_x)
    assert np.allclose(to_numpy(fitted.transform_target(xp(y[80:86]))), codes_y)
    assert np.allclose(
        to_numpy(fitted.similarity(xp(x[80:90]), xp(y[80:86]))), np.asarray(codes_x) @ np.asarray(codes_y).T
    )


def test_without_cut_and_power_it_is_the_plain_relative_representation(xp, pairs):
    x, y, *_ = pairs
    fitted = rl.ASIF(top=None, power=1).fit(xp(x[:80]), xp(y[:80]))
    plain = [rl.RelativeProjection(output="l2").fit(xp(s[:80])).transform(xp(s[80:])) for s in (x, y)]
    assert np.allclose(to_numpy(fitted.transform(xp(x[80:]))), to_numpy(plain[0]))
    assert np.allclose(to_numpy(fitted.similarity(xp(x[80:]), xp(y[80:]))), to_numpy(plain[0]) @ to_numpy(plain[1]).T)
    cut = rl.ASIF(top=10, power=1).fit(x[:80], y[:80]).transform(x[80:])
    assert not np.allclose(cut, to_numpy(plain[0]))
    assert np.all((cut != 0).sum(axis=1) == 10)


@pytest.mark.parametrize("kind", [torch.from_numpy, array_api_strict.asarray, np.asarray])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_same_arrays_come_out(kind, dtype, pairs):
    x, y, kinds, prompts = pairs
    given = [kind(a.astype(dtype)) for a in (x, y, prompts)]
    fitted = rl.ASIF(top=10).fit(given[0], given[1])
    for out in (
        fitted.transform(given[0]),
        fitted.transform_target(given[1]),
        fitted.similarity(given[0], given[1]),
        fitted.predict_proba(given[0], given[2]),
    ):
        assert type(out) is type(given[0])
        assert out.dtype == given[0].dtype
    assert type(fitted.predict(given[0], given[2])) is type(given[0])
    assert np.mean(to_numpy(fitted.predict(given[0], given[2])) == kinds) == 1


def test_fitted_on_one_kind_used_on_another(pairs):
    x, y, _, prompts = pairs
    on_torch = rl.ASIF(top=10).fit(torch.from_numpy(x[:60]), torch.from_numpy(y[:60]))
    on_numpy = rl.ASIF(top=10).fit(x[:60], y[:60])
    assert np.allclose(on_torch.predict_proba(x, prompts), on_numpy.predict_proba(x, prompts))
    both = on_torch.partial_fit(x[60:], y[60:])
    assert np.allclose(both.transform(x), rl.ASIF(top=10).fit(x, y).transform(x))


def test_unseen_things_are_classified_by_prompts_alone(pairs):
    x, y, kinds, prompts = pairs
    names = np.asarray(["cat", "dog", "owl", "eel"])
    fitted = rl.ASIF(top=10).fit(x[:60], y[:60])
    predicted = fitted.predict(x[60:], prompts, names)
    assert np.mean(predicted == names[kinds[60:]]) > 0.95
    probability = fitted.predict_proba(x[60:], prompts)
    assert np.allclose(probability.sum(axis=1), 1)
    assert np.array_equal(names[probability.argmax(axis=1)], predicted)
    several = fitted.predict(x[60:], np.concatenate([prompts, prompts[:1]]), [*names, "cat"])
    assert np.array_equal(several, predicted)
    # Coupled data that are not coupled carry nothing.
    shuffled = rl.ASIF(top=10).fit(x[:60], y[np.random.default_rng(0).permutation(60)])
    assert np.mean(shuffled.predict(x[60:], prompts, names) == names[kinds[60:]]) < 0.6


def test_probabilities_are_a_softmax_at_the_stated_temperature(xp, pairs):
    x, y, _, prompts = pairs
    for temperature in (0.05, 1.0, 1e-4):
        fitted = rl.ASIF(temperature=temperature).fit(xp(x), xp(y))
        scores = torch.from_numpy(np.array(to_numpy(fitted.similarity(xp(x), xp(prompts)))))
        expected = torch.softmax(scores / temperature, dim=1).numpy()
        assert np.allclose(to_numpy(fitted.predict_proba(xp(x), xp(prompts))), expected)


def test_retrieval_both_ways_is_a_full_sort(xp, pairs):
    x, y, *_ = pairs
    fitted = rl.ASIF(top=10).fit(xp(x[:80]), xp(y[:80]))
    scores = to_numpy(fitted.similarity(xp(x[80:]), xp(y[80:])))
    for found, expected in (
        (fitted.retrieve(xp(x[80:]), xp(y[80:]), k=5), scores),
        (fitted.swapped().retrieve(xp(y[80:]), xp(x[80:]), k=5), scores.T),
    ):
        assert np.array_equal(found.indices, np.argsort(-expected, axis=1, kind="stable")[:, :5])
        assert np.allclose(found.similarities, -np.sort(-expected, axis=1)[:, :5])
    again = fitted.swapped().swapped()
    assert np.array_equal(to_numpy(again.transform(xp(x))), to_numpy(fitted.transform(xp(x))))
    assert fitted.swapped().n_features_in_ == 7


@pytest.mark.parametrize(
    ("move", "normalize", "survives"),
    [
        ("rotate", "center", True),
        ("rotate", "none", True),
        ("rescale", "center", True),
        ("offset", "center", True),
        ("offset", "none", False),
        ("stretch", "center", False),
    ],
)
def test_each_space_may_move_by_itself(rng, orthogonal, pairs, move, normalize, survives):
    x, y, *_ = pairs
    moved = {
        "rotate": lambda: x @ orthogonal(12),
        "rescale": lambda: 7 * x,
        "offset": lambda: x + rng.normal(size=12),
        "stretch": lambda: x * np.linspace(0.1, 3, 12),
    }[move]()
    before, after = (
        rl.ASIF(10, normalize=normalize).fit(s[:80], y[:80]).similarity(s[80:], y[80:]) for s in (x, moved)
    )
    assert np.allclose(before, after) is survives


def test_the_order_of_the_pairs_decides_nothing_even_between_equals(rng, pairs):
    x, y, *_ = pairs
    twice = [np.concatenate([a[:40], a[:40]]) for a in (x, y)]
    order = rng.permutation(80)
    one, other = (rl.ASIF(7).fit(twice[0][rows], twice[1][rows]) for rows in (np.arange(80), order))
    assert np.allclose(one.similarity(x, y), other.similarity(x, y))


def test_pairs_come_and_go_without_a_refit(xp, pairs):
    x, y, *_ = pairs
    whole = rl.ASIF(9).fit(xp(x[:90]), xp(y[:90]))
    grown = rl.ASIF(9).partial_fit(xp(x[:3]), xp(y[:3]))
    assert grown.top_ == 3
    grown.partial_fit(xp(x[3:50]), xp(y[3:50])).partial_fit(xp(x[50:90]), xp(y[50:90]))
    assert (grown.n_pairs_, grown.top_) == (90, 9)
    assert np.allclose(to_numpy(grown.transform(xp(x))), to_numpy(whole.transform(xp(x))))
    before = to_numpy(whole.transform(xp(x)))
    left = whole.drop([0, 2, 89, 2])
    never = rl.ASIF(9).fit(xp(np.delete(x[:90], [0, 2, 89], axis=0)), xp(np.delete(y[:90], [0, 2, 89], axis=0)))
    assert np.allclose(to_numpy(left.transform(xp(x))), to_numpy(never.transform(xp(x))))
    assert before.shape != to_numpy(left.transform(xp(x))).shape


def test_blocks_and_sparse_codes_change_nothing(xp, monkeypatch, pairs):
    x, y, *_ = pairs
    fitted = rl.ASIF(8, power=3).fit(xp(x[:100]), xp(y[:100]))  # sparse: 8 of 100
    scores, found = to_numpy(fitted.similarity(xp(x), xp(y))), fitted.retrieve(xp(x), xp(y), 6)
    assert np.allclose(scores, to_numpy(fitted.transform(xp(x))) @ to_numpy(fitted.transform_target(xp(y))).T)
    monkeypatch.setattr(_linalg, "CHUNK_ENTRIES", 700)
    assert np.allclose(to_numpy(fitted.similarity(xp(x), xp(y))), scores)
    assert np.array_equal(fitted.retrieve(xp(x), xp(y), 6).indices, found.indices)
    monkeypatch.setattr(module, "SPARSE", 10**9)
    assert np.allclose(to_numpy(fitted.similarity(xp(x), xp(y))), scores)


def test_many_pairs_are_held_sparse(rng, monkeypatch):
    """Codes of 300 candidates over 20,000 pairs: the block in work is all that is dense."""
    x, y = rng.normal(size=(20_000, 6)).astype(np.float32), rng.normal(size=(20_000, 5)).astype(np.float32)
    monkeypatch.setattr(_linalg, "CHUNK_ENTRIES", 200_000)
    fitted = rl.ASIF(top=50).fit(x, y)
    held = fitted._held(y[:300])
    assert held.nnz == 300 * 50
    blocks = []

    def watched(r, *options):
        blocks.append(r.size)
        return sparse_codes(r, *options)

    monkeypatch.setattr(module, "sparse_codes", watched)
    fitted.retrieve(x[:100], y[:300], 3)
    assert len(blocks) == 40
    assert max(blocks) <= 200_000


def test_a_high_power_does_not_make_codes_vanish(pairs):
    x, y, kinds, prompts = pairs
    fitted = rl.ASIF(top=None, power=500).fit(x.astype(np.float32), y.astype(np.float32))
    codes = fitted.transform(x.astype(np.float32))
    assert np.allclose(np.linalg.norm(codes, axis=1), 1)
    assert np.mean(fitted.predict(x.astype(np.float32), prompts.astype(np.float32)) == kinds) > 0.9


def test_a_few_pairs_are_all_kept(pairs):
    x, y, *_ = pairs
    assert rl.ASIF(top=200).fit(x[:5], y[:5]).top_ == 5
    assert np.allclose(rl.ASIF(200).fit(x[:5], y[:5]).transform(x), rl.ASIF(None).fit(x[:5], y[:5]).transform(x))


def test_parameters_change_without_a_refit(pairs):
    x, y, _, prompts = pairs
    changed = rl.ASIF().fit(x, y).set_params(top=5, power=4, temperature=0.3)
    fresh = rl.ASIF(5, 4, temperature=0.3).fit(x, y)
    assert changed.top_ == 5
    assert np.array_equal(changed.predict_proba(x, prompts), fresh.predict_proba(x, prompts))
    with pytest.raises(ValueError, match="power is -1"):
        changed.set_params(power=-1).predict(x, prompts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"top": 0}, "0 coupled examples to keep were asked for: expected a whole number"),
        ({"top": 2.5}, "2.5 coupled examples to keep"),
        ({"top": True}, "True coupled examples"),
        ({"power": 0}, "power is 0: expected a positive number"),
        ({"power": float("nan")}, "power is nan"),
        ({"temperature": -1}, "temperature is -1: expected a positive number"),
        ({"normalize": "centre"}, "no normalization 'centre'. Did you mean 'center'"),
    ],
)
def test_bad_options_are_refused_when_fitting(pairs, options, message):
    with pytest.raises(ValueError, match=message):
        rl.ASIF(**options).fit(*pairs[:2])


def test_bad_pairs_are_refused(pairs):
    x, y, *_ = pairs
    broken, empty = x.copy(), x.copy()
    broken[7, 3], empty[[11, 30]] = np.nan, 0
    with pytest.raises(ValueError, match="X has 120 rows and Y has 100 rows: expected the same number"):
        rl.ASIF().fit(x, y[:100])
    with pytest.raises(ValueError, match="X holds NaN or infinity in 1 of 120 rows, first in row 7"):
        rl.ASIF().fit(broken, y)
    with pytest.raises(ValueError, match="X holds 2 zero vectors, first in row 11"):
        rl.ASIF().fit(empty, y)
    with pytest.raises(TypeError, match="X is a numpy array and Y is a torch array"):
        rl.ASIF().fit(x, torch.from_numpy(y))
    with pytest.raises(ValueError, match=r"Nothing is left of X \(n_samples=1\) after normalize='center'"):
        rl.ASIF().fit(x[:1], y[:1])
    assert rl.ASIF(normalize="none").fit(x[:1], y[:1]).similarity(x[:1], y[:1]).shape == (1, 1)


def test_bad_questions_are_refused(pairs):
    x, y, _, prompts = pairs
    fitted = rl.ASIF().fit(x, y)
    nan, zero = prompts.copy(), x[:3].copy()
    nan[2, 0], zero[1] = np.inf, 0
    for call, message in (
        (lambda: fitted.predict(x, prompts[:, :5]), r"prompts has shape \(4, 5\): expected 7 columns, .* of Y have"),
        (lambda: fitted.predict(y, prompts), r"X has shape \(120, 7\): expected 12 columns"),
        (lambda: fitted.predict(x, nan), "prompts holds NaN or infinity in 1 of 4 rows, first in row 2"),
        (lambda: fitted.predict(zero, prompts), "X holds 1 zero vectors, first in row 1"),
        (lambda: fitted.predict(x, prompts, ["a", "b"]), "There are 4 prompts and 2 classes"),
        (lambda: fitted.retrieve(x, y[:5], k=6), "6 candidates were asked for but there are only 5"),
        (lambda: fitted.retrieve(x, x), r"candidates has shape \(120, 12\): expected 7 columns"),
        (lambda: fitted.swapped().transform(x), r"expected 7 columns, as the coupled vectors of Y have"),
        (lambda: fitted.partial_fit(x[:3], y[:3, :6]), r"Y has shape \(3, 6\): expected 7 columns"),
        (lambda: fitted.drop([120]), "rows does not fit 120 pairs: expected rows from 0 to 119"),
        (lambda: fitted.drop([-1]), "rows does not fit 120 pairs"),
        (lambda: fitted.drop(np.ones(120, dtype=bool)), "rows does not fit 120 pairs"),
        (lambda: fitted.drop(range(120)), "All 120 pairs would be dropped"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert fitted.n_pairs_ == 120


def test_unfitted_it_says_so(pairs):
    x, y, _, prompts = pairs
    for call in (
        lambda a: a.predict(x, prompts),
        lambda a: a.transform(x),
        lambda a: a.retrieve(x, y),
        lambda a: a.swapped(),
        lambda a: a.drop([0]),
        lambda a: a.save("nowhere"),
    ):
        with pytest.raises(NotFittedError):
            call(rl.ASIF())


def test_it_clones_and_works_in_a_pipeline(pairs):
    x, y, kinds, prompts = pairs
    fitted = rl.ASIF(top=7, power=3, normalize="iso", temperature=0.2)
    assert clone(fitted).get_params() == {"top": 7, "power": 3, "normalize": "iso", "temperature": 0.2}
    pipeline = make_pipeline(StandardScaler(), rl.ASIF()).set_params(asif__top=10)
    predicted = pipeline.fit(x[:60], y[:60]).predict(x[60:], prompts=prompts)
    assert np.mean(predicted == kinds[60:]) > 0.9


def test_it_is_saved_with_its_pairs_and_says_so(tmp_path, xp, pairs):
    x, y, _, prompts = pairs
    path = tmp_path / "a.safetensors"
    fitted = rl.ASIF(9, power=3, normalize="iso", temperature=0.2).fit(xp(x), xp(y))
    fitted.save(path)
    for loaded in (rl.load(path), rl.ASIF.load(path)):
        assert loaded.get_params() == fitted.get_params()
        assert np.allclose(loaded.predict_proba(x, prompts), to_numpy(fitted.predict_proba(xp(x), xp(prompts))))
    header = path.read_bytes()[8 : 8 + int.from_bytes(path.read_bytes()[:8], "little")]
    about = json.loads(json.loads(header)["__metadata__"]["about"])
    assert about["holds"] == "the coupled vectors of both sides"
    with pytest.raises(ValueError, match="holds a asif, not a translator"):
        rl.Translator.load(path)


def test_codes_are_differentiable(pairs):
    x, y, *_ = pairs
    fitted = rl.ASIF(top=5, power=3).fit(x, y)
    assert torch.autograd.gradcheck(fitted.transform, (torch.tensor(x[:3] + 0.01, requires_grad=True),))


def test_two_spaces_are_joined_on_keys(pairs, rng):
    images, texts = pairs[:2]
    keys, order = [f"k{i}" for i in range(len(images))], rng.permutation(len(images))
    shuffled = rl.Space(texts[order], [keys[i] for i in order])
    by_key, by_row = rl.ASIF().fit(rl.Space(images, keys), shuffled), rl.ASIF().fit(images, texts)
    np.testing.assert_array_equal(by_key.similarity(images[:5], texts[:5]), by_row.similarity(images[:5], texts[:5]))
