"""The loading code for a hub, on a tiny model and a tiny data set in local folders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from experiments.data import groups, hub

TEXTS = ["who wrote this", "where is it", "who was there", "where did it go"]


@pytest.fixture
def bert(tmp_path):
    """A language model of two layers with random weights, and its tokenizer."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path / "bert"
    folder.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({w for text in TEXTS for w in text.split()})]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=len(words), **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture
def questions(tmp_path):
    pytest.importorskip("datasets")
    folder = tmp_path / "questions"
    folder.mkdir()
    table = pa.table({"text": TEXTS * 5, "coarse_label": [0, 1] * 10})
    for split in ("train", "test"):
        pq.write_table(table, folder / f"{split}.parquet")
    return str(folder)


def test_texts_go_through_every_model(bert, questions, monkeypatch):
    local = replace(hub.TEXTS["trec"], path=questions, train=12, test=6)
    monkeypatch.setitem(hub.TEXTS, "trec", local)
    found = hub.build("trec", {"a": bert, "b": bert})
    assert {name: x.shape for name, x in found.spaces.items()} == {"a": (18, 16), "b": (18, 16)}
    assert np.array_equal(found.spaces["a"], found.spaces["b"])
    assert found.train == 12
    assert found.labels is not None
    first = [text.split()[0] for text in local.read()[0]]
    assert [("who", "where")[label] for label in found.labels] == first


def test_models_without_a_hub_are_refused():
    with pytest.raises(SystemExit, match="--source packages"):
        hub.build("emoji")


def test_the_source_decides(monkeypatch, tmp_path):
    monkeypatch.setenv("RELATENT_CACHE", str(tmp_path))
    monkeypatch.setattr(hub, "build", lambda name: groups.Group({name: np.zeros((2, 2), np.float32)}))
    token = groups.SOURCE.set("hub")
    try:
        assert list(groups.load_group("trec").spaces) == ["trec"]
    finally:
        groups.SOURCE.reset(token)
    assert (tmp_path / "spaces" / "trec, hub.npz").is_file()
