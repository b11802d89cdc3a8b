"""The index that will be served: built like the old one, and where it finds less, the setting that makes up for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.migrate.conftest import case_of
from tests.stores.case import Items

import relatent as rl
from relatent.migrate import Verification, apply_migration, verify_migration
from relatent.migrate.verify import recall
from relatent.stores import Address, Field, Store, open_store
from relatent.stores.lance_index import read_index

pytestmark = pytest.mark.stores

ROWS, DIM = 3_000, 32


def faiss_index(url: str, kind: str) -> None:
    import faiss

    file = str(Address.parse(url).file)
    vectors = faiss.read_index(file).reconstruct_n(0, ROWS)
    index = faiss.index_factory(DIM, kind, faiss.METRIC_INNER_PRODUCT)
    if kind.startswith("HNSW"):
        index.hnsw.efConstruction, index.hnsw.efSearch = 20, 12
    else:
        index.nprobe = 2
    index.train(vectors)
    index.add(vectors)
    faiss.write_index(index, file)


def pgvector_index(url: str, kind: str) -> None:
    from psycopg import sql
    from tests.stores.cases.pgvector import _connected

    with _connected() as cursor:
        table = sql.Identifier(Address.parse(url).name)
        cursor.execute(sql.SQL("CREATE INDEX ON {} USING " + kind).format(table))
        cursor.execute(sql.SQL("ANALYZE {}").format(table))


def edge_index(url: str, kind: str) -> None:
    import qdrant_edge as edge

    hnsw = edge.HnswIndexConfig(m=4, ef_construct=12, full_scan_threshold=10)
    params = edge.EdgeVectorParams(size=DIM, distance=edge.Distance.Cosine, hnsw_config=hnsw)
    optimizers = edge.EdgeOptimizersConfig(indexing_threshold=10, default_segment_number=1)
    config = edge.EdgeConfig(vectors={"text": params}, optimizers=optimizers)
    shard = edge.EdgeShard.load(str(Address.parse(url).file), config)
    shard.optimize()
    shard.close()


def lance_index(url: str, kind: str) -> None:
    import lance

    table, options = lance.dataset(str(Address.parse(url).file)), {"num_partitions": 16}
    table.optimize.compact_files()
    if "HNSW" in kind:
        options = {"num_partitions": 1, "m": 4, "ef_construction": 12}
    table.create_index("vector", kind, metric="cosine", **options)


HNSW = "hnsw (embedding vector_cosine_ops) WITH (m = 3, ef_construction = 8)"
INDEXES: dict[str, tuple[str, Callable[[str, str], None], str]] = {
    "faiss-hnsw": ("faiss", faiss_index, "HNSW4"),
    "faiss-ivf": ("faiss", faiss_index, "IVF32,Flat"),
    "pgvector-hnsw": ("pgvector", pgvector_index, HNSW),
    "pgvector-ivfflat": ("pgvector", pgvector_index, "ivfflat (embedding vector_cosine_ops) WITH (lists = 24)"),
    "qdrant-edge": ("qdrant-edge", edge_index, ""),
    "lance-hnsw": ("lance", lance_index, "IVF_HNSW_SQ"),
    "lance-ivf": ("lance", lance_index, "IVF_FLAT"),
}


def spaces() -> tuple[np.ndarray, np.ndarray]:
    """Old vectors near a few directions, and a linear map of them that is as wide in all: harder to index."""
    z = np.random.default_rng(0).normal(size=(ROWS, DIM))
    old = z * np.geomspace(1, 0.02, DIM) + 0.05
    return at_norm_1(old), at_norm_1(z)


def at_norm_1(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)


class Migration:
    """A store whose old index finds more than the new one."""

    def __init__(self, name: str, folder: Path, goal: str = "vectors") -> None:
        kind, build, how = INDEXES[name]
        case, (old, new) = case_of(kind), spaces()
        keys = [case.key(i) for i in range(ROWS)]
        self.url, self.work = case.create(folder, Items(keys, old, [""] * ROWS)), folder / "work"
        build(self.url, how)
        self.translator = folder / "t.safetensors"
        fitted = rl.Translator(map="least_squares") if goal == "vectors" else rl.Translator(goal)
        fitted.fit(*((old[::3], new[::3]) if goal == "vectors" else (new[::3], old[::3]))).save(self.translator)
        self.apply()

    def apply(self) -> None:
        apply_migration(self.translator, self.url, work=self.work, accept=True, progress=False)

    def verify(self, **options: Any) -> Verification:
        return verify_migration(self.url, work=self.work, **options)


@pytest.fixture(scope="module", params=INDEXES)
def migration(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Migration:
    return Migration(request.param, tmp_path_factory.mktemp("effort"))


def search_check(found: Verification) -> str:
    return next(check.found for check in found.checks if check.name == "search")


def parameters(store: Any, of: Field) -> Any:
    """Return how the index of a field was built, by what its engine says."""
    with store._session() as session:
        kind = type(store).__name__
        if kind == "PgvectorStore":
            index = store._index(session, of)
            return index.method, index.options
        if kind == "EdgeStore":
            return store._engine._config()["vectors"][of.name]["hnsw_config"]
        if kind == "LanceStore":
            index = read_index(session.table, session.column(of))
            return index.kind, index.options(of.dim)
        rows = store._rows(session.roles, of)
        if rows.effort.setting == "nprobe":
            return "IVF", rows._inner.nlist, rows._inner.nprobe
        hnsw = rows._inner.hnsw
        return "HNSW", hnsw.nb_neighbors(1), hnsw.efConstruction, hnsw.efSearch


def test_the_new_index_is_built_like_the_old_one(migration):
    with open_store(migration.url) as store:
        found = parameters(store, store.new)
        assert found == parameters(store, store.served)
        with store.rehearsal(1_000) if type(store).rehearsal is not Store.rehearsal else nullcontext() as url:
            if url is not None and not url.startswith("lance"):  # whose partitions are fewer
                with open_store(url) as copy:
                    assert parameters(copy, copy.served) == found


def test_the_setting_that_is_printed_reaches_the_old_recall(migration):
    found = migration.verify()
    words = search_check(found)
    assert [check.name for check in found.checks if not check.passed] == ["search"], words
    old = float(re.search(r"old index ([\d.]+)", words)[1])
    setting, value, reached = re.search(r"([\w.]+) = (\d+) reaches ([\d.]+) at [\d.e+-]+ of the old", words).groups()
    assert float(reached) >= old - 0.02
    assert f"and verify with effort {value}" in words
    again = migration.verify(effort=int(value))
    assert again.passed, str(again)
    with open_store(migration.url) as store:
        about = store.effort(store.new)
        assert (about.setting, about.value < int(value) <= about.maximum) == (setting, True)
        assert_effort_helps(store, int(value), float(reached))


def assert_effort_helps(store: Store, value: int, reached: float) -> None:
    """Also for other items than those that it was found with."""
    queries = spaces()[1][5::31]
    exact = store.search(queries, 10, of=store.new, exact=True)
    plain, more = (recall(store.search(queries, 10, of=store.new, effort=n), exact) for n in (None, value))
    assert more > plain
    assert more > reached - 0.1


def test_where_no_setting_reaches_it_the_index_must_be_denser(migration, monkeypatch):
    with open_store(migration.url) as store:
        about = store.effort(store.new)
    monkeypatch.setattr("relatent.migrate.verify.MAX_EFFORT", about.value + 1)
    words = search_check(migration.verify())
    assert (
        f"no {about.setting} up to {about.value + 1} reaches the old recall: {about.denser}, and verify again" in words
    )


@pytest.mark.parametrize("name", ["faiss-hnsw", "pgvector-hnsw"])
def test_a_graph_by_inner_products_does_not_serve_a_two_sided_translator(tmp_path, name):
    """Its links are those of items among each other: stored vectors find their neighbors, and queries do not."""
    migration = Migration(name, tmp_path, "retrieval")
    assert "verify with queries of the new model" in search_check(migration.verify())
    asked = rl.load(migration.translator).transform(spaces()[1][5::31])
    with open_store(migration.url) as store:
        stored = next(store.scan(store.new)).vectors[5::31]
        own, theirs = (
            recall(store.search(x, 10, of=store.new), store.search(x, 10, of=store.new, exact=True))
            for x in (stored, asked)
        )
    assert theirs < 0.5 < own
    words = search_check(migration.verify(queries=rl.Space(spaces()[1])))
    assert float(re.search(r"new index ([\d.]+)", words)[1]) < 0.5
    if name.startswith("faiss"):  # PostgreSQL reads the whole table where it is asked to examine a third of it
        assert "Search without an index, or fit vectors" in words


def test_what_chroma_sets_for_a_collection_only_is_told(tmp_path):
    case: Any = case_of("chroma")
    (old, new), keys = spaces(), [case.key(i) for i in range(ROWS)]
    index = {"space": "cosine", "ef_search": 10, "max_neighbors": 4, "ef_construction": 12}
    with case.client(tmp_path) as client:
        client.create_collection("items", configuration={"hnsw": index}, embedding_function=None)
    case.insert(case.url(tmp_path), Items(keys, old, [""] * ROWS))
    rl.Translator(map="least_squares").fit(old[::3], new[::3]).save(tmp_path / "t.safetensors")
    given = {"work": tmp_path / "work", "progress": False}
    apply_migration(tmp_path / "t.safetensors", case.url(tmp_path), accept=True, **given)
    assert "a search has no setting to find more: collection.modify" in search_check(
        verify_migration(case.url(tmp_path), **given)
    )
    with case.client(tmp_path) as client:
        added = client.get_collection("items.items_new", embedding_function=None)
        assert {name: added.configuration["hnsw"][name] for name in index} == index
        added.modify(configuration={"hnsw": {"ef_search": 400}})
    assert verify_migration(case.url(tmp_path), **given).passed


def test_a_denser_index_that_was_built_as_told_is_kept(tmp_path, monkeypatch):
    migration = Migration("pgvector-hnsw", tmp_path)
    monkeypatch.setattr("relatent.migrate.verify.MAX_EFFORT", 41)
    words = search_check(migration.verify())
    name, how = re.search(r"drop the index (.+) and create it again (USING .+ WITH \(.+\)), and verify", words).groups()
    assert "m = 6, ef_construction = 16" in how
    from psycopg import sql
    from tests.stores.cases.pgvector import _connected

    with open_store(migration.url) as store, _connected() as cursor:
        index, place = sql.Identifier(name), store._table.beside(store.new.name)
        cursor.execute(sql.SQL("DROP INDEX {}").format(index))
        how = how.replace("m = 6, ef_construction = 16", "m = 24, ef_construction = 120")
        cursor.execute(sql.SQL("CREATE INDEX {} ON {} " + how).format(index, place))
    migration.apply()
    assert migration.verify().passed
    with open_store(migration.url) as store:
        assert parameters(store, store.new) == ("hnsw", ("m=24", "ef_construction=120"))
