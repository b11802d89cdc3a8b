"""Every store: which field is served is read once per operation, and what relatent 0.1 noted of it is still read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.migrate.conftest import make_task
from tests.migrate.steps import ROWS
from tests.stores.case import as_keys
from tests.stores.steps import NEW, NEXT, fill, new_vectors, read

from relatent.migrate import plan_migration
from relatent.stores import Field, Roles, Shard, open_store


def operations(store, key):
    """Every operation, in an order in which all of them can be done; the names are those of the methods."""
    served, queries = store.served, np.ones((2, 8), np.float32)
    yield "add", lambda: store.add(NEW)
    yield "add", lambda: store.add(NEW)
    yield "write", lambda: store.write(NEW, as_keys([key]), new_vectors([key]))
    yield "write", lambda: store.write(NEW, as_keys([key]), new_vectors([key]))
    yield "flush", store.flush
    for of in (served, NEW):
        yield "count", lambda of=of: store.count(of)
        yield "count", lambda of=of: store.count(of, Shard(key, None))
        yield "scan", lambda of=of: list(store.scan(of, rows=5, columns=None))
    yield "write", lambda: store.write(NEW, as_keys([key]), new_vectors([key]))
    yield "shards", lambda: store.shards(5)
    yield "state", lambda: store.state(Shard())
    yield "search", lambda: store.search(queries, 3)
    yield "search", lambda: store.search(queries[:, :5], 3, of=NEW, exact=True)
    yield "remove_orphans", lambda: store.remove_orphans(NEW)
    yield "build_index", lambda: store.build_index(NEW)
    for change in ("switch", "switch_back", "drop_new"):
        yield change, getattr(store, change)
    yield "add", lambda: store.add(NEXT)
    yield "build_index", lambda: store.build_index(NEXT)
    yield "switch", store.switch
    yield "drop_old", store.drop_old
    yield "roles", store.roles


def test_an_operation_reads_the_roles_once(case, store, monkeypatch):
    sessions, begin = [], type(store)._session
    monkeypatch.setattr(type(store), "_session", lambda self, *given: sessions.append(given) or begin(self, *given))
    for name, operation in operations(store, case.key(3)):
        sessions.clear()
        operation()
        assert len(sessions) <= 1, name


@pytest.fixture
def note_reads(monkeypatch):
    """The reads of the note of a FAISS index."""
    reads, read_text = [], Path.read_text

    def counted(self, *given, **options):
        reads.extend([self] if self.name == "fields.json" else [])
        return read_text(self, *given, **options)

    monkeypatch.setattr(Path, "read_text", counted)
    return reads


@pytest.mark.parametrize("case", ["faiss"], indirect=True)
def test_an_operation_reads_the_note_of_an_index_once(case, store, note_reads):
    for name, operation in operations(store, case.key(3)):
        note_reads.clear()
        operation()
        assert len(note_reads) <= 1, name


def test_planning_does_not_read_the_note_for_every_few_rows(tmp_path, note_reads):
    task = make_task("faiss", tmp_path)
    plan_migration(task.translator, task.url)
    assert 0 < len(note_reads) < ROWS / 7


SERVED = Field("items", 8, "float32", "cosine")
NOTE = (
    '{"first": {"name": "items", "dim": 8, "dtype": "float32", "metric": "cosine", "provenance": {}, "scale": null,'
    ' "offset": 0.0}, "second": {"name": "new", "dim": 5, "dtype": "float32", "metric": "inner", "provenance":'
    ' {"translator": "a-to-b", "model": "b", "revision": "1"}, "scale": null, "offset": 0.0}, "switched": %s,'
    ' "dropping": %s}'
)


@pytest.mark.parametrize(
    ("note", "roles"),
    [
        (NOTE % ("false", "false"), Roles(SERVED, new=NEW)),
        (NOTE % ("true", "false"), Roles(NEW, old=SERVED)),
        (NOTE % ("true", "true"), Roles(NEW, old=SERVED, dropping=True)),
    ],
)
def test_the_note_of_the_roles_is_written_as_0_1_wrote_it(note, roles):
    assert Roles.of_note(json.loads(note)) == roles
    assert roles.note() == json.loads(note)


def test_a_note_from_before_codes_and_drops_is_read():
    note = json.loads(NOTE % ("true", "false"))
    del note["dropping"], note["first"]["scale"], note["first"]["offset"]
    assert Roles.of_note(note) == Roles(NEW, old=SERVED)


RECORDED = '"metric": "inner", "provenance": {"translator": "a-to-b", "model": "b", "revision": "1"}}'


@pytest.mark.parametrize("case", ["qdrant", "qdrant-alias", "qdrant-edge", "lance", "chroma"], indirect=True)
def test_what_0_1_recorded_in_the_store_itself_is_what_is_recorded_now(case, store, url):
    """The record of a new field, as the library of each store shows it."""
    fill(store)
    served = store.served
    store.close()
    name = type(case).__name__
    if name == "Lance":
        import lance

        found = lance.dataset(str(store.address.file)).schema.field("new").metadata[b"relatent.added"]
        assert json.loads(found) == json.loads('{"name": "new", "serves": "vector", ' + RECORDED)
    elif name == "Chroma":
        with case.client(Path(store.address.path)) as client:
            found = client.get_collection("items.new", embedding_function=None).metadata["relatent.added"]
        assert json.loads(found) == json.loads('{"name": "new", "serves": "items", "dim": 5, ' + RECORDED)
    else:
        found = noted(store)
        beside = {"base": store._base, "vector": store._vector} if name == "QdrantAlias" else {}
        assert found == {**Roles(served, new=NEW).note(), **beside}
    with open_store(url) as store:
        assert (store.served, store.new) == (served, NEW)
        assert len(read(store, NEW)[0]) == store.count(served)


def noted(store):
    if store.address.scheme == "qdrant+edge":
        return json.loads((store.address.file / "relatent.json").read_text("utf8"))
    from qdrant_client import QdrantClient

    client = QdrantClient(path=store.address.options["path"])
    try:
        return client.get_collection(store._engine.name).config.metadata["relatent"]
    finally:
        client.close()
