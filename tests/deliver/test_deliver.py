"""Whole spaces through a translator, a head or a projection, and the judgement on held-out keys."""

import numpy as np
import pytest

import relatent as rl
from relatent._atomic import FileError
from relatent.deliver import (
    Relevance,
    fit_spaces,
    judge,
    map_space,
    project_space,
    read_relevance,
    stitch_space,
    translate_space,
)
from relatent.spaces import held_out, key_hashes
from relatent.translate import SpaceMismatchError, Translator


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


def test_what_is_held_out_follows_from_the_keys_alone(spaces, rng):
    old, new = spaces
    first, second = Translator(), Translator()
    fit_spaces(first, old, new)
    order = rng.permutation(600)
    fit_spaces(second, old.subset(order), new)
    np.testing.assert_array_equal(first.seen_keys_, second.seen_keys_)
    hashes = key_hashes(old.keys)
    np.testing.assert_array_equal(np.isin(hashes, first.seen_keys_), ~held_out(hashes, 0.2))
    np.testing.assert_array_equal(key_hashes([1, 2]), key_hashes(["1", "2"]))
    # A larger share holds out the same keys and more.
    assert np.all(held_out(hashes, 0.5)[held_out(hashes, 0.2)])


def test_at_most_so_many_pairs(spaces):
    t = Translator()
    report = fit_spaces(t, *spaces, max_pairs=100)
    assert (t.n_pairs_, report.pairs, len(t.seen_keys_)) == (100, 100, 100)
    assert report.pairs + report.held_out + report.unused == 600
    with pytest.raises(ValueError, match="0 pairs are left to fit on"):
        fit_spaces(Translator(), *(s.subset(np.flatnonzero(held_out(key_hashes(s.keys), 0.2))) for s in spaces))
    with pytest.raises(ValueError, match="1 of the 1 anchors are not in both spaces, first 'nobody'"):
        fit_spaces(Translator(), *spaces, anchors=["nobody"])


