import numpy as np
import pytest
from tests.exports.translators import SPACES, fitted, near, rows_of

pytest.importorskip("mteb.mocks.mock_tasks.retrieval", reason="make test-exports")

import mteb
from mteb.mocks.mock_tasks.retrieval import MockRetrievalTask
from mteb.models import ModelMeta
from mteb.models.models_protocols import EncoderProtocol
from mteb.similarity_functions import cos_sim, pairwise_cos_sim
from mteb.types import PromptType

from relatent.exports.mteb import TranslatedEncoder


class Model:
    """An encoder as MTEB calls it, over rows of the digits."""

    def __init__(self, side, space="digits"):
        self.side, self.space = side, space

    def encode(self, inputs, **task):
        return rows_of([text for batch in inputs for text in batch["text"]], self.side, self.space)

    similarity = staticmethod(cos_sim)
    similarity_pairwise = staticmethod(pairwise_cos_sim)

    @property
    def mteb_model_meta(self):
        return ModelMeta.create_empty({"name": f"digits/{'old' if self.side == 0 else 'new'}"})


BATCHES = [{"text": [f"text {i}" for i in range(20)]}, {"text": ["text 20"]}]
TEXTS = [text for batch in BATCHES for text in batch["text"]]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("setting", ["vectors", "retrieval", "frozen", "stitching"])
def test_each_role_goes_its_way(setting, space):
    t = fitted(setting, space)
    model = TranslatedEncoder(Model(0, space), t, target=Model(1, space), translate=("document",))
    assert isinstance(model, EncoderProtocol)
    x, y = (rows_of(TEXTS, side, space) for side in (0, 1))
    near(model.encode(BATCHES, prompt_type=PromptType.document), t.transform(x))
    near(model.encode(BATCHES), t.transform(x))
    near(model.encode(BATCHES, prompt_type=PromptType.query), t.transform_target(y))


def test_the_similarity_is_what_the_translator_is_compared_by():
    x, y = rows_of(TEXTS, 0), rows_of(TEXTS, 1)
    inner = TranslatedEncoder(Model(0), fitted("retrieval", "digits"), target=Model(1))
    cosine = TranslatedEncoder(Model(0), fitted("frozen", "digits"), target=Model(1))
    np.testing.assert_allclose(inner.similarity(x[:, :5], y[:, :5]), x[:, :5] @ y[:, :5].T, rtol=1e-4)
    scores = np.asarray(cosine.similarity_pairwise(x[:, :5], x[:, :5]))
    np.testing.assert_allclose(scores, 1, rtol=1e-5)


def test_old_translated_and_new_stand_side_by_side(tmp_path):
    """MTEB itself evaluates all three on one task."""
    models = [Model(0), TranslatedEncoder(Model(0), fitted("frozen", "digits"), target=Model(1)), Model(1)]
    names = set()
    for model in models:
        results = mteb.evaluate(model, MockRetrievalTask(), cache=None, prediction_folder=None)
        assert 0 <= results.task_results[0].get_score() <= 1
        names.add(results.model_name)
    assert names == {"digits/old", "digits/new", "relatent/old-and-new-translated-document"}
