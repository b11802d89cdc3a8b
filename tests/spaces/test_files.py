"""What is written comes back the same, in every format."""

import json
import os
import resource

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from relatent._files import FileError
from relatent.spaces import Fingerprint, Space, read_space, space_writer, write_space


def written(space, path, **options):
    """Write and read again; folders of datasets are asked for by name."""
    others = options.pop("others", path.name not in ("x.txt", "x.vec"))
    write_space(space, path, format="datasets" if path.name == "datasets" else None, others=others)
    return read_space(path, **options)


def left_behind(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(
    "keys", [["a", "ß", "日本語", "with space", "😀", "é"], [5, -1, 2**40, 0, 7, 8]], ids=["unicode", "integer"]
)
def test_round_trip(target, rng, dtype, keys):
    vectors = rng.normal(size=(6, 4)).astype(dtype)
    back = written(Space(vectors, keys=keys), target)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back.vectors, vectors)
    assert back.keys.tolist() == keys
    assert back.keys.dtype == (object if isinstance(keys[0], str) else np.int64)


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (1, 1), (3, 4096)], ids=str)
def test_shapes(target, rng, shape):
    vectors = rng.normal(size=shape).astype(np.float32)
    back = written(Space(vectors, keys=[f"k{i}" for i in range(shape[0])]), target)
    assert back.shape == shape
    np.testing.assert_array_equal(back.vectors, vectors)
    assert len(back.keys) == shape[0]


def test_without_keys(target, rng):
    vectors = rng.normal(size=(3, 2)).astype(np.float32)
    back = written(Space(vectors), target)
    np.testing.assert_array_equal(back.vectors, vectors)
    assert [str(key) for key in back.keys] == ["0", "1", "2"]


def test_other_columns_are_kept(target, space):
    if target.name in ("x.txt", "x.vec"):
        with pytest.raises(FileError, match=r"cannot keep the columns title, year.*write Parquet"):
            written(space, target, others=True)
        assert left_behind(target.parent) == []
        return
    back = written(space, target)
    assert back.others.column("title").to_pylist() == space.others.column("title").to_pylist()
    assert back.others.column("year").to_pylist() == space.others.column("year").to_pylist()
    assert set(back.others.column_names) == {"key", "title", "year"}


def test_others_can_be_left_out(target, space):
    back = written(space, target, others=False)
    assert len(back.others.column_names) == 1


def test_nulls_and_nested_values_in_other_columns_survive(tmp_path, rng):
    others = {"note": ["a", None, "c"], "tags": [["x"], [], None], "flag": [True, None, False], "n": [1, None, 3]}
    space = Space(rng.normal(size=(3, 2)), keys=["a", "b", "c"], others=others)
    for name in ("x.parquet", "x.npy", "x.npz", "x.arrow", "x.safetensors", "x.h5", "x.jsonl"):
        back = written(space, tmp_path / name)
        assert {k: back.others.column(k).to_pylist() for k in others} == others, name


def test_the_fingerprint_travels(target, rng):
    vectors = rng.normal(size=(50, 20)).astype(np.float32)
    made = Fingerprint.of(vectors, model="encoder", revision="3", pooling="mean", normalization="none", layer=-2)
    back = written(Space(vectors, keys=[f"k{i}" for i in range(50)], fingerprint=made), target)
    assert back.fingerprint == made


def test_a_file_of_others_has_a_derived_fingerprint(tmp_path, rng):
    vectors = rng.normal(size=(50, 20))
    np.save(tmp_path / "x.npy", vectors)
    fingerprint = read_space(tmp_path / "x.npy").fingerprint
    assert fingerprint == Fingerprint.of(vectors)
    assert fingerprint.model is None


def test_chunks_and_shards_cover_every_row_once(target, rng):
    vectors = rng.normal(size=(23, 3)).astype(np.float32)
    back = written(Space(vectors, keys=list(range(23))), target)
    for n in (1, 2, 5, 30):
        parts = [chunk for i in range(n) for chunk in back.chunks(rows=4, shard=(i, n))]
        assert max(len(chunk) for chunk in parts) <= 4
        np.testing.assert_array_equal(np.concatenate([chunk.vectors for chunk in parts]), vectors)
        assert [int(k) for chunk in parts for k in chunk.keys.to_pylist()] == list(range(23))
        rows = [chunk.start + i for chunk in parts for i in range(len(chunk))]
        assert rows == list(range(23))


