"""A fingerprint tells spaces of equal dimension apart, says why, and says when it is not sure."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spaces.networks import encode, mixed

from relatent.spaces import Fingerprint, Space, read_space, write_space
from relatent.spaces.fingerprint import one_model
from relatent.spaces.probe import (
    BLOCK_ROWS,
    BLOCKS,
    KEPT_ROWS,
    MAX_FILES,
    ProbeBuilder,
    SpaceWarning,
    compare_blocks,
    probe_of,
    probed_ranges,
)

D = 128


def model(seed, d=D):
    """A made-up encoder: anisotropic, off-center, as real ones are."""
    rng = np.random.default_rng(seed)
    offset, spread = rng.normal(size=d), np.exp(rng.normal(size=d))
    mix = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return lambda n, seed: (np.random.default_rng(seed).normal(size=(n, d)) * spread) @ mix + offset


def rotated(x):
    return x @ np.linalg.qr(np.random.default_rng(9).normal(size=(D, D)))[0]


def permuted(x):
    return x[:, np.random.default_rng(9).permutation(D)]


def partly_permuted(x):
    """Leave every second coordinate where it is: a probe of some coordinates may see no change."""
    order = np.arange(D)
    order[1::2] = np.random.default_rng(9).permutation(order[1::2])
    return x[:, order]


def noise(x):
    made = np.random.default_rng(9).normal(size=x.shape)
    return made * np.linalg.norm(x, axis=1, keepdims=True) / np.linalg.norm(made, axis=1, keepdims=True)


def another_model(x):
    return model(1)(len(x), 5)


def unit_rows(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


# Chance alone may make another space agree a little: then it is warned of.
OTHER = "foreign or unsure"
CHANGES = {
    "itself": (lambda x: x, "same"),
    "another model": (another_model, OTHER),
    "rotated": (rotated, OTHER),
    "permuted": (permuted, OTHER),
    "noise": (noise, OTHER),
    "zeros": (np.zeros_like, "foreign"),
    "times 100": (lambda x: 100 * x, "foreign"),
    "divided by 100": (lambda x: x / 100, "foreign"),
    "unit rows": (unit_rows, "foreign"),
    "times 1.5": (lambda x: 1.5 * x, "same"),
    "times 6": (lambda x: 6 * x, "unsure"),
}


@pytest.mark.parametrize("rows", [50, 200, 1000])
@pytest.mark.parametrize(("change", "outcome"), CHANGES.values(), ids=CHANGES)
def test_what_a_probe_notices(change, outcome, rows):
    known, given = Fingerprint.of(model(0)(1000, 2)), Fingerprint.of(change(model(0)(rows, 3)))
    match = known.matches(given)
    assert match.outcome == given.matches(known).outcome
    assert match.outcome in outcome.split(" or ")
    assert bool(match) is (match.outcome != "foreign")


def test_coordinates_that_the_first_half_of_a_probe_would_not_see():
    known = Fingerprint.of(model(0)(1000, 2))
    match = known.matches(Fingerprint.of(partly_permuted(model(0)(1000, 3))))
    assert match.agreement < known.matches(Fingerprint.of(model(0)(1000, 3))).agreement / 2


def test_between_a_space_and_another_it_is_not_sure_and_says_the_figure():
    a, b = model(0)(1000, 2), model(1)(1000, 3)
    known = Fingerprint.of(a)
    outcomes = [known.matches(Fingerprint.of(s * model(0)(1000, 4) + (1 - s) * b)) for s in np.linspace(0, 1, 51)]
    found = [match.outcome for match in outcomes]
    assert found[0] == "foreign"
    assert found[-1] == "same"
    assert "unsure" in found
    unsure = outcomes[found.index("unsure")]
    assert f"agree to {unsure.agreement:.2f}" in unsure.reason


CHANGED = {
    "another encoder": lambda x: encode(1, 3, len(x), 7),
    "80/20": lambda x: mixed(x, encode(1, 3, len(x), 7), 0.2),
    "half/half": lambda x: mixed(x, encode(1, 3, len(x), 7), 0.5),
    "permuted": lambda x: x[:, np.random.default_rng(9).permutation(x.shape[1])],
    "times 3": lambda x: 3 * x,
    "centered": lambda x: x - x.mean(axis=0),
}


@pytest.mark.parametrize("rows", [50, 200])
@pytest.mark.parametrize("corpus", [1, 2, 3])
def test_an_encoder_is_known_on_any_corpus(corpus, rows):
    known, given = probe_of(encode(0, 0, 1000)), encode(0, corpus, rows, 5)
    assert compare_blocks(known, given[None])[0].outcome == "same"
    for name, change in CHANGED.items():
        assert compare_blocks(known, change(given)[None])[0].outcome != "same", name


@pytest.mark.parametrize(
    "stored",
    [
        lambda x: x.astype(np.float16),
        lambda x: np.round(x * 300) / 300,  # as int8
        lambda x: np.repeat(x[:2], 100, axis=0),
        lambda x: np.vstack([np.repeat(x[:1], 150, axis=0), x[:50]]),
        lambda x: np.vstack([np.zeros((5, x.shape[1])), x[5:]]),
        lambda x: x[:1] + 1e-6 * x,
    ],
    ids=["float16", "int8", "two items", "mostly one item", "some zeros", "one item and noise"],
)
def test_what_storing_does_to_rows_is_no_other_encoder(stored):
    known, given = probe_of(encode(0, 0, 1000)), stored(encode(0, 1, 200, 5)).astype(np.float32)
    assert compare_blocks(known, given[None])[0].outcome == "same"


def test_a_mixture_says_how_many_rows_are_far_out():
    known = probe_of(encode(0, 0, 1000))
    (match,) = compare_blocks(known, CHANGED["80/20"](encode(0, 1, 200, 5))[None])
    assert match.reason.startswith("40 of 200 rows looked at are far out")


def test_what_is_saved_says_the_same_without_the_rows():
    known, other = (Fingerprint.of(encode(i, 0, 1000)) for i in (0, 1))
    read = Fingerprint.from_json(known.to_json())
    assert read == known
    assert read.probe.sample is None
    for given in (encode(0, 1, 200, 5), encode(1, 1, 200, 5)):
        given = Fingerprint.of(given)
        assert read.matches(given).outcome == given.matches(read).outcome == known.matches(given).outcome
    assert not read.matches(other)


@pytest.mark.parametrize("dim", [64, 384, 3072])
def test_a_saved_fingerprint_is_small(dim):
    x = np.random.default_rng(0).normal(size=(1024, dim)) * np.geomspace(1, 0.01, dim)
    assert len(Fingerprint.of(x).to_json()) < 21_000


def test_a_probe_of_an_earlier_version_is_compared_by_its_profile():
    saved = Fingerprint.of(model(0)(1000, 2)).to_json()
    given = Fingerprint.of(model(0)(1000, 3)), Fingerprint.of(model(1)(1000, 3))
    about = json.loads(saved)
    del about["quiet"]  # as before there were any
    earlier = Fingerprint.from_json(json.dumps(about))
    assert "profiles agree to" in earlier.matches(replace(given[0], probe=given[0].probe.without_rows())).reason
    assert [earlier.recorded().matches(g).outcome for g in given] == ["same", "same"]
    one_way = replace(earlier, probe=replace(earlier.probe, quiet=None))
    assert [bool(one_way.matches(replace(g, probe=replace(g.probe, quiet=None)))) for g in given] == [True, False]


def test_damaged_directions_are_refused_when_they_are_read():
    about = json.loads(Fingerprint.of(model(0)(1000, 2)).to_json())
    for codes in ("", "!", about["quiet"]["codes"][:-8]):
        with pytest.raises(ValueError, match="not a fingerprint"):
            Fingerprint.from_json(json.dumps({**about, "quiet": {**about["quiet"], "codes": codes}}))


def test_rows_are_kept_from_all_over_a_stream_and_their_number_is_bounded():
    builder, parts = ProbeBuilder(), [ProbeBuilder(), ProbeBuilder()]
    for i in range(40):
        chunk = np.full((500, 3), float(i))
        builder.add(chunk)
        parts[i // 20].add(chunk)
    for one in (builder, parts[0] + parts[1]):
        kept = one.probe().sample[:, 0]
        assert KEPT_ROWS / 2 <= len(kept) <= KEPT_ROWS
        assert np.abs(np.bincount(kept.astype(int), minlength=40) / len(kept) - 1 / 40).max() < 0.02


def test_an_isotropic_space_cannot_be_told_apart():
    rng = np.random.default_rng(0)
    told = Fingerprint.of(rng.normal(size=(500, 64))).matches(Fingerprint.of(rng.normal(size=(500, 64))))
    assert told.outcome == "same"
    assert "cannot tell" in told.reason


def test_an_isotropic_space_is_told_from_another():
    assert not Fingerprint.of(np.random.default_rng(0).normal(size=(500, D))).matches(Fingerprint.of(model(0)(500, 1)))


@pytest.mark.parametrize(
    ("name", "mine", "theirs"),
    [
        ("dim", 3, 4),
        ("model", "a", "b"),
        ("model", "x/a", "y/a"),
        ("revision", "1", "2"),
        ("pooling", "cls", "mean"),
        ("normalization", "none", "l2"),
        ("layer", -1, -2),
    ],
)
def test_what_both_record_must_be_equal(name, mine, theirs):
    a = Fingerprint(**{"dim": 3, "model": "a", name: mine})
    told = a.matches(Fingerprint(**{"dim": 3, "model": "a", name: theirs}))
    assert not told
    assert told.reason == f"the {name} is {mine!r} in one and {theirs!r} in the other"
    assert a.matches(a)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2", True),
        ("./models/all-MiniLM-L6-v2/", "sentence-transformers/all-MiniLM-L6-v2", True),
        ("/data/a/all-minilm-l6-v2", "all-MiniLM-L6-v2", True),
        (r"C:\models\all-MiniLM-L6-v2", "all-MiniLM-L6-v2", True),
        ("all-MiniLM-L6-v2", "all-MiniLM-L12-v2", False),
        ("intfloat/e5-small", "someone/e5-small", False),
    ],
)
def test_one_model_may_go_by_two_names(a, b, same):
    assert one_model(a, b) is one_model(b, a) is same
    assert bool(Fingerprint(dim=3, model=a).matches(Fingerprint(dim=3, model=b))) is same


def test_a_recorded_model_outweighs_the_probe():
    a = Fingerprint.of(model(0)(500, 2), model="m")
    assert a.matches(Fingerprint.of(model(1)(500, 3), model="m"))
    assert not a.matches(Fingerprint.of(model(1)(500, 3)))


def test_json_round_trip():
    made = Fingerprint.of(model(0)(50, 1), model="größe", revision="1", pooling="mean", normalization="l2", layer=-1)
    assert Fingerprint.from_json(made.to_json()) == made
    assert Fingerprint.from_json('{"dim": 3, "of_a_later_version": 1}') == Fingerprint(dim=3)
    earlier = '{"dim": 3, "probe": {"rows": 1, "length": 1.0, "length_std": 0.0, "mean": [1.0], "std": [0.0]}}'
    assert Fingerprint.from_json(earlier).probe is None
    for wrong in ("", "[]", "{}", '{"dim": "x"}', '{"dim": 3, "probe": {"rows": 1}}'):
        with pytest.raises(ValueError, match="not a fingerprint"):
            Fingerprint.from_json(wrong)


def test_rows_that_are_not_finite_are_passed_over():
    x = model(0)(50, 1)
    x[3] = np.nan
    assert Fingerprint.of(x).probe.rows == 49
    assert Fingerprint.of(np.full((2, 3), np.nan)).probe is None
    assert Fingerprint.of(np.empty((0, 3))).probe is None


def test_probes_of_parts_add_up():
    x = model(0)(300, 1)
    parts = [ProbeBuilder() for _ in range(3)]
    for part, rows in zip(parts, np.split(x, 3), strict=True):
        part.add(rows)
    together, whole = sum(parts, ProbeBuilder()).probe(), probe_of(x)
    np.testing.assert_allclose(together.mean, whole.mean, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(together.std, whole.std, rtol=2e-3)
    assert (ProbeBuilder() + ProbeBuilder()).probe() is None


def test_a_probe_measures_means_and_deviations_along_fixed_directions():
    x = model(0)(500, 1)
    probe, shifted, doubled = probe_of(x), probe_of(x + 3.0), probe_of(2 * x)
    np.testing.assert_allclose(shifted.mean, probe.mean, atol=2e-3)  # all coordinates moved alike
    np.testing.assert_allclose(doubled.std, 2 * np.asarray(probe.std), rtol=1e-3)
    assert probe.norm == pytest.approx(np.linalg.norm(x, axis=1).mean(), rel=1e-3)


@pytest.mark.parametrize(
    "starts", [[0, 0], [0, 1], [0, 7], [0, 1000], [0, 10**9], [0, 5, 5, 2000], list(range(0, 10**6, 100))]
)
def test_probed_rows_are_spread_over_all_and_bounded(starts):
    ranges = probed_ranges(starts)
    rows = [row for first, last in ranges for row in range(first, last)]
    assert len(set(rows)) == len(rows) <= max(BLOCKS, MAX_FILES) * BLOCK_ROWS
    assert all(starts[0] <= row < starts[-1] for row in rows)
    if starts[-1] <= BLOCKS * BLOCK_ROWS and len(starts) == 2:
        assert len(rows) == starts[-1]
    elif starts[-1]:
        assert rows[0] < starts[-1] / 10
        assert rows[-1] > starts[-1] * 0.9


def foreign_table(rows, kind, d=D):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(model(kind)(rows, rows).astype(np.float32).ravel()), d)
    return pa.table({"embedding": vectors})


@pytest.mark.parametrize(("first", "then"), [(5000, 5000), (5000, 2000), (2000, 8000)])
@pytest.mark.parametrize("ending", [".parquet", ".npy"])
def test_a_file_of_two_models_is_noticed(tmp_path, first, then, ending):
    path = tmp_path / f"mixed{ending}"
    if ending == ".npy":
        np.save(path, np.vstack([model(0)(first, 1), model(1)(then, 2)]))
    else:
        pq.write_table(pa.concat_tables([foreign_table(first, 0), foreign_table(then, 1)]), path)
    with pytest.warns(SpaceWarning, match=r"mixed\.\w+ from about [\d,]+ on look like another space than the rest"):
        _ = read_space(path).fingerprint


def test_a_file_of_one_model_is_not_suspected(tmp_path):
    pq.write_table(foreign_table(10_000, 0), tmp_path / "x.parquet")
    space = read_space(tmp_path / "x.parquet")
    assert space.fingerprint.probe.rows == BLOCKS * BLOCK_ROWS
    assert space.fingerprint.matches(Fingerprint.of(model(0)(500, 3)))


def test_every_shard_of_a_folder_is_looked_at(tmp_path):
    for i in range(20):
        pq.write_table(foreign_table(300, 1 if i == 13 else 0), tmp_path / f"{i:02d}.parquet")
    with pytest.warns(SpaceWarning, match=r"from about (3|4),\d+ on look like another space"):
        _ = read_space(tmp_path).fingerprint


def test_shards_that_record_two_models_are_refused_by_name(tmp_path):
    for i, name in enumerate(["m", "org/m", "other"]):
        space = Space(model(0)(50, i), fingerprint=Fingerprint(dim=D, model=name))
        write_space(space, tmp_path / f"{i}.parquet")
    with pytest.raises(ValueError, match=r"0\.parquet and .*2\.parquet are of two spaces: the model is 'm' in one"):
        read_space(tmp_path)
    (tmp_path / "2.parquet").unlink()
    assert read_space(tmp_path).fingerprint.model == "m"


def test_shards_that_were_measured_to_differ_are_warned_of(tmp_path):
    for i in range(2):
        write_space(Space(model(i)(500, i)), tmp_path / f"{i}.parquet")
    with pytest.warns(SpaceWarning, match=r"0\.parquet and .*1\.parquet look like two spaces"):
        read_space(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_space(tmp_path / "0.parquet")


def test_the_id_is_that_of_the_model_where_one_is_recorded_and_of_the_probe_where_none_is():
    one, two = model(0)(500, 1), model(1)(500, 1)
    named = [Fingerprint.of(x, model="m", revision="1") for x in (one, two)]
    assert named[0].id == named[1].id == Fingerprint(D, "m", "1").id
    assert named[0].id != Fingerprint(D, "m", "2").id
    assert Fingerprint.of(one).id == Fingerprint.of(one).id != Fingerprint.of(two).id
    assert Fingerprint.from_json(named[0].to_json()).id == named[0].id


def test_a_row_of_zeros_does_not_make_a_space_another(rng):
    """An encoder gives zeros for an empty text; all other rows have norm one."""
    x = rng.normal(size=(300, 20)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[5] = 0
    assert Space(x).fingerprint.matches(Space(x[100:]).fingerprint)
    assert not Space(x).fingerprint.matches(Space(3 * x[100:]).fingerprint)
