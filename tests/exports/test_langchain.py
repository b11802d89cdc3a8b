import asyncio

import pytest
from tests.exports.translators import SPACES, fitted, near, rows_of

from relatent._linalg import unit_norm

pytest.importorskip("langchain_core", reason="make test-exports")

from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from relatent.exports.langchain import TranslatedEmbeddings

TEXTS = [f"text {i}" for i in range(40)]


class Model(Embeddings):
    def __init__(self, side, space="digits"):
        self.side, self.space = side, space

    def embed_documents(self, texts):
        return rows_of(texts, self.side, self.space).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("setting", ["vectors", "frozen", "stitching", "ridge, center+l2"])
def test_both_roles_are_translated(setting, space):
    t = fitted(setting, space)
    wrapped = TranslatedEmbeddings(Model(0, space), t)
    expected, alone = t.transform(rows_of(TEXTS, 0, space)), t.transform(rows_of(TEXTS[3:4], 0, space))[0]
    near(wrapped.embed_documents(TEXTS), expected)
    near(wrapped.embed_query(TEXTS[3]), alone)
    near(asyncio.run(wrapped.aembed_documents(TEXTS)), expected)
    near(asyncio.run(wrapped.aembed_query(TEXTS[3])), alone)


@pytest.mark.parametrize("space", SPACES)
def test_a_translator_that_moves_both_sides_has_one_embedder_for_each(space):
    t = fitted("retrieval", space)
    wrapped = TranslatedEmbeddings(Model(0, space), t, target=Model(1, space), translate=("query",))
    near(wrapped.embed_query(TEXTS[3]), t.transform(rows_of(TEXTS[3:4], 0, space))[0])
    near(wrapped.embed_documents(TEXTS), t.transform_target(rows_of(TEXTS, 1, space)))


def test_a_store_of_the_old_model_answers_the_new_one():
    t = fitted("frozen", "digits")
    store = InMemoryVectorStore(TranslatedEmbeddings(Model(0), t, target=Model(1), translate=("query",)))
    store.add_texts(TEXTS)
    best = (unit_norm(t.transform(rows_of(TEXTS, 0))) @ unit_norm(rows_of(TEXTS, 1)).T).argmax(axis=1)
    found = [store.similarity_search(text, k=1)[0].page_content for text in TEXTS]
    assert [rows_of([text], 1).tolist() for text in found] == [rows_of([TEXTS[i]], 1).tolist() for i in best]
