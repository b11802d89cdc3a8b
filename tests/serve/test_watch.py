import httpx
import numpy as np

from relatent.serve.metrics import EVERY, WINDOW, SourceWatch
from relatent.translate.endpoints import Endpoints

RNG = np.random.default_rng(0)
MIXING, OTHER = RNG.normal(size=(2, 6, 40))


def rows(n, mixing=MIXING):
    return (RNG.normal(size=(n, 6)) @ mixing + mixing[0]).astype(np.float32)


def watch():
    return SourceWatch(Endpoints.of(rows(500), rows(500, OTHER)), "source")


def test_rows_of_the_space_pass_and_those_of_another_are_noticed(caplog):
    seen = watch()
    for _ in range(2 * EVERY):
        seen.see(rows(1))
    assert (seen.match.outcome, caplog.text) == ("same", "")
    for _ in range(2 * EVERY):
        seen.see(rows(1, OTHER))
    assert seen.match.outcome != "same"
    assert caplog.text.count("may not be of the space") == 1
    for _ in range(2 * EVERY):
        seen.see(rows(1))
    assert seen.match.outcome == "same"


def test_few_rows_are_not_checked():
    seen = watch()
    seen.see(rows(WINDOW - 1, OTHER))
    assert seen.match.outcome == "same"


def test_the_service_reports_a_mismatch(start):
    with start() as address:
        noise = np.random.default_rng(0).normal(size=(2 * EVERY, 20)) * 1_000
        assert httpx.post(f"{address}/v1/translate", json={"vectors": noise.tolist()}).status_code == 200
        assert httpx.get(f"{address}/health").json()["source"] != "same"
        assert httpx.get(f"{address}/info").json()["source_check"]["reason"]
        assert "relatent_source_mismatch 1\n" in httpx.get(f"{address}/metrics").text
