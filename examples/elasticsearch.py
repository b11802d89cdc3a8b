"""Elasticsearch, OpenSearch: a new index is filled by scroll and bulk, and an alias moves to it and back."""

import json
import os
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np

import relatent as rl

ROWS, OPEN = 500, "5m"
# Settings of an index that its copy takes over; the others are the cluster's own.
SETTINGS = ("number_of_shards", "number_of_replicas", "analysis", "similarity", "knn")


def ask(method: str, url: str, body: Any = None) -> Any:
    """Send a request, as JSON or, of a list, as lines of JSON. ELASTIC_API_KEY is the key, where one is needed."""
    lines = isinstance(body, list)
    data = None if body is None else "".join(json.dumps(one) + "\n" for one in (body if lines else [body])).encode()
    headers = {"Content-Type": "application/x-ndjson" if lines else "application/json"}
    if key := os.environ.get("ELASTIC_API_KEY"):
        headers["Authorization"] = f"ApiKey {key}"
    with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method), timeout=120) as response:
        return json.load(response)


def pages(url: str, index: str, query: dict[str, Any], source: Any = True) -> Iterator[list[dict[str, Any]]]:
    """Return the documents of an index as they were at one moment, page by page."""
    body = {"size": ROWS, "sort": ["_doc"], "query": query, "_source": source, "seq_no_primary_term": True}
    found = ask("POST", f"{url}/{index}/_search?scroll={OPEN}", body)
    try:
        while hits := found["hits"]["hits"]:
            yield hits
            found = ask("POST", f"{url}/_search/scroll", {"scroll": OPEN, "scroll_id": found["_scroll_id"]})
    finally:
        ask("DELETE", f"{url}/_search/scroll", {"scroll_id": [found["_scroll_id"]]})


def bulk(url: str, lines: list[Any]) -> int:
    """Write; return how many documents were. A conflict is one that is there already, as it is or newer."""
    items = [next(iter(one.values())) for one in ask("POST", f"{url}/_bulk", lines)["items"]] if lines else []
    failed = [one for one in items if one["status"] >= 400 and one["status"] not in (404, 409)]
    if failed:
        raise RuntimeError(f"{len(failed)} refused, the first with {json.dumps(failed[0])}.")
    return sum(one["status"] < 300 for one in items)


def vectors(hits: list[dict[str, Any]], field: str) -> np.ndarray:
    """Return the vectors of documents."""
    missing = next((hit["_id"] for hit in hits if not isinstance(hit["_source"].get(field), list)), None)
    if missing is not None:
        raise ValueError(
            f"Document {missing!r} came without the list {field!r}. Elasticsearch 9.2 and later leave vectors out: "
            'give source={"exclude_vectors": False}.'
        )
    return np.asarray([hit["_source"][field] for hit in hits], np.float32)


def create(url: str, old: str, new: str, field: str, dims: int) -> None:
    """Make an empty index like another, whose vectors have another dimension."""
    mappings = next(iter(ask("GET", f"{url}/{old}/_mapping").values()))["mappings"]
    index = next(iter(ask("GET", f"{url}/{old}/_settings").values()))["settings"]["index"]
    vector = mappings["properties"][field]
    vector["dims" if vector["type"] == "dense_vector" else "dimension"] = dims  # of OpenSearch: knn_vector
    settings = {name: index[name] for name in SETTINGS if name in index}
    ask("PUT", f"{url}/{new}", {"settings": {"index": settings}, "mappings": mappings})


def translate(url: str, old: str, new: str, field: str, translator: rl.Translator, source: Any = True) -> int:
    """Copy documents with translated vectors; return how many were new or had changed. Run it until that is none.

    The version of a copy is the number of the last change of its original: a repeated or older one is refused.
    """
    ask("POST", f"{url}/{old}/_refresh")
    vector = next(iter(ask("GET", f"{url}/{new}/_mapping").values()))["mappings"]["properties"][field]
    written = 0
    for hits in pages(url, old, {"exists": {"field": field}}, source):
        rows = translator.transform(vectors(hits, field))
        if vector.get("similarity") == "dot_product":  # which takes none but unit vectors
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        lines: list[Any] = []
        for hit, row in zip(hits, rows.tolist(), strict=True):
            about = {"_index": new, "_id": hit["_id"], "version": hit["_seq_no"] + 1, "version_type": "external"}
            routed = {"routing": hit["_routing"]} if "_routing" in hit else {}
            lines += [{"index": about | routed}, hit["_source"] | {field: row}]
        written += bulk(url, lines)
    return written


def remove_orphans(url: str, old: str, new: str) -> int:
    """Delete from the new index what was deleted from the old one; return how many."""
    ask("POST", f"{url}/{old},{new}/_refresh")
    removed = 0
    for hits in pages(url, new, {"match_all": {}}, source=False):
        query = {"ids": {"values": [hit["_id"] for hit in hits]}}
        found = ask("POST", f"{url}/{old}/_search", {"size": ROWS, "query": query, "_source": False})
        kept = {hit["_id"] for hit in found["hits"]["hits"]}
        gone = [hit for hit in hits if hit["_id"] not in kept]
        routed = [{"routing": hit["_routing"]} if "_routing" in hit else {} for hit in gone]
        removed += bulk(
            url, [{"delete": {"_index": new, "_id": hit["_id"]} | r} for hit, r in zip(gone, routed, strict=True)]
        )
    return removed


def switch(url: str, alias: str, old: str, new: str) -> None:
    """Move an alias in one step; with old and new exchanged, back."""
    moved = [{"remove": {"index": old, "alias": alias, "must_exist": True}}, {"add": {"index": new, "alias": alias}}]
    ask("POST", f"{url}/_aliases", {"actions": moved})


def fit(url: str, index: str, field: str, sample: rl.Space, source: Any = True) -> rl.Translator:
    """Fit on documents that the new model has embedded, too; the keys of the sample are their ids."""
    query = {"bool": {"filter": [{"ids": {"values": sample.keys.tolist()}}, {"exists": {"field": field}}]}}
    hits = [hit for page in pages(url, index, query, source) for hit in page]
    return rl.Translator().fit(rl.Space(vectors(hits, field), [hit["_id"] for hit in hits], index), sample)
