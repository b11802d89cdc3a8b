"""Files as other tools write them."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from relatent._files import FileError
from relatent.spaces import Space, read_space, write_space


@pytest.fixture
def vectors(rng):
    return rng.normal(size=(4, 3)).astype(np.float32)


WORDS = "the 0.1 0.2\nof -1 2e-3\n"


@pytest.mark.parametrize(
    "text",
    [WORDS, "2 2\n" + WORDS, "2 2\n" + WORDS.replace("\n", " \n").replace("2 2 \n", "2 2\n"), WORDS.rstrip("\n")],
    ids=["glove", "word2vec", "fasttext", "no last line end"],
)
@pytest.mark.parametrize("name", ["w.txt", "w.vec", "w.vec.gz"])
def test_word_vectors(tmp_path, text, name):
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    back = read_space(tmp_path / name)
    np.testing.assert_array_equal(back.vectors, np.asarray([[0.1, 0.2], [-1, 2e-3]], dtype=np.float32))
    assert back.keys.tolist() == ["the", "of"]


def test_words_with_spaces(tmp_path):
    (tmp_path / "w.txt").write_text("plain 1 2\n. . . 3 4\nat name@domain.com 5 6\n")
    back = read_space(tmp_path / "w.txt")
    assert back.keys.tolist() == ["plain", ". . .", "at name@domain.com"]
    assert back.vectors.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_word_that_cannot_be_written(tmp_path):
    with pytest.raises(FileError, match=r"'two\\nlines' of row 1 cannot stand in x\.vec"):
        write_space(Space(np.zeros((2, 1)), keys=["a", "two\nlines"]), tmp_path / "x.vec")


def test_word_vectors_cut_short_by_whole_lines(tmp_path):
    (tmp_path / "w.vec").write_text("3 2\n" + WORDS)
    with pytest.raises(FileError, match=r"says it has 3 rows and has 2"):
        read_space(tmp_path / "w.vec")


@pytest.mark.parametrize("ids", [["a", "b", "c", "日"], [3, 1, 2, 0]])
@pytest.mark.parametrize("ending", [".ids.npy", "_ids.npy", ".keys.npy", ".ids.txt"])
def test_npy_with_ids_beside(tmp_path, vectors, ids, ending):
    np.save(tmp_path / "x.npy", vectors)
    beside = tmp_path / f"x{ending}"
    if ending.endswith("npy"):
        np.save(beside, np.asarray(ids))
    else:
        beside.write_text("\n".join(map(str, ids)), "utf8")
    assert list(map(str, read_space(tmp_path / "x.npy").keys)) == list(map(str, ids))


def test_npy_with_ids_elsewhere(tmp_path, vectors):
    np.save(tmp_path / "emb.npy", vectors)
    pq.write_table(pa.table({"rank": [1, 2, 3, 4], "token": list("abcd")}), tmp_path / "index.parquet")
    back = read_space(tmp_path / "emb.npy", keys=tmp_path / "index.parquet", key="token")
    assert back.keys.tolist() == list("abcd")
    pq.write_table(pa.table({"token": list("abc")}), tmp_path / "short.parquet")
    with pytest.raises(FileError, match=r"short\.parquet has 3 rows and .*emb\.npy has 4"):
        read_space(tmp_path / "emb.npy", keys=tmp_path / "short.parquet")


def test_npy_in_fortran_order_is_read(tmp_path, vectors):
    np.save(tmp_path / "x.npy", np.asfortranarray(vectors))
    back = read_space(tmp_path / "x.npy")
    np.testing.assert_array_equal(back.vectors, vectors)
    np.testing.assert_array_equal(np.concatenate([chunk.vectors for chunk in back.chunks(rows=3)]), vectors)


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.asarray([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match="Python objects"):
        read_space(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", vectors=np.zeros((2, 2)), keys=np.asarray(["a", None], dtype=object))
    with pytest.raises(FileError, match="'keys', which is named like the keys, and holds Python objects"):
        read_space(tmp_path / "x.npz")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_of_others(tmp_path, vectors, save):
    save(tmp_path / "x.npz", emb=vectors, ids=np.asarray(list("abcd")), labels=np.arange(4), other=np.eye(2)[0])
    back = read_space(tmp_path / "x.npz")
    np.testing.assert_array_equal(back.vectors, vectors)
    assert back.keys.tolist() == list("abcd")
    assert back.others.column("labels").to_pylist() == [0, 1, 2, 3]


def test_what_we_write_others_read(tmp_path, vectors):
    h5py = pytest.importorskip("h5py")
    from safetensors.numpy import load_file

    space = Space(vectors, keys=[4, 3, 2, 1])
    for name in ("x.npy", "x.npz", "x.safetensors", "x.h5", "x.feather", "x.parquet", "x.jsonl"):
        write_space(space, tmp_path / name)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), vectors)
    with np.load(tmp_path / "x.npz") as file:
        np.testing.assert_array_equal(file["vector"], vectors)
        np.testing.assert_array_equal(file["key"], [4, 3, 2, 1])
    tensors = load_file(tmp_path / "x.safetensors")
    np.testing.assert_array_equal(tensors["vector"], vectors)
    np.testing.assert_array_equal(tensors["key"], [4, 3, 2, 1])
    with h5py.File(tmp_path / "x.h5") as file:
        np.testing.assert_array_equal(file["vector"], vectors)
    assert pq.read_table(tmp_path / "x.parquet").column("key").to_pylist() == [4, 3, 2, 1]
    first = json.loads((tmp_path / "x.jsonl").read_text().splitlines()[0])
    assert first["key"] == 4
    np.testing.assert_array_equal(np.asarray(first["vector"], np.float32), vectors[0])


def test_safetensors_of_others(tmp_path, vectors):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    save_file({"embeddings": torch.from_numpy(vectors).bfloat16(), "ids": torch.arange(4)}, tmp_path / "x.safetensors")
    back = read_space(tmp_path / "x.safetensors")
    np.testing.assert_allclose(back.vectors, vectors, rtol=1e-2)
    assert back.keys.tolist() == [0, 1, 2, 3]


def test_a_datasets_folder_of_several_files(tmp_path, vectors):
    """As `Dataset.save_to_disk` leaves it: Arrow streams of small batches, named in state.json."""
    folder = tmp_path / "saved"
    folder.mkdir()
    for i in range(2):
        part = vectors[2 * i : 2 * i + 2]
        table = pa.table({"text": [f"t{2 * i}", f"t{2 * i + 1}"], "embeddings": part.tolist()})
        with pa.OSFile(str(folder / f"data-{i}.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=1)
    (folder / "dataset_info.json").write_text("{}")
    state = {"_data_files": [{"filename": f"data-{i}.arrow"} for i in range(2)]}
    (folder / "state.json").write_text(json.dumps(state))
    back = read_space(folder, key="text")
    np.testing.assert_allclose(back.vectors, vectors)
    assert back.keys.tolist() == ["t0", "t1", "t2", "t3"]
    (folder / "state.json").write_text("{")
    with pytest.raises(FileError, match=r"state\.json cannot be read"):
        read_space(folder)


def test_a_dataset_dict_names_its_splits(tmp_path, vectors):
    write_space(Space(vectors), tmp_path / "train", format="datasets")
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(FileError, match=r"its splits are train: read one of them"):
        read_space(tmp_path)


def test_our_datasets_folder_opens_in_datasets(tmp_path, vectors):
    datasets = pytest.importorskip("datasets")
    write_space(Space(vectors, keys=list("abcd")), tmp_path / "saved", format="datasets")
    assert datasets.load_from_disk(tmp_path / "saved")["key"][:] == list("abcd")


def test_jsonl_keeps_strings_that_look_like_dates(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": "2020-01-01", "v": [1, 2.5]}\n{"id": "x", "v": [3, 4]}\n')
    back = read_space(tmp_path / "x.jsonl")
    assert back.keys.tolist() == ["2020-01-01", "x"]
    assert back.vectors.tolist() == [[1, 2.5], [3, 4]]


def test_jsonl_names_the_row_that_is_wrong(tmp_path):
    good = '{"id": 1, "v": [1, 2]}\n'
    for bad, words in [
        ("{", "not JSON in row 2"),
        ("[1]", "has a list in row 2"),
        ('{"id": 2, "v": null}', "null vector in row 2"),
        ('{"id": 2, "v": [1, null]}', "null vector in row 2"),
    ]:
        (tmp_path / "x.jsonl").write_text(good + good + bad + "\n")
        with pytest.raises(FileError, match=words):
            _ = read_space(tmp_path / "x.jsonl").vectors


def test_jsonl_columns_may_come_and_go(tmp_path):
    lines = [{"id": i, "v": [1, 2], **({"note": "x"} if i == 5 else {})} for i in range(1500)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_space(read_space(tmp_path / "x.jsonl"), tmp_path / "y.parquet")
    notes = read_space(tmp_path / "y.parquet").others.column("note").to_pylist()
    assert notes == ["x" if i == 5 else None for i in range(1500)]
    lines[1200]["late"] = 1
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(FileError, match=r"has 'late' in row 1200"):
        write_space(read_space(tmp_path / "x.jsonl"), tmp_path / "z.parquet")
    del lines[1200]["late"]
    lines[1300]["id"] = "text"
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(FileError, match=r"'text' under 'id' in row 1300.*another type than int64"):
        _ = read_space(tmp_path / "x.jsonl").vectors
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.jsonl", "y.parquet"]


def test_keys_are_read_without_the_other_columns(tmp_path, vectors, monkeypatch):
    from relatent.spaces.io.formats.parquet import ParquetSource

    write_space(Space(vectors, keys=list("abcd"), others={"text": ["long"] * 4}), tmp_path / "x.parquet")
    asked, tables = [], ParquetSource.tables

    def spy(self, start, stop, size, columns=None):
        asked.append(columns)
        return tables(self, start, stop, size, columns)

    monkeypatch.setattr(ParquetSource, "tables", spy)
    assert read_space(tmp_path / "x.parquet").keys.tolist() == list("abcd")
    assert asked == [["key"]]


def test_columns_that_change_their_type_are_named(tmp_path, vectors):
    from relatent.spaces import space_writer

    one = next(Space(vectors, others={"n": [1, 2, 3, 4]}).chunks())
    two = next(Space(vectors, others={"n": ["a", "b", "c", "d"]}).chunks())
    for name in ("x.parquet", "x.npy", "x.arrow"):
        with pytest.raises(FileError, match=r"n \(int64, then string\)"), space_writer(tmp_path / name) as out:  # noqa: PT012
            out.write(one)
            out.write(two)
    assert list(tmp_path.iterdir()) == []


def test_vectors_are_stored_plainly(tmp_path, vectors):
    write_space(Space(vectors, keys=list("abcd")), tmp_path / "x.parquet")
    group = pq.read_metadata(tmp_path / "x.parquet").row_group(0)
    stored = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert stored["vector.list.element"].compression == "UNCOMPRESSED"
    assert not stored["vector.list.element"].has_dictionary_page
    assert stored["key"].compression == "ZSTD"


def test_jsonl_refuses_nan(tmp_path):
    with pytest.raises(FileError, match="Row 1 holds NaN"):
        write_space(Space([[1.0], [np.nan]]), tmp_path / "x.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_row_groups_are_skipped_not_read(tmp_path, rng):
    vectors = rng.normal(size=(1000, 8)).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(vectors.ravel(), 8)
    pq.write_table(pa.table({"id": range(1000), "v": lists}), tmp_path / "x.parquet", row_group_size=100)
    last = list(read_space(tmp_path / "x.parquet").chunks(rows=64, shard=(9, 10)))
    np.testing.assert_array_equal(np.concatenate([chunk.vectors for chunk in last]), vectors[900:])


def test_fixed_size_lists_are_read_without_a_copy(tmp_path, vectors):
    from relatent.spaces.io.columns import as_lists, as_matrix

    lists = as_lists(vectors)
    assert np.shares_memory(as_matrix(lists, "x", 0), vectors)
    assert np.shares_memory(as_matrix(lists.slice(1, 2), "x", 0), vectors)


def test_remote_paths(vectors):
    fsspec = pytest.importorskip("fsspec")
    space = Space(vectors, keys=list("abcd"))
    for name in ("x.parquet", "x.npy", "x.jsonl", "folder"):
        write_space(space, f"memory://bucket/{name}")
        back = read_space(f"memory://bucket/{name}")
        np.testing.assert_array_equal(back.vectors, vectors)
        assert back.keys.tolist() == list("abcd")
    with pytest.raises(FileNotFoundError, match="There is no file memory://bucket/none"):
        read_space("memory://bucket/none.parquet")
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


def test_a_missing_package_names_its_extra(tmp_path, vectors, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ModuleNotFoundError, match=r"h5py is needed to write x\.h5.*relatent\[hdf5\]"):
        write_space(Space(vectors), tmp_path / "x.h5")
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_is_no_python_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 3), np.float32))
    raw = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(raw.replace(b"(2, 3), }", b"(2, 3(, }"))
    with pytest.raises(FileError, match="cannot be read"):
        read_space(tmp_path / "x.npy")
