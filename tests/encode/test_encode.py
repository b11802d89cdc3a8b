"""The loop over batches, the cache, and encoders that need no framework."""

import sqlite3
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pytest

import relatent as rl
from relatent._files import FileError
from relatent.encode import encode, function, static
from relatent.spaces import Space


class Counting:
    """An encoder that remembers what it was asked."""

    def __init__(self, fail_at=None):
        self.seen, self.fail_at = [], fail_at

    def __call__(self, batch):
        if self.fail_at is not None and len(self.seen) >= self.fail_at:
            raise KeyboardInterrupt
        self.seen += batch
        return np.asarray([[len(text), text.count("a"), 1] for text in batch], dtype=np.float32)


def test_batches_make_one_space(texts):
    count = Counting()
    space = encode(texts, function(count, model="counting", revision="1"), keys=range(4), batch_size=3)
    np.testing.assert_array_equal(space.vectors, Counting()(texts))
    assert space.keys.tolist() == [0, 1, 2, 3]
    assert space.name == "counting"
    assert (space.fingerprint.model, space.fingerprint.revision, space.fingerprint.dim) == ("counting", "1", 3)
    assert space.fingerprint.probe.rows == 4


def test_an_interrupted_run_resumes_where_it_stopped(texts, tmp_path):
    first = Counting(fail_at=2)
    with pytest.raises(KeyboardInterrupt):
        encode(texts, function(first, model="m"), batch_size=1, cache=tmp_path)
    second = Counting()
    space = encode(texts, function(second, model="m"), batch_size=1, cache=tmp_path)
    assert first.seen == texts[:2]
    assert second.seen == texts[2:]
    np.testing.assert_array_equal(space.vectors, Counting()(texts))
    third = Counting()
    again = encode(texts[::-1], function(third, model="m"), cache=tmp_path)
    assert third.seen == []
    np.testing.assert_array_equal(again.vectors, space.vectors[::-1])


def test_equal_items_are_encoded_once(tmp_path):
    count = Counting()
    space = encode(["a", "b", "a"], function(count, model="m"), cache=tmp_path)
    assert count.seen == ["a", "b"]
    np.testing.assert_array_equal(space.vectors[0], space.vectors[2])


@pytest.mark.parametrize("changed", [{"model": "n"}, {"revision": "2"}, {"pooling": "cls"}, {"layer": 1}])
def test_another_fingerprint_never_meets_the_cache(texts, tmp_path, changed):
    encode(texts, function(Counting(), model="m"), cache=tmp_path)
    count = Counting()
    encode(texts, function(count, **{"model": "m", **changed}), cache=tmp_path)
    assert count.seen == texts


def test_images_are_cached_by_content(tmp_path, images):
    image = pytest.importorskip("PIL.Image")
    one, two, cache = tmp_path / "1.png", tmp_path / "2.png", tmp_path / "cache"
    image.fromarray(images[0]).save(one)
    image.fromarray(images[0]).save(two)
    seen = []

    def run(batch):
        seen.extend(batch)
        return np.ones((len(batch), 2))

    encoder = function(run, model="m", kind="image")
    encode([str(one), two, images[0], image.fromarray(images[1])], encoder, cache=cache)
    assert len(seen) == 3
    image.fromarray(images[2]).save(one)
    encode([str(one), two, images[0]], encoder, cache=cache)
    assert len(seen) == 4


def test_items_and_encoders_that_cannot_be_cached_are_refused(texts, tmp_path):
    with pytest.raises(ValueError, match=r"no name.*model=…"):
        encode(texts, Counting(), cache=tmp_path)
    with pytest.raises(TypeError, match=r"type dict has no content.*without a cache"):
        encode([{}], function(Counting(), model="m"), cache=tmp_path)
    encode(texts, function(Counting(), model="m"), cache=tmp_path)
    next(tmp_path.glob("*.sqlite")).write_bytes(b"not a database at all" * 100)
    with pytest.raises(FileError, match="damaged"):
        encode(texts, function(Counting(), model="m"), cache=tmp_path)


def test_the_cache_records_what_made_it(texts, tmp_path):
    encode(texts, function(Counting(), model="m"), cache=tmp_path)
    base = sqlite3.connect(next(tmp_path.glob("*.sqlite")))
    assert base.execute("SELECT count(*) FROM checked").fetchone() == (4,)
    assert '"model": "m"' in base.execute("SELECT fingerprint FROM about").fetchone()[0]
    base.close()


