"""Whole spaces through a fit, a translator, a head or a projection."""

import numpy as np
import pytest

import relatent as rl
from relatent.project import project_space
from relatent.spaces import held_out, key_hashes, map_space
from relatent.stitching import stitch_space
from relatent.translate import SpaceMismatchError, Translator, translate_space


def test_what_is_held_out_follows_from_the_keys_alone(spaces, rng):
    old, new = spaces
    first = Translator().fit(old, new, held_out=0.2)
    order = rng.permutation(600)
    second = Translator().fit(old.subset(order), new, held_out=0.2)
    np.testing.assert_array_equal(first.seen_keys_, second.seen_keys_)
    hashes = key_hashes(old.keys)
    np.testing.assert_array_equal(np.isin(hashes, first.seen_keys_), ~held_out(hashes, 0.2))
    np.testing.assert_array_equal(key_hashes([1, 2]), key_hashes(["1", "2"]))
    # A larger share holds out the same keys and more.
    assert np.all(held_out(hashes, 0.5)[held_out(hashes, 0.2)])


def test_at_most_so_many_pairs(spaces):
    t = Translator().fit(*spaces, held_out=0.2, max_pairs=100)
    report = t.fit_report_
    assert (t.n_pairs_, report.pairs, len(t.seen_keys_)) == (100, 100, 100)
    assert report.pairs + report.held_out + report.unused == 600
    held = [s.subset(np.flatnonzero(held_out(key_hashes(s.keys), 0.2))) for s in spaces]
    with pytest.raises(ValueError, match="0 pairs are left to fit on"):
        Translator().fit(*held, held_out=0.2)
    with pytest.raises(ValueError, match="1 of the 1 anchors are not in both spaces, first 'unknown'"):
        Translator().fit(*spaces, anchors=["unknown"])


def test_the_keys_that_were_seen_survive_saving(translator, tmp_path):
    translator.save(tmp_path / "t.safetensors")
    np.testing.assert_array_equal(rl.load(tmp_path / "t.safetensors").seen_keys_, translator.seen_keys_)


def test_spaces_are_checked_before_anything_is_read(spaces, translator, tmp_path):
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


@pytest.mark.filterwarnings("ignore:The rows of .* from about")
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
    head = rl.stitching.LinearHead(rng.normal(size=(3, 8)), rng.normal(size=3), np.asarray(["x", "y", "z"]))
    stitch_space(translator, spaces[0], head, tmp_path / "said.parquet")
    said, model = rl.read_space(tmp_path / "said.parquet"), rl.stitch(None, translator, head)
    np.testing.assert_allclose(said.vectors, model.decision_function(spaces[0].vectors), rtol=1e-5)
    assert said.others.column("prediction").to_pylist() == model.predict(spaces[0]).tolist()
    small = rl.stitching.LinearHead(np.eye(3), np.zeros(3), np.arange(3))
    with pytest.raises(ValueError, match="8 coordinates come from the translator and the decoder reads 3"):
        stitch_space(translator, spaces[0], small, tmp_path / "small.parquet")
    assert not (tmp_path / "small.parquet").exists()


def test_rows_that_were_fitted_on_are_not_scored(spaces, translator, tmp_path, rng):
    head = rl.stitching.LinearHead(rng.normal(size=(2, 8)), np.zeros(2), np.asarray(["a", "b"]))
    done = stitch_space(translator, spaces[0], head, tmp_path / "said.parquet", truth="half")
    fresh = ~np.isin(key_hashes(spaces[0].keys), translator.seen_keys_)
    assert (done.scored, done.left_out) == (fresh.sum(), (~fresh).sum())
    said = np.asarray(rl.read_space(tmp_path / "said.parquet").others.column("prediction").to_pylist())
    true = np.asarray(spaces[0].others.column("half").to_pylist())
    assert done.accuracy["translated"].value == pytest.approx(np.mean((said == true)[fresh]))
    assert done.accuracy["untranslated"].value == pytest.approx(
        np.mean((head.predict(spaces[0].vectors) == true)[fresh])
    )
    seen = spaces[0].subset(np.flatnonzero(~fresh))
    nothing = stitch_space(translator, seen, head, tmp_path / "seen.parquet", truth="half")
    assert (nothing.scored, nothing.accuracy) == (0, {})
    assert "There are no other rows to score" in str(nothing)
    other = rl.Space(spaces[0].vectors, fingerprint=rl.Fingerprint(8, "another"))
    with pytest.raises(SpaceMismatchError, match=r"translator\.accept"):
        stitch_space(translator, other, head, tmp_path / "x.parquet")
    stitch_space(translator, other, head, tmp_path / "x.parquet", accept=True)


def test_relative_files_tell_their_anchors(rng, tmp_path):
    space = rl.Space(rng.normal(size=(30, 4)), keys=list(range(30)))
    decoder = rl.RelativeDecoder("cosine").fit(space.subset([3, 5, 7, 9]))
    for name, keys in (("own", [3, 5, 7, 9]), ("other", [3, 5, 7, 8])):
        project_space(space, keys, tmp_path / f"{name}.parquet")
    assert decoder.transform(rl.read_space(tmp_path / "own.parquet")).shape == (30, 4)
    with pytest.raises(ValueError, match="not those of this decoder"):
        decoder.transform(rl.read_space(tmp_path / "other.parquet"))


def test_a_column_is_not_replaced_silently(spaces, tmp_path):
    head = rl.stitching.LinearHead(np.eye(8), np.zeros(8), np.arange(8))
    with pytest.raises(ValueError, match="a column 'half' already"):
        map_space(head, spaces[0], tmp_path / "x.parquet", rl.Fingerprint(8), column=("half", head.best))
    assert list(tmp_path.iterdir()) == []


def test_integer_keys_find_anchors_written_as_text(rng, tmp_path):
    space = rl.Space(rng.normal(size=(30, 4)), keys=list(range(30)))
    known = project_space(space, ["3", "5", "7"], tmp_path / "x.parquet")
    assert (known.dim, rl.read_space(tmp_path / "x.parquet").shape) == (3, (30, 3))
