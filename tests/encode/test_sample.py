"""The texts of some items of a space, and their vectors by another model."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.embedder import embedded

import relatent as rl
from relatent.encode import encode, function, sample_texts, texts_of


def notes(n=500, first=0):
    keys = [f"note {i}" for i in range(first, first + n)]
    texts = [f"text {i} of subject {i % 5}" for i in range(first, first + n)]
    return rl.Space(embedded(texts, 12, "old"), keys, "old", others={"body": texts, "year": list(range(n))})


def model(seen=None):
    def run(texts):
        if seen is not None:
            seen.extend(texts)
        return embedded(texts)

    return function(run, model="new")


def test_every_run_takes_the_same_items_whatever_the_order_and_the_format(tmp_path):
    space = notes()
    order = np.random.default_rng(0).permutation(len(space))
    shuffled = space.subset(order)
    rl.write_space(shuffled, tmp_path / "notes.parquet")
    first = sample_texts(space, "body", 100)
    for other in (shuffled, rl.read_space(tmp_path / "notes.parquet")):
        again = sample_texts(other, "body", 100)
        assert dict(zip(again.keys.to_pylist(), again.texts, strict=True)) == dict(
            zip(first.keys.to_pylist(), first.texts, strict=True)
        )


def test_the_sample_of_a_grown_space_keeps_what_it_can():
    """Those of smallest hash of a union are among those of smallest hash of its parts."""
    before = set(sample_texts(notes(500), "body", 100).keys.to_pylist())
    after = set(sample_texts(notes(600), "body", 100).keys.to_pylist())
    assert after - before <= {f"note {i}" for i in range(500, 600)}
    assert len(after & before) > 60


def test_a_smaller_sample_is_part_of_a_larger_one():
    few, many = (set(sample_texts(notes(), "body", n).keys.to_pylist()) for n in (50, 200))
    assert few < many


def test_held_out_keys_are_as_frequent_in_the_sample_as_everywhere():
    """The sample and the held-out share hash the same keys: they must not depend on each other."""
    from relatent.spaces.keys import held_out, key_hashes

    keys = sample_texts(notes(5_000), "body", 1_000).keys
    assert abs(held_out(key_hashes(keys), 0.2).mean() - 0.2) < 0.04


def test_texts_belong_to_their_keys_and_empty_ones_are_left_out():
    space = notes(40)
    texts = [None if i % 4 == 0 else "  " if i % 4 == 1 else f"text {i}" for i in range(40)]
    space = rl.Space(space.vectors, space.keys, others={"text": pa.array(texts)})
    found = sample_texts(space, n=40)
    assert dict(zip(found.keys.to_pylist(), found.texts, strict=True)) == {
        f"note {i}": f"text {i}" for i in range(40) if i % 4 > 1
    }
    assert found.empty == 20


def test_texts_inside_of_json():
    """As in the table of mem0, whose payload is JSON."""
    payload = ['{"data": "one", "user": "ann"}', '{"user": "bob"}', None, '{"data": "two"}']
    space = rl.Space(np.ones((4, 2)), "abcd", others={"payload": payload})
    assert sorted(sample_texts(space, "payload.data").texts) == ["one", "two"]


def test_a_title_is_no_text_where_there_is_another():
    others = {"title": ["a", "b"], "year": [1, 2], "body": ["text of a", "text of b"]}
    assert sorted(sample_texts(rl.Space(np.ones((2, 2)), "ab", others=others)).texts) == ["text of a", "text of b"]
    only = rl.Space(np.ones((2, 2)), "ab", others={"title": ["a", "b"]})
    assert sorted(sample_texts(only).texts) == ["a", "b"]


def test_keys_of_several_rows_are_not_embedded():
    space = rl.Space(np.ones((4, 2)), ["a", "b", "a", "c"], others={"text": ["1", "2", "3", "4"]})
    assert sorted(sample_texts(space).texts) == ["2", "4"]


def test_long_texts_are_cut():
    found = texts_of(notes(3), np.arange(3), "body", max_chars=6)
    assert list(found.texts) == ["text 0", "text 1", "text 2"]


def test_a_prefix_is_part_of_what_is_cached_and_recorded(tmp_path):
    """With another prefix, a model makes other vectors: they are not of one space."""
    seen, texts, made = [], sample_texts(notes(), "body", 300), {}
    for prefix in ("", "query: ", ""):
        made[prefix], _ = texts.embed(model(seen).prefixed(prefix), cache=tmp_path)
    assert seen == [*texts.texts, *("query: " + text for text in texts.texts)]
    t = rl.Translator(map="ridge").fit(notes(), made["query: "])
    with pytest.raises(rl.translate.SpaceMismatchError, match="prefix 'passage: '"):
        t.endpoints_.check_model(model().prefixed("passage: ").fingerprint(16), "target")


def test_embedding_tells_before_and_after_what_it_takes(tmp_path):
    texts = sample_texts(notes(), "body", 200)
    characters = sum(map(len, texts.texts))
    assert texts.about(model(), tmp_path, 0.1).startswith(
        f"200 texts of column 'body' to embed with new: about {characters // 4:,} tokens at a price of "
    )
    encoder = model()
    space, took = texts.embed(encoder, cache=tmp_path, token_price=0.1)
    np.testing.assert_array_equal(space.vectors, embedded(texts.texts))
    assert space.keys.tolist() == texts.keys.to_pylist()
    assert (took.texts, took.embedded, took.tokens, took.price) == (200, 200, None, None)  # it counts no tokens
    assert took.rows_per_second == pytest.approx(200 / encoder.usage.seconds)
    assert (
        texts.about(model(), tmp_path) == "200 texts of column 'body' to embed with new (200 of them are in the cache)."
    )
    _, again = texts.embed(model(), cache=tmp_path, token_price=0.1)
    assert (again.embedded, again.tokens, again.price) == (0, 0, 0.0)
    assert again.rows_per_second == took.rows_per_second  # as it was when they were embedded


def test_the_price_is_that_of_the_tokens_counted(tmp_path):
    encoder = model()
    run = encoder.run

    def counting(texts):
        encoder.usage.tokens += 7 * len(texts)
        return run(texts)

    object.__setattr__(encoder, "run", counting)
    _, took = sample_texts(notes(), "body", 200).embed(encoder, cache=tmp_path, token_price=0.5)
    assert took.tokens == 1_400
    assert took.price == pytest.approx(1_400 * 0.5 / 1e6)
    assert took.price_per_million == pytest.approx(7 * 0.5)  # a million rows have seven million tokens


BAD = [
    (lambda: sample_texts(notes(), "bdy"), "no column 'bdy'.*body"),
    (lambda: sample_texts(notes(), "year"), "holds int64: expected texts"),
    (lambda: sample_texts(notes(), "body", 1), "at least 2"),
    (lambda: sample_texts(rl.Space(np.ones((3, 2)), others={"text": ["a", "b", "c"]})), "no keys"),
    (lambda: sample_texts(rl.Space(np.ones((3, 2)), "abc", others={"text": ["", None, " "]})), "None of 3 items"),
    (lambda: sample_texts(rl.Space(np.ones((3, 2)), "abc", others={"n": [1, 2, 3]})), "name the column of the texts"),
]


@pytest.mark.parametrize(("call", "says"), BAD)
def test_what_has_no_texts_is_refused(call, says):
    with pytest.raises(ValueError, match=says):
        call()


def test_the_pairs_that_it_makes_are_fitted_on():
    """End to end: items of one model, texts embedded by another, and a translator that finds its way."""
    old = notes(1_500)
    target, _ = sample_texts(old, "body", 800).embed(model())
    t = rl.Translator().fit(old, target, held_out=0.2)
    assert t.endpoints_.target.model == "new"
    rest = notes(200, first=5_000)
    true = encode(rest.others.column("body").to_pylist(), model()).vectors
    assert rl.evaluate.mrr(t.transform(rest.vectors), true) > 0.5 > rl.evaluate.mrr(rest.vectors, true[:, :12])
