"""Confidence over HTTP: a header, and texts of low confidence that another embedder answers."""

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.serve.conftest import OLD, TEXTS, embedded, post, rows
from tests.servers import running

import relatent as rl
from relatent.serve import Settings, make_app

HEADER = "x-relatent-confidence"
# One text like those that were fitted on, which are numbers, between two that are not.
MIXED = [TEXTS[0], "718 20455 91 360028 5 77120 43 9981 604", TEXTS[1]]


@pytest.fixture(scope="module")
def calibrated(spaces):
    t = rl.Translator(map="ridge", normalize="center+l2").fit(*spaces)
    t.calibrate()
    return t


class Exact:
    """A stand-in for the target's own model, which answers with rows of a number that counts its texts."""

    def __init__(self):
        self.asked = []
        self.app = Starlette(routes=[Route("/v1/embeddings", self.embeddings, methods=["POST"])])

    async def embeddings(self, request):
        given = await request.json()
        self.asked.append((given, request.headers.get("authorization")))
        data = [{"index": i, "embedding": [float(i + 1)] * OLD} for i in range(len(given["input"]))]
        return JSONResponse({"data": data, "usage": {"prompt_tokens": 5, "total_tokens": 5}})


@pytest.fixture
def exact():
    stub = Exact()
    with running(stub.app) as address:
        yield stub, f"{address}/v1"


def test_an_answer_tells_its_lowest_confidence(start, calibrated):
    wanted = calibrated.confidence(rows(3), items=10_000)
    with start(calibrated, items=10_000) as address:
        one, many = (post(address, {"vectors": rows(n).tolist()}) for n in (1, 3))
        texts = post(address, {"input": TEXTS}, "/v1/embeddings")
        described = httpx.get(f"{address}/openapi.json").json()
    assert float(one.headers[HEADER]) == pytest.approx(wanted[0], abs=1e-3)
    assert float(many.headers[HEADER]) == float(texts.headers[HEADER]) == pytest.approx(min(wanted), abs=1e-3)
    for path in ("/v1/translate", "/v1/embeddings"):
        headers = described["paths"][path]["post"]["responses"]["200"]["headers"]
        assert HEADER in {name.lower() for name in headers}


def test_without_confidence_there_is_no_header(address):
    assert HEADER not in post(address, {"vectors": rows(1).tolist()}).headers


def test_texts_of_low_confidence_are_embedded_by_the_targets_model(start, stub, calibrated, exact):
    wanted, low = calibrated.confidence(embedded(MIXED)), [0, 2]
    threshold = (wanted[1] + max(wanted[low])) / 2
    assert wanted[1] > threshold
    options = {"min_confidence": threshold, "exact": exact[1], "exact_model": "old", "exact_key": "secret"}
    with start(calibrated, **options) as address:
        answer = post(address, {"input": MIXED, "model": "any"}, "/v1/embeddings")
        tokens = post(address, {"input": [[1, 2], [3]]}, "/v1/embeddings")
        metrics = httpx.get(f"{address}/metrics").text
    ((given, key),) = exact[0].asked
    assert (given["input"], given["model"], key) == ([MIXED[i] for i in low], "old", "Bearer secret")
    found = np.asarray([one["embedding"] for one in answer.json()["data"]])
    np.testing.assert_allclose(found[low], np.repeat([[1.0], [2.0]], OLD, axis=1))
    np.testing.assert_allclose(found[1], calibrated.transform(embedded(MIXED))[1], rtol=1e-5)
    assert float(answer.headers[HEADER]) == pytest.approx(wanted[1], abs=1e-3)
    assert answer.json()["usage"]["total_tokens"] == 7 + 5
    assert tokens.status_code == 200
    assert "relatent_exact_rows_total 2\n" in metrics


def test_a_failing_model_of_the_target_is_424(start, calibrated):
    with start(calibrated, min_confidence=1.0, exact="http://127.0.0.1:9/v1") as address:
        answer = post(address, {"input": TEXTS}, "/v1/embeddings")
    assert (answer.status_code, answer.json()["error_type"]) == (424, "upstream_failed")


UPSTREAM = {"upstream": "http://127.0.0.1:9/v1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_confidence": 0.5, **UPSTREAM}, "belong together"),
        ({"exact": "http://127.0.0.1:9/v1", **UPSTREAM}, "belong together"),
        ({"min_confidence": 0.5, "exact": "http://127.0.0.1:9/v1"}, "belong together"),
        ({"min_confidence": 2.0, "exact": "http://127.0.0.1:9/v1", **UPSTREAM}, "at most 1"),
        ({"items": 0}, "1 or more"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Settings(**options)


def test_a_threshold_needs_a_calibrated_translator_with_one_map(translator, spaces):
    settings = Settings(min_confidence=0.5, exact="http://127.0.0.1:9/v1", **UPSTREAM)
    with pytest.raises(ValueError, match="no confidence"):
        make_app(translator, settings)
    both = rl.Translator("retrieval").fit(*spaces)
    both.calibrate()
    with pytest.raises(ValueError, match="shared space"):
        make_app(both, settings)
