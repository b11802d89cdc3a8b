"""What FAISS files have of their own: kinds of index, ids, keys beside, and a switch that was killed."""

from __future__ import annotations

import os

import faiss
import numpy as np
import pyarrow as pa
import pytest
from tests.stores.steps import NEW, fill, new_vectors, read

from relatent.stores import Field, StoreError, open_store

IDS = np.asarray([30, 10, 2**40, 20, 5, 7, 8, 9, *range(100, 156)])
X = np.random.default_rng(0).normal(size=(len(IDS), 8)).astype(np.float32)


def ivf():
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(8), 8, 4)
    index.cp.min_points_per_centroid = 1
    index.train(X)
    index.nprobe = 3
    return index


# Index, whether ids are given, and the kind that the new index must have.
KINDS = {
    "flat": (lambda: faiss.IndexFlatL2(8), False, faiss.IndexFlat),
    "id map": (lambda: faiss.IndexIDMap(faiss.IndexFlatIP(8)), True, faiss.IndexFlat),
    "id map 2": (lambda: faiss.IndexIDMap2(faiss.IndexFlatIP(8)), True, faiss.IndexFlat),
    "hnsw": (lambda: faiss.IndexHNSWFlat(8, 12), False, faiss.IndexHNSWFlat),
    "id map of hnsw": (lambda: faiss.IndexIDMap(faiss.IndexHNSWFlat(8, 12)), True, faiss.IndexHNSWFlat),
    "ivf": (ivf, False, faiss.IndexIVFFlat),
    "ivf with ids": (ivf, True, faiss.IndexIVFFlat),
    "id map of ivf": (lambda: faiss.IndexIDMap(ivf()), True, faiss.IndexIVFFlat),
    "scalar quantizer": (lambda: faiss.IndexScalarQuantizer(8, faiss.ScalarQuantizer.QT_fp16), False, faiss.IndexFlat),
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "index.faiss"


def save(file, index, with_ids=False):
    index.add_with_ids(X, IDS) if with_ids else index.add(X)
    faiss.write_index(index, str(file))
    return file


@pytest.mark.parametrize("kind", KINDS)
def test_index_files_of_every_kind_are_read_and_migrated_to_their_kind(file, kind):
    make, with_ids, expected = KINDS[kind]
    save(file, make(), with_ids)
    before = file.read_bytes()
    with open_store(file) as store:
        keys, vectors = read(store, store.served)
        order = np.argsort(IDS) if with_ids else np.arange(len(X))
        assert keys == (np.sort(IDS) if with_ids else np.arange(len(X))).tolist()
        np.testing.assert_allclose(vectors, X[order], atol=1e-2 if kind == "scalar quantizer" else 0)
        assert [found[0] for found in store.search(vectors, 1, exact=True).keys] == [
            keys[j] for j in _nearest(store.served.metric, vectors)
        ]
        new = Field("new", 5, "float32", store.served.metric)
        fill(store, new)
        store.build_index(new)
        store.switch()
        made = faiss.read_index(str(file))
        assert isinstance(faiss.downcast_index(made.index), expected)
        if expected is faiss.IndexIVFFlat:
            assert (faiss.extract_index_ivf(made).nlist, faiss.extract_index_ivf(made).nprobe) == (4, 3)
        store.switch_back()
    assert file.read_bytes() == before


@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf"])
@pytest.mark.parametrize(("dtype", "nbytes"), [("float16", 2), ("int8", 1), ("uint8", 1)])
def test_small_numbers_are_kept_in_an_index_of_the_same_kind(file, kind, dtype, nbytes):
    """Whoever reads the file with FAISS alone gets the vectors, and asks with vectors as they are."""
    save(file, KINDS[kind][0]())
    new = Field("new", 5, dtype, "l2", scale=None if dtype == "float16" else 0.05, offset=-6.0 * (dtype == "uint8"))
    with open_store(file) as store:
        keys = fill(store, new)
        store.build_index(new)
        store.switch()
    mapped = faiss.read_index(str(file))
    made = faiss.downcast_index(mapped.index)
    assert isinstance(made, {"flat": faiss.IndexScalarQuantizer, "hnsw": faiss.IndexHNSW, "ivf": faiss.IndexIVF}[kind])
    held = faiss.downcast_index(made.storage) if kind == "hnsw" else made
    assert held.sq.code_size == 5 * nbytes
    if kind == "ivf":
        made.make_direct_map()
        made.nprobe = made.nlist
    x = new_vectors(keys).astype(np.float64)
    rounded = np.rint((x - new.offset) / 0.05) * 0.05 + new.offset if nbytes == 1 else x.astype(np.float16)
    place = {key: row for row, key in enumerate(faiss.vector_to_array(mapped.id_map).tolist())}
    found = made.reconstruct_n(0, len(keys))[[place[key] for key in keys]]
    np.testing.assert_allclose(found, rounded, atol=2e-5)
    distances, ids = mapped.search(new_vectors(keys), 1)
    assert ids.ravel().tolist() == keys
    np.testing.assert_allclose(distances[:, 0], ((x - rounded) ** 2).sum(axis=1), atol=1e-4)


def _nearest(metric, vectors):
    if metric == "l2":
        return range(len(vectors))
    return np.argmax(vectors @ vectors.T, axis=1)


def test_who_reads_the_path_with_faiss_finds_the_new_index_with_the_same_ids(file):
    save(file, faiss.IndexIDMap2(faiss.IndexFlatIP(8)), with_ids=True)
    with open_store(file) as store:
        fill(store)
        store.build_index(NEW)
        store.switch()
    index = faiss.read_index(str(file))
    assert (index.d, index.ntotal) == (5, len(IDS))
    np.testing.assert_allclose(index.reconstruct(2**40), new_vectors([2**40])[0], rtol=1e-6)


@pytest.mark.parametrize("back", [False, True])
def test_a_switch_that_was_killed_halfway_has_not_happened_and_can_be_done(file, back, monkeypatch):
    save(file, faiss.IndexFlatL2(8))
    with open_store(file) as store:
        served = store.served
        fill(store)
        store.build_index(NEW)
        if back:
            store.switch()
        change = store.switch_back if back else store.switch
        monkeypatch.setattr(os, "replace", _killed)
        with pytest.raises(KeyboardInterrupt):
            change()
        monkeypatch.undo()
    with open_store(file) as store:
        assert store.served == (NEW if back else served)
        assert store.count(store.served) == len(X)
        (store.switch_back if back else store.switch)()
        assert store.served == (served if back else NEW)
        assert store.count(store.served) == len(X)


def _killed(*_):
    raise KeyboardInterrupt


def test_an_index_is_not_served_with_the_keys_of_another(file):
    save(file, faiss.IndexFlatL2(8))
    keys = file.with_name("index.ids.txt")
    keys.write_text("\n".join(f"k{i:02d}" for i in range(len(X))))
    with open_store(file) as store:
        fill(store)
        store.build_index(NEW)
        keys.write_text("\n".join(f"k{i:02d}" for i in reversed(range(len(X)))))
        with pytest.raises(StoreError, match="build it"):
            store.switch()
        store.build_index(NEW)  # what was written is known by key, not by row
        store.switch()
        found, vectors = read(store, store.served)
        np.testing.assert_allclose(vectors, new_vectors(found), rtol=1e-6)
        keys.write_text("\n".join(f"k{i:02d}" for i in range(len(X))))
        with pytest.raises(StoreError, match="keys"):
            store.switch_back()


def test_the_index_that_will_be_served_is_the_one_that_is_searched(file):
    """Once it is built, an approximate index is asked, not the parts that it was made of; until more is written."""
    save(file, faiss.IndexHNSWFlat(8, 12))
    new = Field("new", 5, "float32", "l2")
    with open_store(file) as store:
        keys = fill(store, new, but=1)
        assert store._rows(store.roles(), new).is_exact
        store.build_index(new)
        assert not store._rows(store.roles(), new).is_exact
        store.write(new, pa.array([len(keys)]), new_vectors([len(keys)]))
        assert store.count(new) == len(X)
        assert store._rows(store.roles(), new).is_exact
        with pytest.raises(StoreError, match="build it"):
            store.switch()
        store.build_index(new)
        store.switch()
        assert store.count(store.served) == len(X)


def test_a_new_field_has_nothing_of_one_that_was_not_dropped_to_the_end(file, monkeypatch):
    save(file, faiss.IndexFlatIP(8))
    with open_store(file) as store:
        fill(store)
        store.build_index(NEW)
        monkeypatch.setattr(type(store._files.parts), "remove", _killed)
        with pytest.raises(KeyboardInterrupt):
            store.drop_new()
        monkeypatch.undo()
    with open_store(file) as store:
        assert store.new is None
        store.add(NEW)
        assert store.count(NEW) == 0
        assert read(store, NEW)[0] == []


def test_orphans_leave_an_index_whose_ids_are_its_keys(file):
    save(file, faiss.IndexIDMap2(faiss.IndexFlatIP(8)), with_ids=True)
    with open_store(file) as store:
        fill(store)
        store.build_index(NEW)
        index = faiss.read_index(str(file))
        index.remove_ids(np.asarray([5, 7]))
        faiss.write_index(index, str(file))
        assert store.remove_orphans(NEW) == 2
        assert store.remove_orphans(NEW) == 0
        store.switch()
        assert read(store, store.served)[0] == sorted(set(IDS.tolist()) - {5, 7})


def test_a_keys_file_that_is_too_short_is_refused(file):
    save(file, faiss.IndexFlatL2(8))
    file.with_name("index.ids.txt").write_text("a\nb")
    with pytest.raises(StoreError, match="2 rows"):
        open_store(file)


def test_half_precision_is_kept_as_such(file):
    save(file, faiss.IndexFlatIP(8))
    new = Field("half", 5, "float16", "inner")
    with open_store(file) as store:
        keys = fill(store, new)
        np.testing.assert_array_equal(read(store, new)[1], new_vectors(keys).astype(np.float16))
        store.build_index(new)
        store.switch()
        found = read(store, store.served)[1]
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, new_vectors(keys).astype(np.float16))


@pytest.mark.parametrize("field", [Field("b", 8, "bit", "hamming"), Field("i", 8, "int8"), Field("index", 8)])
def test_fields_that_it_cannot_hold_are_refused(file, field):
    save(file, faiss.IndexFlatIP(8))
    with open_store(file) as store, pytest.raises(StoreError):
        store.add(field)
    assert not file.with_name("index.faiss.relatent").exists()


def test_keys_of_another_kind_are_refused(file):
    save(file, faiss.IndexFlatIP(8))
    with open_store(file) as store:
        store.add(NEW)
        with pytest.raises(StoreError, match="int64"):
            store.write(NEW, pa.array(["0"]), new_vectors(["0"]))


def test_what_is_no_index_is_refused(file):
    file.write_bytes(b"nothing of the kind")
    with pytest.raises(StoreError, match=r"index\.faiss"):
        open_store(file)


def test_an_index_that_cannot_give_its_vectors_back_says_so(file):
    index = faiss.index_factory(8, "ITQ8,LSH")
    index.train(X)
    save(file, index)
    with open_store(file) as store, pytest.raises(StoreError, match=r"IndexPreTransform.*not implemented"):
        read(store, store.served)
