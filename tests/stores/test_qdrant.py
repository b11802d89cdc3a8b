"""What Qdrant has of its own: names of vectors, ids, payload without a schema, aliases, and an engine for one alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from qdrant_client import QdrantClient, models
from tests.stores.case import KEYS, Items
from tests.stores.cases.qdrant import QdrantAlias, QdrantEdge
from tests.stores.steps import NEW, fill, new_vectors, read

import relatent as rl
from relatent.migrate import apply_migration
from relatent.spaces.quantize import Quantizer
from relatent.stores import Field, StoreError, open_store

SIZE = models.VectorParams(size=2, distance=models.Distance.DOT)


@pytest.fixture
def client(tmp_path):
    """A function of what to do with a client on a folder, which only one at a time can open."""

    def run(work):
        opened = QdrantClient(path=str(tmp_path / "qdrant"))
        try:
            return work(opened)
        finally:
            opened.close()

    return run


@pytest.fixture
def url(tmp_path):
    return f"qdrant:///items?path={tmp_path}/qdrant"


def points(*ids, vectors=None, payload=None):
    vector = vectors or {"": [1.0, 2.0]}
    return [models.PointStruct(id=key, vector=vector, payload=payload) for key in ids]


def test_the_served_vector_is_named_where_there_are_several(client, url):
    client(lambda c: c.create_collection("items", {"a": SIZE, "b": SIZE}))
    client(lambda c: c.upsert("items", points(1, vectors={"a": [1.0, 2.0], "b": [3.0, 4.0]})))
    with pytest.raises(StoreError, match=r"a, b.*vector="):
        open_store(url)
    with open_store(url + "&vector=b") as store:
        assert store.served.name == "b"
        assert read(store, store.served)[1].tolist() == [[3.0, 4.0]]
        for taken in ("a", "b"):
            with pytest.raises(StoreError, match="another name"):
                store.add(Field(taken, 3))


def test_a_distance_that_has_no_score_here_is_refused(client, url):
    config = models.VectorParams(size=2, distance=models.Distance.MANHATTAN)
    client(lambda c: c.create_collection("items", config))
    with pytest.raises(StoreError, match="Manhattan"):
        open_store(url)


def test_codes_without_a_scale_are_read_as_they_are(client, url, tmp_path):
    """A translator that was fitted on the codes of one model takes a store of them to the vectors of another."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6)) + np.arange(6)
    codes = Quantizer.fit(x, "uint8").encode(x)
    y = (x @ np.linalg.qr(rng.normal(size=(6, 6)))[0]).astype(np.float32)
    rl.Translator(map="affine").fit(codes.astype(np.float32), y).save(tmp_path / "t.safetensors")
    config = models.VectorParams(size=6, distance=models.Distance.DOT, datatype=models.Datatype.UINT8)
    client(lambda c: c.create_collection("items", config))
    stored = [models.PointStruct(id=i, vector=row) for i, row in enumerate(codes.tolist())]
    client(lambda c: c.upsert("items", stored))
    with open_store(url) as store:
        assert (store.served.dtype, store.served.dim) == ("uint8", 6)
        found = read(store, store.served)[1]
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, codes)
    apply_migration(tmp_path / "t.safetensors", url, work=tmp_path / "work", progress=False)
    with open_store(url) as store:  # of cosine, so that Qdrant keeps it at norm 1; codes are off by half a step
        cosines = np.einsum("ij,ij->i", read(store, store.new)[1], y) / np.linalg.norm(y, axis=1)
    assert cosines.min() > 0.99


def test_keys_that_can_be_no_ids_are_unknown_keys(client, url):
    client(lambda c: c.create_collection("items", SIZE))
    client(lambda c: c.upsert("items", points(1, 2)))
    with open_store(url) as store:
        store.add(NEW)
        store.write(NEW, pa.array([-1, 2]), new_vectors([-1, 2]))
        store.write(NEW, pa.array(["no id"]), new_vectors(["no id"]))
        assert read(store, NEW)[0] == [2]


def test_integers_and_uuids_in_one_collection_are_refused(client, url):
    client(lambda c: c.create_collection("items", SIZE))
    client(lambda c: c.upsert("items", points(1, KEYS["uuid"][0])))
    with open_store(url) as store, pytest.raises(StoreError, match="two kinds"):
        read(store, store.served)


def test_payload_without_a_schema_comes_as_columns(client, url):
    client(lambda c: c.create_collection("items", SIZE))
    client(lambda c: c.upsert("items", points(1, payload={"n": 1, "s": "a", "x": [1, 2], "mixed": 1})))
    client(lambda c: c.upsert("items", points(2, payload={"n": 2, "f": 0.5, "b": True, "mixed": "two"})))
    with open_store(url) as store:
        (chunk,) = store.scan(store.served, columns=None)
    assert chunk.others.to_pydict() == {
        "id": [1, 2],
        "b": [None, True],
        "f": [None, 0.5],
        "mixed": ["1", "two"],
        "n": [1, 2],
        "s": ["a", None],
        "x": ["[1, 2]", None],
    }


