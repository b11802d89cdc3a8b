"""The published description, tried by schemathesis: every path, with input that fits it and that does not."""

import pytest

pytest.importorskip("schemathesis", reason="make test-exports")

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from tests.servers import running

from relatent.serve import Settings, make_app

PATHS = ["/v1/translate", "/v1/embeddings", "/v1/models", "/health", "/info", "/metrics"]
# Valid requests may be refused: base64 may hold NaN, and a space may not be the expected one.
CHECKED_HERE = [negative_data_rejection, positive_data_acceptance]


@pytest.fixture(scope="module")
def operations(translator, stub_server):
    """A description that schemathesis has read from a running service, by path."""
    with running(make_app(translator, Settings(upstream=stub_server[1], max_rows=8))) as address:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        yield {operation.ok().path: operation.ok() for operation in schema.get_all_operations()}


@pytest.mark.parametrize(
    ("path", "mode"),
    [(path, GenerationMode.POSITIVE) for path in PATHS] + [("/v1/translate", GenerationMode.NEGATIVE)],
)
def test_the_service_does_what_its_description_says(operations, path, mode):
    @given(case=operations[path].as_strategy(generation_mode=mode))
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    def tried(case):
        answer = case.call_and_validate(excluded_checks=CHECKED_HERE)
        expected = {200, 412, 422} if mode is GenerationMode.POSITIVE else {405, 412, 413, 422}
        assert answer.status_code in expected

    tried()


def test_every_path_is_described(operations):
    assert sorted(operations) == sorted(PATHS)  # but for the description itself, which schemathesis leaves out
