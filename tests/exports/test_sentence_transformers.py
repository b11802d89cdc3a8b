import json

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tests.exports.translators import AFFINE, SPACES, fitted, near, nonlinear, spaces
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

import relatent as rl
from relatent._linalg import unit_norm
from relatent.exports import export

STOCK = {"Dense", "Normalize"}


def translated(folder, x, **options):
    model = SentenceTransformer(str(folder), device="cpu", local_files_only=True, **options)
    with torch.no_grad():
        return model({"sentence_embedding": torch.from_numpy(x)})["sentence_embedding"].numpy()


@pytest.mark.parametrize(("setting", "space"), AFFINE)
def test_stock_modules_are_the_map(setting, space, tmp_path):
    x, _ = spaces(space)
    t = fitted(setting, space)
    export(t, tmp_path / "st", "sentence-transformers")
    listed = json.loads((tmp_path / "st" / "modules.json").read_text())
    assert {module["type"].split(".")[-1] for module in listed} <= STOCK
    near(translated(tmp_path / "st", x[500:]), t.transform(x[500:]))


def test_a_nonlinear_map_needs_trust_and_says_so(tmp_path):
    x, _ = spaces("digits")
    t = nonlinear("digits")
    with pytest.warns(UserWarning, match="trust_remote_code=True"):
        export(t, tmp_path / "st", "sentence-transformers", normalize=True)
    with pytest.raises(ValueError, match="third-party code"):
        translated(tmp_path / "st", x)
    near(translated(tmp_path / "st", x, trust_remote_code=True), unit_norm(t.transform(x)))
    again = SentenceTransformer(str(tmp_path / "st"), trust_remote_code=True, device="cpu")
    again.save(str(tmp_path / "again"))
    near(translated(tmp_path / "again", x, trust_remote_code=True), unit_norm(t.transform(x)))


@pytest.mark.parametrize("space", SPACES)
def test_the_target_side_of_a_two_sided_map_is_exported_too(space, tmp_path):
    _, y = spaces(space)
    t = fitted("retrieval", space)
    with pytest.warns(UserWarning, match="trust_remote_code=True"):
        export(t, tmp_path / "st", "sentence-transformers", side="target")
    near(translated(tmp_path / "st", y[:200], trust_remote_code=True), t.transform_target(y[:200]))


WORDS = ["red", "green", "blue", "fast", "slow", "cat", "dog"]


@pytest.fixture
def encoder(tmp_path):
    """A small SentenceTransformer of word vectors, saved in a folder."""
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(["[UNK]", *WORDS])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    torch.manual_seed(0)
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=12)], device="cpu")
    model.save(str(tmp_path / "encoder"))
    return tmp_path / "encoder"


def test_an_encoder_and_a_translator_become_one_model(encoder, tmp_path):
    texts = [f"{a} {b} {c}" for a in WORDS for b in WORDS for c in WORDS]
    x = SentenceTransformer(str(encoder), device="cpu").encode(texts)
    t = rl.Translator(map="ridge", normalize="center+l2").fit(x, np.tanh(x[:, :9]))
    export(t, tmp_path / "both", "sentence-transformers", encoder=encoder, normalize=True)
    model = SentenceTransformer(str(tmp_path / "both"), device="cpu", local_files_only=True)
    near(model.encode(texts), unit_norm(t.transform(x)))
    assert model.get_embedding_dimension() == 9


def test_a_folder_that_is_no_encoder_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no modules"):
        export(fitted("orthogonal", "digits"), tmp_path / "st", "sentence-transformers", encoder=tmp_path / "empty")
    assert not (tmp_path / "st").exists()
