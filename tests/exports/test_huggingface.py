import json

import numpy as np
import pytest
from huggingface_hub import ModelCard
from tests.exports.translators import fitted, nonlinear, spaces

import relatent as rl
from relatent.exports import export


@pytest.mark.parametrize("make", [lambda: fitted("retrieval", "digits"), lambda: nonlinear("digits")])
def test_the_folder_gives_the_same_translator(make, tmp_path):
    x, _ = spaces("digits")
    t = make()
    export(t, tmp_path / "hub", "huggingface")
    config = json.loads((tmp_path / "hub" / "config.json").read_text())
    read = rl.load(tmp_path / "hub" / config["file"])
    np.testing.assert_array_equal(read.transform(x), t.transform(x))
    assert config["dims"] == [t.n_features_in_, t.map_.width]


def test_the_card_tells_scores_limits_and_what_is_given_away(tmp_path):
    x, y = spaces("digits")
    keys = [f"digit {i}" for i in range(500)]
    known = rl.Fingerprint(dim=48, model="org/old", pooling="mean"), rl.Fingerprint(dim=32, model="org/new")
    old, new = (rl.Space(v[:500], keys, "a", f) for v, f in zip((x, y), known, strict=True))
    t = rl.Translator(goal="retrieval").fit(old, new)
    export(t, tmp_path / "hub", "huggingface")
    card = ModelCard.load(tmp_path / "hub" / "README.md")
    assert card.data.library_name == "relatent"
    quality = t.expected_quality()["mrr"]
    said = ("# org/old → org/new", "500 pairs", "| pooling | mean |  |", "inner product", "`seen_keys` 500", "hash")
    assert [words for words in said if words not in card.text] == []
    assert f"| mrr | {quality.value:.3f} | {quality.low:.3f} – {quality.high:.3f} |" in card.text


def test_scores_may_be_given_and_a_loaded_translator_says_when_it_has_none(tmp_path):
    t = fitted("orthogonal", "digits")
    t.save(tmp_path / "t.safetensors")
    loaded = rl.load(tmp_path / "t.safetensors")
    export(loaded, tmp_path / "none", "huggingface")
    assert "No score on other data was given" in (tmp_path / "none" / "README.md").read_text()
    export(loaded, tmp_path / "some", "huggingface", scores={"ndcg@10": 0.5})
    assert '"ndcg@10": 0.5' in (tmp_path / "some" / "README.md").read_text()
    export(nonlinear("digits"), tmp_path / "rows", "huggingface")
    assert "vectors of the anchors" in (tmp_path / "rows" / "README.md").read_text()