def test_take_reads_rows_in_the_order_asked(target, rng):
    vectors = rng.normal(size=(23, 3)).astype(np.float32)
    back = written(Space(vectors, keys=list(range(23))), target)
    rows = [20, 3, 3, 0]
    np.testing.assert_array_equal(back.take(rows), vectors[rows])


def test_streaming_reads_and_writes_the_same(target, rng):
    vectors = rng.normal(size=(23, 3)).astype(np.float32)
    source = target.with_name("source.parquet")
    write_space(Space(vectors, keys=[f"k{i}" for i in range(23)]), source)
    matrix = rng.normal(size=(3, 2)).astype(np.float32)
    known = Fingerprint(dim=2, model="new")
    with space_writer(target, fingerprint=known, format="datasets" if target.name == "datasets" else None) as out:
        for chunk in read_space(source).chunks(rows=5):
            out.write(chunk.with_vectors(chunk.vectors @ matrix))
    back = read_space(target)
    np.testing.assert_allclose(back.vectors, vectors @ matrix, rtol=1e-6)
    assert back.keys.tolist() == [f"k{i}" for i in range(23)]
    assert back.fingerprint.model == "new"


# Half a file, no disk, no permission: what was not finished is not there.


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_file_cut_in_half_is_refused(target, rng, share):
    written(Space(rng.normal(size=(500, 16)).astype(np.float32), keys=list(range(500))), target)
    victim = max((p for p in [target, *target.glob("*")] if p.is_file()), key=lambda p: p.stat().st_size)
    victim.write_bytes(victim.read_bytes()[: int(victim.stat().st_size * share)])
    with pytest.raises(FileError, match=victim.name if target.name != "datasets" else "data") as caught:
        _ = read_space(target).vectors
    assert "fix" in str(caught.value).lower() or "new copy" in str(caught.value)


def test_a_failure_midway_leaves_nothing(target, space):
    def fail():
        with space_writer(target, format="datasets" if target.name == "datasets" else None) as out:
            out.write(next(Space(space.vectors, keys=space.keys).chunks()))
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert left_behind(target.parent) == []


def test_a_failure_keeps_what_stood_there(target, space):
    if target.suffix == "":
        pytest.skip("folders are never replaced")
    before = written(Space(space.vectors, keys=space.keys), target).vectors.copy()
    files = left_behind(target.parent)
    with pytest.raises(RuntimeError, match="power cut"), space_writer(target, overwrite=True) as out:  # noqa: PT012
        out.write(next(Space(2 * space.vectors, keys=space.keys).chunks()))
        raise RuntimeError("power cut")
    assert left_behind(target.parent) == files
    np.testing.assert_array_equal(read_space(target).vectors, before)


