"""The two halves: which anchors codes belong to, spaces in and out, and the contract of scikit-learn."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import relatent as rl
from relatent.project.relative import code_fingerprint

K, D, E = 40, 6, 5


@pytest.fixture
def pair(rng):
    """Anchors of two spaces by key, and samples of both."""
    x = rng.normal(size=(K + 30, D))
    y = x @ rng.normal(size=(D, E)) + 3
    keys = [f"k{i}" for i in range(K + 30)]
    return rl.Space(x, keys, "x"), rl.Space(y, keys, "y")


def _anchors(space, rows=slice(0, K)):
    rows = np.arange(len(space))[rows]
    return space.subset(rows)


@pytest.mark.parametrize("codes", ["dual", "cosine", "parseval"])
def test_codes_of_a_space_are_decoded_over_their_own_anchors_only(pair, codes, tmp_path):
    x, y = pair
    encoder, decoder = rl.RelativeEncoder(codes).fit(_anchors(x)), rl.RelativeDecoder(codes).fit(_anchors(y))
    coded = encoder.transform(x)
    assert list(coded.keys) == list(x.keys)
    back = decoder.transform(coded)
    assert np.array_equal(back.vectors, decoder.transform(encoder.transform(x.vectors)))
    others = {
        "other rows": rl.RelativeDecoder(codes).fit(_anchors(y, slice(5, K + 5))),
        "another order": rl.RelativeDecoder(codes).fit(_anchors(y, slice(K - 1, None, -1))),
        "another kind": rl.RelativeDecoder("dual" if codes == "cosine" else "cosine").fit(_anchors(y)),
        "fewer": rl.RelativeDecoder(codes).fit(_anchors(y, slice(0, K - 1))),
    }
    encoder.save(tmp_path / "encoder.safetensors")
    rl.write_space(rl.load(tmp_path / "encoder.safetensors").transform(x), tmp_path / "codes.parquet")
    for name, other in others.items():
        other.save(tmp_path / "decoder.safetensors", overwrite=True)
        for refusing in (other, rl.load(tmp_path / "decoder.safetensors")):
            for given in (coded, rl.read_space(tmp_path / "codes.parquet")):
                with pytest.raises(ValueError, match="not those of this decoder"):
                    refusing.transform(given)
        assert name
    np.testing.assert_allclose(decoder.transform(rl.read_space(tmp_path / "codes.parquet")).vectors, back.vectors)


def test_a_bare_array_carries_no_keys_and_only_its_width_is_checked(pair):
    x, y = pair
    codes = rl.RelativeEncoder().fit(_anchors(x)).transform(x.vectors)
    elsewhere = rl.RelativeDecoder().fit(_anchors(y, slice(5, K + 5)))
    assert elsewhere.transform(codes).shape == (K + 30, E)
    with pytest.raises(ValueError, match=r"codes has shape \(70, 39\): expected 40 columns"):
        elsewhere.transform(codes[:, 1:])


def test_keys_may_be_given_beside_arrays(pair):
    x, y = (space.vectors[:K] for space in pair)
    coded = rl.RelativeEncoder().fit(x, keys=range(K)).transform(rl.Space(x))
    rl.RelativeDecoder().fit(y, keys=[str(i) for i in range(K)]).transform(coded)  # 7 and "7" are one key
    rl.RelativeDecoder().fit(y).transform(coded)  # nothing is known of the decoder's anchors but their number
    with pytest.raises(ValueError, match="not those of this decoder"):
        rl.RelativeDecoder().fit(y, keys=range(1, K + 1)).transform(coded)
    with pytest.raises(ValueError, match="There are 40 anchors and 39 keys"):
        rl.RelativeEncoder().fit(x, keys=range(K - 1))


def test_a_relative_projection_is_read_by_the_decoder_of_centered_cosines(pair):
    x, y = pair
    decoder = rl.RelativeDecoder("cosine").fit(_anchors(y))
    decoder.transform(rl.RelativeProjection().fit(_anchors(x)).transform(x))
    for options in ({"normalize": "l2"}, {"output": "l2"}, {"similarity": "angular"}):
        with pytest.raises(ValueError, match="not those of this decoder"):
            decoder.transform(rl.RelativeProjection(**options).fit(_anchors(x)).transform(x))


def test_the_fingerprint_depends_on_kind_keys_and_order_alone():
    known = code_fingerprint("dual", 2, ["a", "b"])
    assert known == code_fingerprint("dual", 2, np.asarray(["a", "b"]))
    for other in (code_fingerprint("dual", 2, ["b", "a"]), code_fingerprint("cosine", 2, ["a", "b"])):
        assert not known.matches(other)
    assert known.matches(code_fingerprint("dual", 2))


def test_two_spaces_are_joined_on_keys(pair, rng):
    x, y = pair
    order = rng.permutation(len(y))[:50]
    shuffled = rl.RelativeTranslator().fit(x, y.subset(order))
    rows = np.sort(order)
    straight = rl.RelativeTranslator().fit(x.vectors[rows], y.vectors[rows])
    np.testing.assert_allclose(shuffled.transform(x).vectors, straight.transform(x.vectors), rtol=1e-9)
    by_row = rl.RelativeTranslator().fit(x.vectors[rows], y.vectors[order])
    assert not np.allclose(by_row.transform(x.vectors), straight.transform(x.vectors), atol=0.1)


@pytest.mark.parametrize("options", [{}, {"codes": "cosine"}, {"codes": "cosine", "delta": 0.3, "complete": True}])
def test_few_anchors_in_wide_spaces_are_two_thin_factors(rng, options, tmp_path):
    k, d, e = 8, 60, 50
    x, y = rng.normal(size=(k, d)), rng.normal(size=(k, e))
    t = rl.RelativeTranslator(**options).fit(x, y)
    assert (t.map_.basis.shape, t.map_.matrix.shape) == ((d, k), (k, e))
    # The same by multiplying out.
    left, right = t.encoder_.matrix_, t.decoder_.matrix_
    if t.complete:
        a = left.T
        reach = np.mean([np.linalg.pinv(a[rows]) @ a[rows] for rows in t.encoder_.subspaces_], axis=0)
        u, s, vt = np.linalg.svd(reach @ left @ right)
        rank = int(np.sum(s > 1e-10 * s[0]))
        expected = u[:, :rank] @ vt[:rank]
    else:
        expected = left @ right
    np.testing.assert_allclose(t.matrix_, expected, atol=1e-10)
    t.save(tmp_path / "t.safetensors")
    fresh = rng.normal(size=(5, d))
    np.testing.assert_array_equal(rl.load(tmp_path / "t.safetensors").transform(fresh), t.transform(fresh))


def test_nothing_of_size_d_by_d_is_made_for_few_anchors(rng):
    import tracemalloc

    k, d = 50, 20_000
    x, y = rng.normal(size=(k, d)), rng.normal(size=(k, d))
    tracemalloc.start()
    try:
        for t in (
            rl.RelativeTranslator().fit(x, y),
            rl.RelativeTranslator("cosine", omega=2, delta=0.1).fit(x, y),
            rl.RelativeTranslator("cosine", complete=True).fit(x, y),
        ):
            assert t.transform(x[:2]).shape == (2, d)
        for goal in ("vectors", "retrieval"):
            hub = rl.Hub(goal).fit({"x": x, "y": y})
            assert hub.translate(x[:2], "x", "y").shape == (2, d)
        assert tracemalloc.get_traced_memory()[1] < d * d * 8 / 4
    finally:
        tracemalloc.stop()


# scikit-learn


@parametrize_with_checks([rl.RelativeEncoder(), rl.RelativeEncoder("cosine"), rl.RelativeEncoder("parseval")])
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_names_and_data_frames_come_out(pair):
    pd = pytest.importorskip("pandas")
    x, y = (space.vectors[:K] for space in pair)
    encoder, decoder = rl.RelativeEncoder().fit(x), rl.RelativeDecoder().fit(y)
    translator, asif = rl.RelativeTranslator().fit(x, y), rl.ASIF(top=5).fit(x, y)
    hub = rl.Hub().fit({"x": x, "y": y})
    for fitted, width, arguments in (
        (encoder, K, (x,)),
        (decoder, E, (encoder.transform(x),)),
        (translator, E, (x,)),
        (asif, K, (x,)),
        (hub, D, (x, "x")),
    ):
        name = type(fitted).__name__.lower()
        names = [f"{name}{i}" for i in range(width)]
        assert list(fitted.get_feature_names_out()) == names
        plain = fitted.transform(*arguments)
        frame = fitted.set_output(transform="pandas").transform(*arguments)
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == names
        np.testing.assert_array_equal(frame.to_numpy(), plain)


@pytest.mark.parametrize("kind", [rl.RelativeTranslator, rl.ASIF])
def test_what_is_fitted_on_two_sets_of_vectors_says_so(kind):
    tags = kind().__sklearn_tags__()
    assert (tags.target_tags.required, tags.target_tags.multi_output) == (True, True)


def test_a_hub_takes_spaces_by_name():
    tags = rl.Hub().__sklearn_tags__()
    assert (tags.input_tags.two_d_array, tags.input_tags.dict) == (False, True)
    assert not hasattr(rl.Hub(), "fit_transform")


def test_a_fitted_thing_says_what_it_is(pair):
    x, y = (space.vectors[:K] for space in pair)
    for unfitted, fit, says in (
        (rl.RelativeEncoder("cosine"), (x,), "RelativeEncoder(cosine, 40 anchors, 6-d)"),
        (rl.RelativeDecoder(), (y,), "RelativeDecoder(dual, 40 anchors, 5-d)"),
        (rl.RelativeTranslator(), (x, y), "RelativeTranslator(dual, 6 → 5)"),
        (rl.RelativeProjection(), (x,), "RelativeProjection(cosine, 40 anchors, 6-d)"),
        (rl.ASIF(top=3), (x, y), "ASIF(6 ↔ 5, 40 pairs, top 3, power 2)"),
        (rl.Hub(), ({"x": x, "y": y},), "Hub(vectors, 2 spaces, 6-d)"),
    ):
        before = repr(unfitted)
        assert before.startswith(f"{type(unfitted).__name__}(")
        assert repr(unfitted.fit(*fit)) == says
        assert repr(clone(unfitted)) == before != says


def varied(rng, n=600, d=64):
    """Pairs that vary more in some directions than in others, and have a mean."""
    z = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.5
    x, y = (z @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 0.05 * rng.normal(size=(n, d)) + 0.1 for _ in range(2))
    return x, y


def test_decoding_for_retrieval_half_whitens_by_the_targets_anchors_alone(rng):
    x, y = varied(rng)
    a, b = x[:50], y[:50]
    codes = rl.RelativeEncoder().fit(a).transform(x)
    queries = rl.RelativeDecoder(goal="retrieval").fit(b).transform(codes)
    unit = b / np.linalg.norm(b, axis=1, keepdims=True)
    centered = unit - unit.mean(0)
    values, vectors = np.linalg.eigh(centered.T @ centered)
    root = (vectors / np.sqrt(values + values.mean())) @ vectors.T
    added = 0.25 * np.trace(root @ centered.T @ centered) / values.sum() * unit.mean(0)
    np.testing.assert_allclose(queries, codes @ centered @ root + added, atol=1e-10)


def test_decoding_for_retrieval_ranks_better_than_reconstructions(rng):
    x, y = varied(rng)
    found = [rl.RelativeTranslator(goal=g).fit(x[:40], y[:40]).transform(x[100:]) for g in ("vectors", "retrieval")]
    worse, better = (rl.evaluate.mrr(queries, y[100:], 10) for queries in found)
    assert better > worse + 0.01


@pytest.mark.parametrize("kind", [rl.RelativeDecoder, rl.RelativeTranslator])
def test_the_goal_is_saved(kind, rng, tmp_path):
    x, y = varied(rng, 60)
    t = kind(goal="retrieval")
    t = t.fit(x, y) if kind is rl.RelativeTranslator else t.fit(y)
    t.save(tmp_path / "t.safetensors")
    again, rows = rl.load(tmp_path / "t.safetensors"), rng.normal(size=(9, t.n_features_in_))
    assert again.goal == "retrieval"
    np.testing.assert_array_equal(again.transform(rows), t.transform(rows))


def test_goals_that_are_none_are_refused(rng):
    y = rng.normal(size=(30, 5))
    with pytest.raises(ValueError, match=r"There is no goal 'search'"):
        rl.RelativeDecoder(goal="search").fit(y)
    with pytest.raises(ValueError, match="is for dual codes, and the codes are 'cosine'"):
        rl.RelativeDecoder("cosine", goal="retrieval").fit(y)
