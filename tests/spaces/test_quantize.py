import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import relatent as rl
from relatent.spaces import Quantizer

RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 32)).astype(np.float32)


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_integers_are_within_half_a_step(kind):
    q = Quantizer.fit(X, kind)
    inside = np.abs(X - q.decode(q.encode(X))) <= q.scale / 2 + 1e-6
    assert inside.mean() > 0.999  # the others were cut off
    assert q.encode(X).dtype == np.dtype(kind)


@pytest.mark.parametrize("center", [False, True])
def test_bits_are_signs_around_the_cut(center):
    shifted = X + 3 * center
    q = Quantizer.fit(shifted, "binary", center=center)
    codes = q.encode(shifted)
    assert codes.shape == (400, 4)
    cut = shifted.mean(axis=0) if center else 0
    np.testing.assert_array_equal(np.unpackbits(codes, axis=1).astype(bool), shifted >= cut)
    np.testing.assert_array_equal(q.decode(codes) >= cut, shifted >= cut)


def test_integer_codes_rank_as_their_vectors():
    codes = Quantizer.fit(X, "int8").encode(X).astype(np.float32)
    kept = rl.evaluate.mutual_knn(X, codes, k=10)
    assert float(kept) > 0.95


@pytest.mark.parametrize("kind", ["int8", "uint8", "binary"])
@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "folder"])
def test_codes_are_read_as_the_vectors_that_they_stand_for(tmp_path, kind, name):
    q = Quantizer.fit(X, kind, center=True) if kind == "binary" else Quantizer.fit(X, kind)
    rl.write_space(rl.Space(X, keys=range(400)), tmp_path / name, quantize=q)
    back = rl.read_space(tmp_path / name)
    assert (back.shape, back.dtype) == (X.shape, np.float32)
    np.testing.assert_allclose(back.vectors, q.decode(q.encode(X)), atol=1e-6)
    np.testing.assert_array_equal(back.take([7, 3]), back.vectors[[7, 3]])
    if name == "x.parquet":
        column = pq.read_schema(tmp_path / name).field("vector").type
        assert (column.value_type.bit_width, column.list_size) == (8, q.nbytes)


def test_what_was_coded_is_written_as_it_is_unless_asked(tmp_path):
    rl.write_space(rl.Space(X), tmp_path / "codes.parquet", quantize="int8")
    coded = rl.read_space(tmp_path / "codes.parquet")
    rl.write_space(coded, tmp_path / "floats.parquet")
    column = pq.read_schema(tmp_path / "floats.parquet").field("vector").type
    assert column.value_type == pa.float32()
    np.testing.assert_array_equal(rl.read_space(tmp_path / "floats.parquet").vectors, coded.vectors)


def test_codes_of_others_are_read_as_numbers(tmp_path):
    codes = RNG.integers(-127, 127, size=(50, 16), dtype=np.int8)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(codes.reshape(-1)), 16)
    pq.write_table(pa.table({"vector": lists}), tmp_path / "int8.parquet")
    np.testing.assert_array_equal(rl.read_space(tmp_path / "int8.parquet").vectors, codes)
    np.save(tmp_path / "int8.npy", codes)
    np.testing.assert_array_equal(rl.read_space(tmp_path / "int8.npy").vectors, codes)


def test_packed_bits_of_others(tmp_path):
    bits = RNG.integers(0, 2, size=(50, 24), dtype=np.uint8)
    packed = np.packbits(bits, axis=1)
    np.save(tmp_path / "bits.npy", packed)
    binary = pa.array([row.tobytes() for row in packed], pa.binary(3))
    pq.write_table(pa.table({"vector": binary, "id": range(50)}), tmp_path / "bits.parquet")
    for space in (rl.read_space(tmp_path / "bits.npy", packed=True), rl.read_space(tmp_path / "bits.parquet")):
        np.testing.assert_array_equal(space.vectors, 2.0 * bits - 1)
        np.testing.assert_array_equal(space.take([3]), 2.0 * bits[[3]] - 1)


def test_a_translator_learns_the_scale_of_codes():
    turn = np.linalg.qr(RNG.normal(size=(32, 32)))[0]
    codes = Quantizer.fit(X, "int8").encode(X).astype(np.float32)
    t = rl.Translator().fit(codes[:300], X[:300] @ turn)
    assert rl.evaluate.r2(t.transform(codes[300:]), X[300:] @ turn) > 0.99


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda folder: Quantizer.fit(X, "int4"), "no code"),
        (lambda folder: Quantizer.fit(X[:, :5], "binary"), "multiple of 8"),
        (lambda folder: rl.write_space(rl.Space(X), folder / "x.npy", quantize="int8"), "Parquet or Arrow"),
        (lambda folder: Quantizer.from_json("{}"), "cannot be read"),
    ],
)
def test_what_cannot_be_coded_is_refused(tmp_path, call, message):
    with pytest.raises(ValueError, match=message):
        call(tmp_path)
    assert not list(tmp_path.iterdir())


def test_vectors_of_zeros_have_codes():
    q = Quantizer.fit(np.zeros((3, 8)), "int8")
    np.testing.assert_array_equal(q.decode(q.encode(np.zeros((3, 8)))), np.zeros((3, 8)))