def test_a_full_disk_leaves_nothing(target, rng):
    """No file may grow beyond 64 KiB here, which fails as a full disk does: in the middle of a write."""
    big = Space(rng.normal(size=(4000, 64)).astype(np.float32), keys=list(range(4000)))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, hard))
    try:
        with pytest.raises(OSError, match=r"disk was full.*nothing was left"):
            written(big, target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert left_behind(target.parent) == []


@pytest.fixture
def nobody():
    """An ordinary user, since root may write anywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield
    os.seteuid(user)


def test_no_permission(target, space, request):
    bare = Space(space.vectors, keys=space.keys)
    (target.parent / "before").mkdir()
    written(bare, target.parent / "before" / target.name)  # imports what it needs while this user may
    target.parent.chmod(0o500)
    request.getfixturevalue("nobody")
    with pytest.raises(PermissionError, match=r"no permission in .*Write elsewhere"):
        write_space(bare, target, format="datasets" if target.name == "datasets" else None)
    os.seteuid(os.getuid())
    target.parent.chmod(0o700)
    assert left_behind(target.parent) == ["before"]


def test_no_folder(tmp_path, space):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere.*Create it first"):
        write_space(space, tmp_path / "nowhere" / "x.parquet")


def test_a_full_folder_is_not_replaced(tmp_path, space):
    write_space(space, tmp_path / "out")
    with pytest.raises(FileError, match=r"not empty"):
        write_space(space, tmp_path / "out")


def test_npy_is_one_file_and_users_files_beside_it_stay(tmp_path, space, rng):
    users = tmp_path / "x.keys.parquet"
    users.write_bytes(b"mine")
    write_space(space, tmp_path / "x.npy")
    assert left_behind(tmp_path) == ["x.keys.parquet", "x.npy"]
    assert read_space(tmp_path / "x.npy").keys.tolist() == space.keys.tolist()
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), space.vectors)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy", mmap_mode="r"), space.vectors)
    write_space(Space(rng.normal(size=(3, 5))), tmp_path / "x.npy", overwrite=True)
    assert not read_space(tmp_path / "x.npy").has_keys
    assert users.read_bytes() == b"mine"


# Folders and globs.


def test_a_folder_and_a_glob_are_read_in_order(tmp_path, rng):
    vectors = rng.normal(size=(9, 2))
    for i in range(3):
        part = slice(3 * i, 3 * i + 3)
        write_space(Space(vectors[part], keys=list(range(9))[part]), tmp_path / f"part-{i}.parquet")
    (tmp_path / "_SUCCESS").touch()
    for path in (tmp_path, tmp_path / "*.parquet", tmp_path / "part-[012].parquet"):
        back = read_space(path)
        np.testing.assert_array_equal(back.vectors, vectors)
        assert back.keys.tolist() == list(range(9))
        np.testing.assert_array_equal(back.take([8, 0, 4]), vectors[[8, 0, 4]])
        assert [len(c) for c in back.chunks(rows=2, shard=(1, 2))] == [2, 2, 1]


def test_a_folder_with_a_foreign_file(tmp_path, space):
    write_space(space, tmp_path / "a.parquet")
    write_space(space, tmp_path / "b.parquet")
    (tmp_path / "notes.md").write_text("hello")
    with pytest.raises(FileError, match=r"notes\.md.*files of one format.*\*\.parquet"):
        read_space(tmp_path)


def test_a_folder_of_npy_passes_over_what_stands_beside(tmp_path, space):
    write_space(space, tmp_path / "a.npy")
    write_space(space, tmp_path / "b.npy")
    assert len(read_space(tmp_path)) == 20


def test_files_of_two_spaces_are_not_joined(tmp_path, space, rng):
    write_space(space, tmp_path / "a.parquet")
    write_space(Space(rng.normal(size=(3, 4)).astype(np.float32), keys=["x", "y", "z"]), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"dimension 5 and .*b\.parquet has 4"):
        read_space(tmp_path)


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read_space(tmp_path / "x.parquet")
    with pytest.raises(FileNotFoundError, match="No file matches"):
        read_space(tmp_path / "*.parquet")
    with pytest.raises(FileError, match="empty folder"):
        read_space(tmp_path)


def test_an_unknown_suffix_is_answered_with_a_suggestion(tmp_path, space):
    with pytest.raises(FileError, match=r"ends in '\.parquett'.*Did you mean '\.parquet'"):
        read_space(tmp_path / "x.parquett")
    with pytest.raises(FileError, match=r"ends in '\.xlsx'.*There are: \.parquet"):
        write_space(space, tmp_path / "x.xlsx")


# Columns.


def test_columns_are_guessed_and_can_be_named(tmp_path, rng):
    vectors = rng.normal(size=(3, 2)).astype(np.float32)
    table = pa.table(
        {
            "doc": ["a", "b", "c"],
            "id": [1, 2, 3],
            "ada": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 2),
            "small": [[1.0], [2.0], [3.0]],
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(FileError, match=r"several columns of vectors: ada, small.*vector='ada'"):
        read_space(tmp_path / "x.parquet")
    with pytest.raises(FileError, match=r"no column 'adaa'.*Did you mean 'ada'"):
        read_space(tmp_path / "x.parquet", vector="adaa")
    with pytest.raises(FileError, match=r"'doc'.*holds string: expected lists of numbers.*ada, small"):
        read_space(tmp_path / "x.parquet", vector="doc")
    with pytest.raises(FileError, match=r"no column 'dok'.*Did you mean 'doc'"):
        read_space(tmp_path / "x.parquet", vector="ada", key="dok")
    assert read_space(tmp_path / "x.parquet", vector="ada").keys.tolist() == [1, 2, 3]
    named = read_space(tmp_path / "x.parquet", vector="ada", key="doc", dtype="float64", name="mine")
    assert named.keys.tolist() == ["a", "b", "c"]
    assert named.dtype == np.float64
    assert named.name == "mine"
    write_space(named, tmp_path / "y.parquet")
    assert pq.read_schema(tmp_path / "y.parquet").names == table.schema.names


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda t: pa.list_(t, 2)], ids=["list", "large", "fixed"])
@pytest.mark.parametrize("value", [pa.float16(), pa.float32(), pa.float64(), pa.int8()], ids=str)
def test_list_types(tmp_path, kind, value):
    rows = pa.array([[np.float16(1), np.float16(2)], [np.float16(3), np.float16(4)]]).cast(pa.list_(pa.float32()))
    column = rows.cast(pa.list_(value)).cast(kind(value))
    for name, write in (("x.parquet", pq.write_table), ("x.feather", _feather)):
        write(pa.table({"id": [1, 2], "emb": column}), tmp_path / name)
        back = read_space(tmp_path / name)
        np.testing.assert_array_equal(back.vectors, [[1, 2], [3, 4]])
        assert back.dtype == (np.float32 if value == pa.int8() else value.to_pandas_dtype())


def _feather(table, path):
    pa.feather.write_feather(table, str(path), compression="lz4")


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 2)], ids=["list", "fixed"])
def test_nulls_are_refused_by_row(tmp_path, kind):
    if kind.id == pa.list_(pa.float32(), 2).id and int(pa.__version__.partition(".")[0]) < 26:
        pytest.skip("Before version 26, pyarrow itself fails on nulls in fixed-size lists, without their row.")
    for rows, words in (
        ([[1, 2]] * 5 + [None], "1 null vectors, first in row 5"),
        ([[1, 2]] * 3 + [[1, None]], "null inside the vector of row 3"),
    ):
        pq.write_table(pa.table({"v": pa.array(rows, kind)}), tmp_path / "x.parquet")
        with pytest.raises(FileError, match=words):
            list(read_space(tmp_path / "x.parquet").chunks(rows=2))


def test_ragged_lists_are_refused_by_row(tmp_path):
    rows = [[1.0, 2.0]] * 5 + [[1.0]] + [[1.0, 2.0, 3.0]]
    pq.write_table(pa.table({"v": rows}), tmp_path / "x.parquet")
    with pytest.raises(FileError, match=r"2 coordinates at first, 1 in row 5"):
        list(read_space(tmp_path / "x.parquet").chunks(rows=2))
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"v": row}) + "\n" for row in rows))
    with pytest.raises(FileError, match=r"2 coordinates at first, 1 in row 5"):
        _ = read_space(tmp_path / "x.jsonl").vectors
    (tmp_path / "x.vec").write_text("7 2\n" + "".join(f"w {' '.join(map(str, row))}\n" for row in rows))
    with pytest.raises(FileError, match=r"row 5.*expected a word and 2 numbers"):
        _ = read_space(tmp_path / "x.vec").vectors


def test_no_vectors_at_all(tmp_path):
    pq.write_table(pa.table({"a": [1.0], "b": ["x"]}), tmp_path / "x.parquet")
    with pytest.raises(FileError, match=r"no column of vectors.*a \(double\), b \(string\)"):
        read_space(tmp_path / "x.parquet")
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(FileError, match=r"float64 of shape \(3,\): expected numbers in 2-D"):
        read_space(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(FileError, match=r"holds a \(3,\): expected a matrix"):
        read_space(tmp_path / "x.npz")


def test_chunks_must_agree(tmp_path, space):
    chunk = next(space.chunks())
    with pytest.raises(ValueError, match="expected the same throughout"), space_writer(tmp_path / "x.npy") as out:  # noqa: PT012
        out.write(chunk)
        out.write(chunk.with_vectors(chunk.vectors[:, :2]))
    with pytest.raises(ValueError, match="Nothing was written"), space_writer(tmp_path / "x.npy"):
        pass
    with pytest.raises(ValueError, match="3 vectors were given for a chunk of 10 rows"):
        chunk.with_vectors(chunk.vectors[:3])
    assert left_behind(tmp_path) == []
