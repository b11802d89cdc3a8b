import pytest
from tests.exports.translators import SPACES, fitted, near, rows_of

pytest.importorskip("haystack", reason="make test-exports")

from haystack import Document, Pipeline

from relatent.exports.haystack import DocumentTranslator, QueryTranslator

TEXTS = [f"text {i}" for i in range(40)]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("setting", ["vectors", "retrieval", "stitching", "ridge, center+l2"])
def test_queries_and_documents_are_translated(setting, space):
    t = fitted(setting, space)
    x = rows_of(TEXTS, 0, space)
    near(QueryTranslator(t).run(embedding=x[3].tolist())["embedding"], t.transform(x[3:4])[0])
    documents = [Document(content=text, embedding=row.tolist()) for text, row in zip(TEXTS, x, strict=True)]
    done = DocumentTranslator(t).run(documents=documents)["documents"]
    near([d.embedding for d in done], t.transform(x))
    assert [d.content for d in done] == TEXTS
    assert documents[0].embedding == x[0].tolist()


def test_the_target_side_prepares_documents():
    t = fitted("retrieval", "digits")
    y = rows_of(TEXTS, 1)
    documents = [Document(content=text, embedding=row.tolist()) for text, row in zip(TEXTS, y, strict=True)]
    done = DocumentTranslator(t, side="target").run(documents=documents)["documents"]
    near([d.embedding for d in done], t.transform_target(y))
    with pytest.raises(ValueError, match="no map to export"):
        DocumentTranslator(fitted("frozen", "digits"), side="target")


def test_a_pipeline_is_written_and_read(tmp_path):
    t = fitted("frozen", "digits")
    t.save(tmp_path / "t.safetensors")
    pipeline = Pipeline()
    pipeline.add_component("translate", QueryTranslator(tmp_path / "t.safetensors"))
    again = Pipeline.loads(pipeline.dumps(), allowed_modules=["relatent.exports.haystack"])
    row = rows_of(TEXTS, 0)[0]
    near(again.run({"translate": {"embedding": row.tolist()}})["translate"]["embedding"], t.transform(row[None])[0])


def test_what_cannot_work_says_so():
    t = fitted("frozen", "digits")
    with pytest.raises(ValueError, match="has no embedding"):
        DocumentTranslator(t).run(documents=[Document(content="text")])
    with pytest.raises(ValueError, match="path of a saved one"):
        QueryTranslator(t).to_dict()
