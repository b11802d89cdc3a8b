import asyncio

import pytest
from tests.exports.translators import SPACES, fitted, near, rows_of

pytest.importorskip("llama_index.core", reason="make test-exports")

from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import TextNode

from relatent.exports.llama_index import TranslatedEmbedding

TEXTS = [f"text {i}" for i in range(40)]


class Model(BaseEmbedding):
    side: int
    space: str = "digits"

    def _get_query_embedding(self, query):
        return rows_of([query], self.side, self.space)[0].tolist()

    async def _aget_query_embedding(self, query):
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text):
        return self._get_query_embedding(text)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("setting", ["vectors", "frozen", "stitching", "ridge, center+l2"])
def test_both_roles_are_translated(setting, space):
    t = fitted(setting, space)
    wrapped = TranslatedEmbedding(Model(side=0, space=space), t)
    expected, alone = t.transform(rows_of(TEXTS, 0, space)), t.transform(rows_of(TEXTS[3:4], 0, space))[0]
    rounding = 1e-4  # of a kernel map in float32: LlamaIndex hands over ten texts at a time, as Python floats
    near(wrapped.get_text_embedding_batch(TEXTS), expected, rounding)
    near(wrapped.get_query_embedding(TEXTS[3]), alone, rounding)
    near(wrapped.get_text_embedding(TEXTS[3]), alone, rounding)
    near(asyncio.run(wrapped.aget_query_embedding(TEXTS[3])), alone, rounding)
    near(asyncio.run(wrapped.aget_text_embedding_batch(TEXTS)), expected, rounding)


@pytest.mark.parametrize("space", SPACES)
def test_a_two_sided_translator_has_one_embedder_for_each(space):
    t = fitted("retrieval", space)
    source, target = (Model(side=side, space=space) for side in (0, 1))
    wrapped = TranslatedEmbedding(source, t, target=target, translate=("query",))
    near(wrapped.get_query_embedding(TEXTS[3]), t.transform(rows_of(TEXTS[3:4], 0, space))[0])
    near(wrapped.get_text_embedding_batch(TEXTS), t.transform_target(rows_of(TEXTS, 1, space)))


def test_an_index_uses_it():
    t = fitted("frozen", "digits")
    model = TranslatedEmbedding(Model(side=0), t, target=Model(side=1), translate=("query",))
    index = VectorStoreIndex([TextNode(text=text) for text in TEXTS], embed_model=model)
    found = index.as_retriever(similarity_top_k=3).retrieve(TEXTS[5])
    assert len(found) == 3
    assert model.model_name == "unknown, translated"