def test_the_keys_that_were_seen_survive_saving(translator, tmp_path):
    translator.save(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(rl.load(tmp_path / "t.safetensors").seen_keys_, translator.seen_keys_)


def test_only_unseen_keys_are_judged(spaces, translator):
    verdict = judge(translator, *spaces)
    assert verdict.go
    assert verdict.queries == verdict.gallery == 600 - translator.n_pairs_
    seen = np.isin(key_hashes(spaces[0].keys), translator.seen_keys_)
    with pytest.raises(ValueError, match="was fitted on all"):
        judge(translator, spaces[0].subset(np.flatnonzero(seen)), spaces[1])


def test_keys_named_as_relevant_come_first(spaces, translator):
    keys = [key for key, out in zip(spaces[0].keys, held_out(key_hashes(spaces[0].keys), 0.2), strict=True) if out]
    pairs = Relevance(keys[-10:-5], keys[-5:])
    verdict = judge(translator, *spaces, relevant=pairs, max_rows=20)
    assert (verdict.queries, verdict.gallery) == (5, 20)


def test_slices_are_a_column_of_either_space(spaces, translator):
    assert {line.slice for line in judge(translator, *spaces, slices="half").report} == {"all", "a", "b"}
    with pytest.raises(ValueError, match=r"no column 'hal' to slice by\. Did you mean 'half'"):
        judge(translator, *spaces, slices="hal")


def test_spaces_are_checked_before_anything_is_read(spaces, translator, tmp_path):
    with pytest.raises(SpaceMismatchError):
        judge(translator, spaces[1], spaces[0])
    with pytest.raises(SpaceMismatchError):
        translate_space(translator, spaces[1], tmp_path / "x.npy")
    with pytest.raises(ValueError, match="A relative_encoder was given: expected a translator"):
        translate_space(rl.RelativeEncoder().fit(spaces[0].vectors), spaces[0], tmp_path / "x.npy")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_translated_files_equal_translated_arrays(spaces, translator, tmp_path, dtype):
    old = rl.Space(spaces[0].vectors.astype(dtype), spaces[0].keys, fingerprint=rl.Fingerprint(8, "old"))
    translate_space(translator, old, tmp_path / "x.parquet")
    back = rl.read_space(tmp_path / "x.parquet")
    np.testing.assert_allclose(back.vectors, translator.transform(old.vectors), rtol=1e-5)
    assert back.dtype == ("float64" if dtype == "float64" else "float32")


@pytest.mark.parametrize(("value", "says"), [(np.nan, "holds NaN or infinity"), (3e38, "becomes infinite in float32")])
def test_a_row_that_cannot_be_translated_is_named_by_file_and_key(spaces, translator, tmp_path, value, says):
    """Every number of the row is finite in float32, and yet a sum of eight of them is not."""
    vectors = spaces[0].vectors.astype(np.float32)
    (tmp_path / "old").mkdir()
    for i, name in enumerate(("a.parquet", "b.parquet")):
        part = vectors.copy()
        if i == 1:
            part[7] = value * np.sign(translator.transform(np.eye(8, dtype=np.float32))[:, 0])
        rl.write_space(rl.Space(part, spaces[0].keys, fingerprint=rl.Fingerprint(8, "old")), tmp_path / "old" / name)
    key = spaces[0].keys[7]
    with pytest.raises(ValueError, match=rf"Row 7 \(key {key!r}\) of .*b\.parquet {says}"):
        translate_space(translator, rl.read_space(tmp_path / "old"), tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


def test_an_empty_space_stays_one(translator, tmp_path):
    empty = rl.Space(np.empty((0, 8), np.float32), [], fingerprint=rl.Fingerprint(8, "old"))
    translate_space(translator, empty, tmp_path / "x.parquet")
    assert rl.read_space(tmp_path / "x.parquet").shape == (0, 8)


def test_a_file_is_stitched_as_an_array_is(spaces, translator, tmp_path, rng):
    head = rl.LinearHead(rng.normal(size=(3, 8)), rng.normal(size=3), np.asarray(["x", "y", "z"]))
    stitch_space(translator, spaces[0], head, tmp_path / "said.parquet")
    said, model = rl.read_space(tmp_path / "said.parquet"), rl.stitch(None, translator, head)
    np.testing.assert_allclose(said.vectors, model.decision_function(spaces[0].vectors), rtol=1e-5)
    assert said.others.column("prediction").to_pylist() == model.predict(spaces[0]).tolist()
    small = rl.LinearHead(np.eye(3), np.zeros(3), np.arange(3))
    with pytest.raises(ValueError, match="8 coordinates come from the translator and the decoder reads 3"):
        stitch_space(translator, spaces[0], small, tmp_path / "small.parquet")
    assert not (tmp_path / "small.parquet").exists()


def test_a_column_is_not_replaced_silently(spaces, tmp_path):
    head = rl.LinearHead(np.eye(8), np.zeros(8), np.arange(8))
    with pytest.raises(ValueError, match="a column 'half' already"):
        map_space(spaces[0], tmp_path / "x.parquet", head, rl.Fingerprint(8), column=("half", head.best))
    assert list(tmp_path.iterdir()) == []


def test_integer_keys_find_anchors_written_as_text(rng, tmp_path):
    space = rl.Space(rng.normal(size=(30, 4)), keys=list(range(30)))
    known = project_space(space, ["3", "5", "7"], tmp_path / "x.parquet")
    assert (known.dim, rl.read_space(tmp_path / "x.parquet").shape) == (3, (30, 3))


def test_pairs_of_keys_come_from_tables(tmp_path):
    (tmp_path / "a.csv").write_text('item,query\n007,"x, y"\n')
    found = read_relevance(tmp_path / "a.csv")
    assert (found.queries, found.items) == (["x, y"], ["007"])
    (tmp_path / "a.tsv").write_text("q\td\n1\t2\n3\n")
    with pytest.raises(FileError, match=r"Line 2 of .* has 1 values and the header 2"):
        read_relevance(tmp_path / "a.tsv")
    (tmp_path / "b.tsv").write_text("q\n1\n")
    with pytest.raises(FileError, match="has 1 columns: expected two"):
        read_relevance(tmp_path / "b.tsv")
    (tmp_path / "c.txt").write_text("q\n")
    with pytest.raises(FileError, match=r"ends in '.txt'"):
        read_relevance(tmp_path / "c.txt")
