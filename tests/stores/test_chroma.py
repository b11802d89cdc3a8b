"""What Chroma has of its own: two renames, copies of documents, a server that goes away and comes back."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from tests.stores.case import Items, as_keys
from tests.stores.steps import NEW, fill, new_vectors, read, snapshot

from relatent.stores import Field, StoreError, open_store

pytest.importorskip("chromadb")

from tests.stores.cases.chroma import Chroma, ChromaHttp
from tests.stores.chroma_server import Server, shared_server

ITEMS = Items.draw([f"{i:03d}" for i in range(40)])


@pytest.fixture
def url(tmp_path):
    return Chroma().create(tmp_path, ITEMS)


@pytest.mark.parametrize("change", ["switch", "switch_back"])
@pytest.mark.parametrize("kind", [Chroma, ChromaHttp])
def test_a_switch_that_dies_between_its_renames_is_undone_by_the_next_who_opens(kind, change, tmp_path):
    url = kind().create(tmp_path, ITEMS)
    with open_store(url) as store:
        served, before = store.served, snapshot(store, store.served)
        fill(store)
        if change == "switch_back":
            store.switch()
    died = (
        "import os, sys\nfrom relatent.stores import open_store\n"
        "from relatent.stores.chroma import Connection\n"
        "rename = Connection.rename\n"
        "def once(*given): rename(*given); os.kill(os.getpid(), 9)\n"
        "store = open_store(sys.argv[1]); Connection.rename = once; getattr(store, sys.argv[2])()"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", died, url, change], check=False).returncode == -9
    with open_store(url) as store:
        assert (store.served, store.new, store.old) == (served, NEW, None)
        assert snapshot(store, store.served) == before
        assert store.count(NEW) == len(ITEMS.keys)
        store.switch()
        assert (store.served, store.old) == (NEW, served)


def test_a_rename_that_is_refused_leaves_things_as_they_were(url, monkeypatch):
    with open_store(url) as store:
        served = store.served
        fill(store)
        rename, calls = store._connection.rename, []

        def fails(collection, name):
            calls.append(name)
            if len(calls) == 2:
                raise StoreError("the second rename")
            rename(collection, name)

        monkeypatch.setattr(store._connection, "rename", fails)
        with pytest.raises(StoreError, match="the second rename"):
            store.switch()
        assert calls == ["items.old", "items", "items"]
        assert (store.served, store.new) == (served, NEW)


def test_the_companion_is_a_whole_collection(url, tmp_path):
    with open_store(url) as store:
        fill(store)
        store.switch()
    with Chroma().collection(url) as collection:
        found = collection.get(ids=["007"], include=["documents", "metadatas", "embeddings"])
        assert collection.query(query_embeddings=new_vectors(["007"]), n_results=1)["ids"]
    assert found["documents"] == ["text of '007'"]
    assert found["metadatas"] == [{"title": "text of '007'"}]
    np.testing.assert_allclose(found["embeddings"], new_vectors(["007"]), rtol=1e-6)


def test_items_without_documents_and_metadata_of_several_types(tmp_path):
    url = Chroma().create(tmp_path, ITEMS)
    with Chroma().collection(url) as collection:
        collection.add(ids=["bare"], embeddings=np.ones((1, 8), np.float32))
        collection.update(ids=["001", "002"], metadatas=[{"title": 3}, {"more": True}])
    with open_store(url) as store:
        before = snapshot(store, store.served)
        fill(store)
        (chunk,) = store.scan(NEW, columns=None)
        assert chunk.others.column_names == ["id", "document", "more", "title"]
        assert chunk.others["title"].to_pylist()[1:3] == ["3", "\"text of '002'\""]
        assert chunk.others["more"].to_pylist()[:3] == [None, None, True]
        assert snapshot(store, store.served) == before


def test_what_the_engine_cannot_hold_is_refused(url):
    with open_store(url) as store:
        for odd in (Field("new", 5, "float16"), Field("old", 5), Field("items", 5), Field("a/b", 5)):
            with pytest.raises(StoreError):
                store.add(odd)
        store.add(NEW)
        with pytest.raises(StoreError, match="int64"):
            store.write(NEW, as_keys([3]), np.ones((1, 5)))


def test_a_server_that_was_killed_and_started_again(tmp_path):
    server = Server(tmp_path)
    try:
        client = server.client()
        collection = client.create_collection("items", embedding_function=None)
        collection.add(ids=ITEMS.keys, embeddings=ITEMS.vectors)
        with open_store(f"chroma://:secret@127.0.0.1:{server.port}/items") as store:
            keys = fill(store, but=20)
            server.stop()
            with pytest.raises(StoreError) as refused:
                store.write(NEW, as_keys(ITEMS.keys), new_vectors(ITEMS.keys))
            assert "secret" not in str(refused.value)
            server.start()
            assert store.count(NEW) == len(keys)
            store.write(NEW, as_keys(ITEMS.keys), new_vectors(ITEMS.keys))
            found, vectors = read(store, NEW)
            assert found == sorted(ITEMS.keys)
            np.testing.assert_allclose(vectors, new_vectors(found), rtol=1e-6)
    finally:
        server.stop()


def test_a_server_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1/"):
        open_store("chroma://:secret@127.0.0.1:1/items")


def test_a_lock_of_another_machine_is_respected(tmp_path):
    url = ChromaHttp().create(tmp_path, ITEMS)
    with open_store(url) as store:
        name = f"{store.address.name}.lock"
        shared_server().client().create_collection(name, metadata={"relatent.machine": "another"})
        with pytest.raises(StoreError, match="nother"), store.lock():
            pass
        shared_server().client().delete_collection(name)
        with store.lock():
            pass
