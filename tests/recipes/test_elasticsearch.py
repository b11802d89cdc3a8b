"""The recipe for Elasticsearch, on a stand-in that answers as its documentation says: never run on a real cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from examples import elasticsearch as recipe

import relatent as rl

DIM, NEW_DIM, ROWS = 6, 4, 40
TURN = np.random.default_rng(3).normal(size=(DIM, NEW_DIM))


class Cluster:
    """Indexes in memory behind the requests that the recipe may send; any other is an error."""

    def __init__(self, kind: str = "dense_vector", similarity: str | None = "cosine") -> None:
        size = {"dense_vector": "dims", "knn_vector": "dimension"}[kind]
        vector = {"type": kind, size: DIM} | ({"similarity": similarity} if similarity else {})
        mappings = {"properties": {"embedding": vector, "body": {"type": "text"}}}
        own = {"uuid": "x", "creation_date": "1", "number_of_shards": "2", "version": {"created": "1"}}
        self.indexes: dict[str, dict[str, Any]] = {"items-1": {"docs": {}, "mappings": mappings, "settings": own}}
        self.aliases = {"items": "items-1"}
        self.requests: list[tuple[str, str, Any]] = []
        self.changes, self.refused, self.leaves_vectors_out = 0, "", False
        self.scrolls: dict[str, list[Any]] = {}

    def put(self, key: str, vector: np.ndarray | None, body: str, **routed: str) -> None:
        """Write a document as an application does."""
        self.changes += 1
        source = {"body": body} | ({} if vector is None else {"embedding": vector.tolist()})
        self.indexes[self.aliases["items"]]["docs"][key] = {
            "_id": key,
            "_seq_no": self.changes,
            "_source": source,
        } | routed

    def vectors(self, index: str) -> dict[str, np.ndarray]:
        return {key: np.asarray(doc["_source"]["embedding"]) for key, doc in self.indexes[index]["docs"].items()}

    def answer(self, method: str, url: str, body: Any) -> Any:
        path, options = urlsplit(url).path.strip("/").split("/"), parse_qs(urlsplit(url).query)
        match method, path:
            case "GET", [index, ("_mapping" | "_settings") as what]:
                found = self.indexes[index]
                shown = (
                    {"mappings": found["mappings"]}
                    if what == "_mapping"
                    else {"settings": {"index": found["settings"]}}
                )
                return {index: shown}
            case "PUT", [index]:
                assert index not in self.indexes
                assert set(body["settings"]["index"]) == {"number_of_shards"}
                self.indexes[index] = {"docs": {}, "mappings": body["mappings"], "settings": body["settings"]["index"]}
                return {"acknowledged": True}
            case "POST", [indexes, "_refresh"]:
                assert set(indexes.split(",")) <= self.indexes.keys()
                return {}
            case "POST", ["_bulk"]:
                return {"errors": False, "items": [*self._written(iter(body))]}
            case "POST", ["_aliases"]:
                removed, added = body["actions"]
                assert self.aliases[removed["remove"]["alias"]] == removed["remove"]["index"]
                self.aliases[added["add"]["alias"]] = added["add"]["index"]
                return {"acknowledged": True}
            case "POST", [index, "_search"]:
                hits = self._found(index, body)
                assert len(hits) <= 10_000
                if "scroll" not in options:
                    return {"hits": {"hits": hits[: body["size"]]}}
                name = f"scroll {len(self.scrolls)}"
                self.scrolls[name] = [hits[at : at + body["size"]] for at in range(0, len(hits), body["size"])]
                return self._next(name)
            case "POST", ["_search", "scroll"]:
                return self._next(body["scroll_id"])
            case "DELETE", ["_search", "scroll"]:
                for name in body["scroll_id"]:
                    del self.scrolls[name]
                return {"succeeded": True}
        raise AssertionError(f"unexpected request: {method} {url}")

    def _next(self, name: str) -> Any:
        pages = self.scrolls[name]
        return {"_scroll_id": name, "hits": {"hits": pages.pop(0) if pages else []}}

    def _found(self, index: str, body: Any) -> list[Any]:
        filters = body["query"].get("bool", {}).get("filter", [body["query"]])
        hits = [dict(doc) for doc in self.indexes[index]["docs"].values()]
        for one in filters:
            match one:
                case {"exists": {"field": field}}:
                    hits = [hit for hit in hits if field in hit["_source"]]
                case {"ids": {"values": keys}}:
                    hits = [hit for hit in hits if hit["_id"] in keys]
                case _:
                    assert one == {"match_all": {}}
        for hit in hits:
            if body["_source"] is False:
                del hit["_source"]
            elif self.leaves_vectors_out and body["_source"] is True:
                hit["_source"] = {"body": hit["_source"]["body"]}
        return hits

    def _written(self, lines: Iterator[Any]) -> Iterator[Any]:
        for line in lines:
            ((action, about),) = line.items()
            docs, key = self.indexes[about["_index"]]["docs"], about["_id"]
            status = 200
            if action == "delete":
                status = 200 if docs.pop(key, None) else 404
            else:
                source, routed = next(lines), {"_routing": about["routing"]} if "routing" in about else {}
                assert (action, about["version_type"]) == ("index", "external")
                if key == self.refused:
                    status = 400
                elif key in docs and docs[key]["_version"] >= about["version"]:
                    status = 409
                else:
                    docs[key] = {"_id": key, "_version": about["version"], "_seq_no": 0, "_source": source} | routed
            yield {action: {"_id": key, "status": status}}


@pytest.fixture
def cluster() -> Cluster:
    return filled(Cluster())


def filled(cluster: Cluster) -> Cluster:
    rng = np.random.default_rng(0)
    for key in range(ROWS):
        routed = {"_routing": "one"} if key % 5 == 0 else {}
        cluster.put(f"doc {key}", rng.normal(size=DIM), f"body {key}", **routed)
    cluster.put("no vector", None, "body")
    return cluster


@pytest.fixture
def url(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(recipe, "ROWS", 7)
    yield from served(cluster)


def served(cluster: Cluster) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
            lines = self.headers["Content-Type"] == "application/x-ndjson"
            assert lines is self.path.endswith("/_bulk")
            assert not text or text.endswith("\n")
            body = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text or "null")
            cluster.requests.append((self.command, self.path, self.headers["Authorization"]))
            try:
                answer, status = cluster.answer(self.command, self.path, body), 200
            except Exception as error:  # noqa: BLE001 (whatever it is, the client is told)
                answer, status = {"error": repr(error)}, 400
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 (names of the base class)

        def log_message(self, *given: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def translator() -> rl.Translator:
    x = np.random.default_rng(1).normal(size=(50, DIM))
    return rl.Translator(map="affine").fit(x, x @ TURN)


def migrate(url: str, translator: rl.Translator) -> int:
    recipe.create(url, "items-1", "items-2", "embedding", NEW_DIM)
    return recipe.translate(url, "items-1", "items-2", "embedding", translator)


def test_every_document_is_copied_with_its_translated_vector(cluster, url, translator, monkeypatch):
    monkeypatch.setenv("ELASTIC_API_KEY", "secret")
    before = json.dumps(cluster.indexes["items-1"])
    assert migrate(url, translator) == ROWS
    assert json.dumps(cluster.indexes["items-1"]) == before
    old, new = cluster.indexes["items-1"]["docs"], cluster.indexes["items-2"]
    assert new["mappings"]["properties"]["embedding"] == {
        "type": "dense_vector",
        "dims": NEW_DIM,
        "similarity": "cosine",
    }
    for key, doc in new["docs"].items():
        given = np.asarray([old[key]["_source"]["embedding"]], np.float32)
        np.testing.assert_allclose([doc["_source"]["embedding"]], translator.transform(given), atol=1e-5)
        assert doc["_source"]["body"] == old[key]["_source"]["body"]
        assert doc.get("_routing") == old[key].get("_routing")
    assert set(old) - set(new["docs"]) == {"no vector"}
    assert cluster.scrolls == {}  # closed
    assert {key for _, _, key in cluster.requests} == {"ApiKey secret"}


def test_passes_copy_what_has_changed_and_remove_what_is_gone(cluster, url, translator):
    migrate(url, translator)
    cluster.put("doc 3", np.ones(DIM), "changed")
    cluster.put("doc new", np.ones(DIM), "added")
    for key in ("doc 4", "doc 5"):
        del cluster.indexes["items-1"]["docs"][key]
    assert recipe.translate(url, "items-1", "items-2", "embedding", translator) == 2
    assert recipe.translate(url, "items-1", "items-2", "embedding", translator) == 0
    assert recipe.remove_orphans(url, "items-1", "items-2") == 2
    assert recipe.remove_orphans(url, "items-1", "items-2") == 0
    found = cluster.vectors("items-2")
    assert found.keys() == cluster.indexes["items-1"]["docs"].keys() - {"no vector"}
    np.testing.assert_allclose(found["doc 3"], translator.transform(np.ones((1, DIM), np.float32))[0], atol=1e-5)
    assert cluster.indexes["items-2"]["docs"]["doc 3"]["_source"]["body"] == "changed"


def test_the_alias_moves_in_one_request_and_back(cluster, url, translator):
    migrate(url, translator)
    before = len(cluster.requests)
    recipe.switch(url, "items", "items-1", "items-2")
    assert (cluster.aliases, len(cluster.requests) - before) == ({"items": "items-2"}, 1)
    recipe.switch(url, "items", "items-2", "items-1")
    assert cluster.aliases == {"items": "items-1"}
    with pytest.raises(OSError, match="400"):  # it is not there
        recipe.switch(url, "items", "items-2", "items-1")


def test_a_refused_document_stops_it_and_is_named(cluster, url, translator):
    cluster.refused = "doc 9"
    with pytest.raises(RuntimeError, match=r'1 refused.*"doc 9".*400'):
        migrate(url, translator)
    cluster.refused = ""
    assert recipe.translate(url, "items-1", "items-2", "embedding", translator) > 0  # and it resumes
    assert len(cluster.indexes["items-2"]["docs"]) == ROWS


def test_vectors_that_are_left_out_of_the_source_are_asked_for(cluster, url, translator):
    cluster.leaves_vectors_out = True
    with pytest.raises(ValueError, match="exclude_vectors"):
        migrate(url, translator)
    asked = {"exclude_vectors": False}
    assert recipe.translate(url, "items-1", "items-2", "embedding", translator, source=asked) == ROWS


@pytest.mark.parametrize(("kind", "similarity"), [("dense_vector", "dot_product"), ("knn_vector", None)])
def test_other_kinds_of_vectors(kind, similarity, translator, monkeypatch):
    """Elasticsearch compares unit vectors only by dot_product; OpenSearch has another name for the dimension."""
    monkeypatch.setattr(recipe, "ROWS", 7)
    cluster = filled(Cluster(kind, similarity))
    served_at = served(cluster)
    migrate(next(served_at), translator)
    next(served_at, None)
    vector = cluster.indexes["items-2"]["mappings"]["properties"]["embedding"]
    assert NEW_DIM in vector.values()
    assert DIM not in vector.values()
    norms = np.linalg.norm([*cluster.vectors("items-2").values()], axis=1)
    assert np.allclose(norms, 1) is (similarity == "dot_product")


def test_fit_takes_the_documents_that_the_new_model_has_embedded(cluster, url):
    old = {
        k: np.asarray(d["_source"]["embedding"])
        for k, d in cluster.indexes["items-1"]["docs"].items()
        if k != "no vector"
    }
    keys = [*old][5:]
    sample = rl.Space(np.asarray([old[key] for key in keys]) @ TURN, keys, "new")
    fitted = recipe.fit(url, "items-1", "embedding", sample)
    assert fitted.n_pairs_ == len(keys)
    x = np.asarray([old[key] for key in [*old][:5]])
    np.testing.assert_allclose(fitted.transform(x), x @ TURN, rtol=0.05, atol=0.05)