def test_applications_that_search_the_alias_change_nothing(client, tmp_path):
    url = QdrantAlias().create(tmp_path, Items.draw(KEYS["integer"]))

    def seen():
        return client(lambda c: (c.get_collection("live").config.params.vectors, c.scroll("live", limit=99)[0]))

    before = seen()
    with open_store(url) as store:
        keys = fill(store)
        store.switch()
    vectors, found = seen()
    assert (vectors.size, [point.id for point in found]) == (5, keys)
    assert [point.payload for point in found] == [point.payload for point in before[1]]
    with open_store(url) as store:
        store.switch_back()
    assert seen() == before


def test_a_migration_by_name_is_found_again_and_a_killed_add_is_finished(client, url):
    client(lambda c: c.create_collection("items", SIZE))
    client(lambda c: c.upsert("items", points(1, 2)))
    with open_store(url) as store:
        store.add(NEW)
    client(lambda c: c.delete_vector_name("items", "new"))  # as if it was killed between the note and the vector
    with open_store(url) as store:
        assert store.new == NEW
        store.add(NEW)
        fill(store)
        np.testing.assert_allclose(read(store, NEW)[1], new_vectors([1, 2]), rtol=1e-6)


def test_the_embedded_engine_is_open_in_one_process_at_a_time(tmp_path):
    url = QdrantEdge().create(tmp_path, Items.draw(KEYS["integer"]))
    code = "import sys; from relatent.stores import open_store; open_store(sys.argv[1])"
    with open_store(url):
        second = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert "StoreError: Another process" in second.stderr


def test_a_server_that_is_not_there_is_named_without_the_key(monkeypatch):
    monkeypatch.setenv("QDRANT_API_KEY", "secret-key")
    with (
        pytest.warns(UserWarning, match="insecure"),
        pytest.raises(StoreError, match=r"qdrant://localhost:9/items") as refused,
    ):
        open_store("qdrant://localhost:9/items")
    assert "secret-key" not in f"{refused.value}"


def test_an_api_key_in_the_url_is_refused_and_not_repeated():
    with pytest.raises(StoreError, match="environment") as refused:
        open_store("qdrant://localhost:9/items?api_key=secret-key")
    assert "secret-key" not in f"{refused.value}"


INDEXED = models.VectorParams(
    size=2,
    distance=models.Distance.DOT,
    hnsw_config=models.HnswConfigDiff(m=5, ef_construct=33),
    quantization_config=models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8)),
)


def test_a_new_vector_is_indexed_like_the_served_one(client, url, monkeypatch):
    client(lambda c: c.create_collection("items", INDEXED))
    asked = []
    with open_store(url) as store:
        folder = type(store._engine._client._client)
        update = folder.update_collection
        monkeypatch.setattr(folder, "update_collection", lambda *given, **o: (asked.append(o), update(*given, **o))[1])
        store.add(NEW)
    (options,) = [one["vectors_config"] for one in asked if one.get("vectors_config")]
    assert options["new"].hnsw_config == INDEXED.hnsw_config
    assert options["new"].quantization_config == INDEXED.quantization_config


def test_the_collection_beside_an_alias_is_indexed_like_the_first(client, url):
    client(lambda c: c.create_collection("items", INDEXED))
    alias = models.CreateAlias(collection_name="items", alias_name="live")
    client(lambda c: c.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)]))
    with open_store(url.replace("/items", "/live")) as store:
        store.add(NEW)
        with store.rehearsal(10) as copied, open_store(copied) as copy:
            params = copy._engine._vectors()[""]
    assert params.hnsw_config == INDEXED.hnsw_config
    params = client(lambda c: c.get_collection("items__new")).config.params.vectors
    assert (params.size, params.hnsw_config) == (5, INDEXED.hnsw_config)
    assert params.quantization_config == INDEXED.quantization_config


def test_on_a_server_a_copy_is_removed_with_all_that_was_made_of_it(client, url, monkeypatch):
    client(lambda c: c.create_collection("items", SIZE))
    with open_store(url) as store:
        engine = store._engine
        monkeypatch.setattr(engine, "_folder", None)  # as if it were a server's collection
        with engine.beside() as address:
            for name in (address.name, f"{address.name}__new"):
                engine.on(name).create_collection(store.served, "default", engine)
            assert engine.on(address.name).is_there()
        assert [one.name for one in engine._client.get_collections().collections] == ["items"]
