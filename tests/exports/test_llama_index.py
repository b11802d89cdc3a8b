import asyncio

import pytest
from tests.exports.translators import fitted, near, rows_of

pytest.importorskip("llama_index.core", reason="make test-exports")

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import TextNode

from relatent.exports.llama_index import TranslatedEmbedding

TEXTS = [f"text {i}" for i in range(40)]


class Model(BaseEmbedding):
    side: int

    def _get_query_embedding(self, query):
        return rows_of([query], self.side)[0].tolist()

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text):
        return self._get_query_embedding(text)


@pytest.mark.parametrize("setting", ["vectors", "frozen", "stitching", "ridge, center+l2"])
def test_both_roles_are_translated(setting):
    t = fitted(setting, "digits")
    wrapped = TranslatedEmbedding(Model(side=0), t)
    expected, alone = t.transform(rows_of(TEXTS, 0)), t.transform(rows_of(TEXTS[3:4], 0))[0]
    near(wrapped.get_text_embedding_batch(TEXTS), expected)
    near(wrapped.get_query_embedding(TEXTS[3]), alone)
    near(wrapped.get_text_embedding(TEXTS[3]), alone)
    near(asyncio.run(wrapped.aget_query_embedding(TEXTS[3])), alone)
    near(asyncio.run(wrapped.aget_text_embedding_batch(TEXTS)), expected)


def test_an_index_uses_it():
    t = fitted("frozen", "digits")
    model = TranslatedEmbedding(Model(side=0), t, target=Model(side=1), translate=("query",))
    index = VectorStoreIndex([TextNode(text=text) for text in TEXTS], embed_model=model)
    found = index.as_retriever(similarity_top_k=3).retrieve(TEXTS[5])
    assert len(found) == 3
    assert model.model_name == "unknown, translated"
