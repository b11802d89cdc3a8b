from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import relatent as rl
from relatent import Pairs, Translator

WIDTHS = [(2, 3), (4, 1), (2, 4)]
OPTIONS = [
    {"map": "ridge"},
    {"map": "ridge", "penalty": 0.3},
    {"map": "orthogonal", "normalize": "standard"},
    {"map": "affine"},
    {"map": "whitened", "normalize": "whiten"},
    {"goal": "vectors"},
]


@pytest.fixture
def pair(rng):
    x = rng.normal(size=(200, 8)) + 3
    return x, x @ rng.normal(size=(8, 8)) + rng.normal(size=(200, 8))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_blocks_equal_separate_fits(pair, options, tmp_path):
    x, y = pair
    t = Translator(**options, blocks=WIDTHS).fit(x, y)
    ends = np.cumsum(WIDTHS, axis=0)
    parts = [
        Translator(**options, max_cost="affine").fit(x[:, a - i : a], y[:, b - j : b]).transform(x[:, a - i : a])
        for (a, b), (i, j) in zip(ends, WIDTHS, strict=True)
    ]
    np.testing.assert_allclose(t.transform(x), np.concatenate(parts, axis=1), atol=1e-10)
    assert t.map_.is_affine
    assert np.all(t.matrix_[:2, 3:] == 0)
    assert not np.allclose(t.transform(x), Translator(**options, max_cost="affine").fit(x, y).transform(x), atol=0.1)
    t.save(tmp_path / "t.safetensors")
    again = rl.load(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(again.transform(x), t.transform(x))
    assert "3 blocks" in repr(again)


def test_a_number_of_blocks_cuts_both_sides_evenly(pair):
    x, y = pair
    one, other = (Translator(map="ridge", blocks=blocks).fit(x, y) for blocks in (np.int64(4), [(2, 2)] * 4))
    np.testing.assert_array_equal(one.matrix_, other.matrix_)
    whole = Translator(map="ridge", blocks=1).fit(x, y)
    np.testing.assert_allclose(whole.matrix_, Translator(map="ridge").fit(x, y).matrix_, atol=1e-12)
    assert clone(one).blocks == 4


def test_sums_in_chunks_and_in_bytes_give_the_same_blocks(pair):
    x, y = pair
    t = Translator(map="ridge", penalty=0.1, blocks=2)
    shards = [Pairs.of(x[i : i + 50], y[i : i + 50], start=i, size=30) for i in range(0, 200, 50)]
    whole = t.fit(x, y).matrix_
    np.testing.assert_allclose(clone(t).fit(Pairs.total(shards)).matrix_, whole, rtol=1e-8)
    streamed = clone(t)
    for i in range(0, 200, 50):
        streamed.partial_fit(x[i : i + 50], y[i : i + 50])
    np.testing.assert_allclose(streamed.matrix_, whole, rtol=1e-8)
    few = clone(t).fit(x[:3], y[:3])  # fewer pairs than coordinates
    np.testing.assert_allclose(
        few.matrix_[:4, :4], Translator(map="ridge", penalty=0.1).fit(x[:3, :4], y[:3, :4]).matrix_
    )


def test_blocks_of_several_sources_have_a_share_of_each(pair, rng):
    x, y = pair
    other = rng.normal(size=(200, 4))
    t = Translator(map="ridge", blocks=2).fit([x, other], y)
    first = Translator(map="ridge").fit([x[:, :4], other[:, :2]], y[:, :4])
    np.testing.assert_allclose(t.transform([x, other])[:, :4], first.transform([x[:, :4], other[:, :2]]), atol=1e-10)
    assert np.all(t.matrix_[:4, 4:] == 0)
    assert np.all(t.matrix_[8:10, 4:] == 0)


def test_a_far_mean_keeps_its_digits(pair):
    x, y = (a.astype(np.float32) for a in pair)
    x += np.float32(1e4)
    t = Translator(map="ridge", blocks=2).fit(x, y)
    assert t.map_.before is not None
    parts = (slice(0, 4), slice(4, 8))
    separate = [Translator(map="ridge").fit(x[:, part], y[:, part]).map_(x[:, part]) for part in parts]
    np.testing.assert_allclose(t.map_(x), np.concatenate(separate, axis=1), atol=1e-5)


def test_what_is_expected_of_blocks_and_exports_are_there(pair):
    x, y = pair
    t = Translator(map="ridge", blocks=2).fit(x, y)
    assert t.expected_quality()["cosine"].value > 0
    assert 0 <= t.confidence(x[:3]).min() <= 1
    np.testing.assert_allclose(t.pull_back(np.eye(8))(x), t.transform(x), atol=1e-8)
    assert "2 blocks" in str(t.summary())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"blocks": 3}, "blocks is 3, and 8 coordinates"),
        ({"blocks": 0}, "blocks is 0: expected a number of 1 or more"),
        ({"blocks": 2.5}, "blocks is 2.5"),
        ({"blocks": -2}, "blocks is -2"),
        ({"blocks": [(4, 4), (4,)]}, "expected a number of 1 or more, or a list"),
        ({"blocks": [(8, 8), (0, 0)]}, "widths of 1 or more"),
        ({"blocks": []}, "expected a number"),
        ({"blocks": [(4, 4)]}, r"blocks have \[4, 4\] coordinates in all: expected \[8, 8\]"),
        ({"blocks": 2, "goal": "retrieval"}, "blocks were given for goal 'retrieval'"),
        ({"blocks": 2, "normalize": "l2"}, "scales whole rows"),
    ],
)
def test_blocks_that_mean_nothing_are_refused(pair, options, says):
    with pytest.raises(ValueError, match=says):
        Translator(**options).fit(*pair)