@pytest.mark.parametrize(
    "change",
    [
        *("vector = zeroblob(12)", "dtype = '<i4'", "item = randomblob(16)", "crc32 = 0", "crc32 = NULL"),
        *("vector = NULL, crc32 = NULL", "dtype = NULL, crc32 = NULL", "vector = 'text', crc32 = NULL"),
    ],
)
def test_a_damaged_row_is_encoded_again(texts, tmp_path, change):
    encode(texts, function(Counting(), model="m"), cache=tmp_path)
    with sqlite3.connect(next(tmp_path.glob("*.sqlite"))) as base:
        base.execute(f"UPDATE checked SET {change} WHERE rowid = 2")
    base.close()
    count = Counting()
    space = encode(texts, function(count, model="m"), cache=tmp_path)
    np.testing.assert_array_equal(space.vectors, Counting()(texts))
    assert count.seen == [texts[1]]


def test_no_flipped_bit_of_the_cache_changes_a_vector(texts, tmp_path):
    """A flip is found by SQLite, costs an encoding, or meets a byte that carries nothing."""
    encode(texts, function(Counting(), model="m"), cache=tmp_path)
    path = next(tmp_path.glob("*.sqlite"))
    whole = path.read_bytes()
    for bit in np.random.default_rng(0).integers(0, 8 * len(whole), 150).tolist():
        raw = bytearray(whole)
        raw[bit // 8] ^= 1 << (bit % 8)
        path.write_bytes(raw)
        with suppress(FileError):
            found = encode(texts, function(Counting(), model="m"), cache=tmp_path).vectors
            np.testing.assert_array_equal(found, Counting()(texts))


def test_a_cache_that_is_in_use_or_full_should_not_be_deleted(texts, tmp_path, monkeypatch):
    encode(texts, function(Counting(), model="m"), cache=tmp_path)
    path = next(tmp_path.glob("*.sqlite"))
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path: connect(path, timeout=0.01))
    other = connect(path)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(OSError, match=r"sqlite cannot be used .*locked.*another run uses it.*another cache folder"):
        encode(texts, function(Counting(), model="m"), cache=tmp_path)
    other.close()

    def small(path):
        base = connect(path)
        base.execute(f"PRAGMA max_page_count = {base.execute('PRAGMA page_count').fetchone()[0]}")
        return base

    monkeypatch.setattr(sqlite3, "connect", small)
    many = [f"text {i}" for i in range(2000)]
    with pytest.raises(OSError, match=r"the disk is full, and what was encoded so far is kept"):
        encode(many, function(Counting(), model="m"), cache=tmp_path)


def test_wrong_items_and_wrong_encoders_are_refused():
    with pytest.raises(TypeError, match=r"one string, 'hello'"):
        encode("hello", Counting())
    with pytest.raises(ValueError, match="no items to encode"):
        encode([], Counting())
    with pytest.raises(ValueError, match="1 keys were given for 2 items"):
        encode(["a", "b"], Counting(), keys=["x"])
    with pytest.raises(ValueError, match="batch_size is 0"):
        encode(["a"], Counting(), batch_size=0)
    with pytest.raises(ValueError, match=r"shape \(1, 2\) for 2 items"):
        encode(["a", "b"], lambda _: np.zeros((1, 2)))
    with pytest.raises(ValueError, match="NaN or infinity for 'b'"):
        encode(["a", "b"], lambda _: np.asarray([[1.0], [np.nan]]))


def test_the_progress_bar_goes_to_the_error_stream(texts, capsys):
    encode(texts, Counting(), batch_size=2, progress=True)
    out = capsys.readouterr()
    assert out.out == ""
    assert "4/4" in out.err
    encode(texts, Counting(), progress=False)
    assert capsys.readouterr().err == ""


def test_static_word_vectors():
    words = Space([[1.0, 0.0], [0.0, 1.0]], keys=["red", "car"], name="toy")
    space = encode(["A red, RED car", "nothing known"], static(words, normalize=False))
    np.testing.assert_allclose(space.vectors, [[2 / 3, 1 / 3], [0, 0]])
    assert (space.fingerprint.model, space.fingerprint.pooling) == ("toy", "mean")
    with pytest.raises(ValueError, match="no keys"):
        static(Space([[1.0]]))


def test_encode_is_a_public_room():
    assert rl.encode.encode is encode


def test_missing_packages_name_their_extra(monkeypatch, tmp_path):
    calls = {
        "sentence_transformers": (lambda: rl.encode.sentence_transformer("x"), "text"),
        "transformers": (lambda: rl.encode.transformer("x"), "text"),
        "timm": (lambda: rl.encode.timm_model("x"), "image"),
        "torchvision": (lambda: rl.encode.torchvision_model("x"), "image"),
        "onnxruntime": (lambda: rl.encode.onnx_text("x.onnx"), "onnx"),
    }
    for package, (call, extra) in calls.items():
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(ModuleNotFoundError, match=rf"{package} is needed .*relatent\[{extra}\]"):
                call()


def test_importing_the_room_imports_no_framework():
    code = (
        "import sys, relatent; relatent.encode; "
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'onnxruntime', 'PIL', 'rich'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
