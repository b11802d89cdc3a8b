"""The service as clients meet it: real sockets, a real client, and an embedder that may misbehave."""

import base64
import json
import logging
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import openai
import pytest
from starlette.responses import JSONResponse
from tests.serve.conftest import NEW, OLD, TEXTS, embedded, post, rows

import relatent as rl
from relatent._linalg import unit_norm
from relatent.serve import Settings, make_app


def client(address, **options):
    return openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, **options)


# What it is for.


def test_vectors_are_translated_as_by_transform(address, translator):
    x = rows(12)
    answer = post(address, {"vectors": x.tolist()})
    assert answer.status_code == 200
    np.testing.assert_allclose(answer.json()["vectors"], translator.transform(x), rtol=1e-5)
    packed = [base64.b64encode(row.tobytes()).decode() for row in x]
    answer = post(address, {"vectors": packed, "encoding_format": "base64"}).json()
    found = [np.frombuffer(base64.b64decode(row), dtype="<f4") for row in answer["vectors"]]
    np.testing.assert_allclose(found, translator.transform(x), rtol=1e-5)


@pytest.mark.parametrize("encoding", [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}])
def test_the_openai_client_gets_the_old_space(address, stub, translator, encoding):
    """Without an encoding_format the client asks for base64 and decodes it."""
    answer = client(address).embeddings.create(model="acme/old", input=TEXTS, **encoding)
    expected = translator.transform(embedded(TEXTS))
    vectors = [item.embedding for item in answer.data]
    if encoding.get("encoding_format") == "base64":
        vectors = [np.frombuffer(base64.b64decode(v), dtype="<f4") if isinstance(v, str) else v for v in vectors]
    np.testing.assert_allclose(vectors, expected, rtol=1e-5)
    assert (answer.model, answer.usage.total_tokens) == ("acme/old", 7)
    assert stub.asked[0][0]["input"] == TEXTS


def test_one_text_and_tokens_pass(address, translator):
    for given, texts in (("one text", ["one text"]), ([[1, 2], [3]], ["[1, 2]", "[3]"])):
        answer = client(address).embeddings.create(model="old", input=given)
        np.testing.assert_allclose([d.embedding for d in answer.data], translator.transform(embedded(texts)), rtol=1e-5)


def test_dimensions_shorten_to_unit_norm(address, translator):
    answer = client(address).embeddings.create(model="old", input=TEXTS, dimensions=5)
    expected = unit_norm(translator.transform(embedded(TEXTS))[:, :5])
    np.testing.assert_allclose([d.embedding for d in answer.data], expected, rtol=1e-5)


def test_normalize_gives_unit_norm(start, translator):
    with start(normalize=True) as address:
        found = post(address, {"vectors": rows().tolist()}).json()["vectors"]
    np.testing.assert_allclose(found, unit_norm(translator.transform(rows())), rtol=1e-5)


def test_both_sides_of_a_retrieval_translator_meet_in_one_space(start, spaces):
    t = rl.Translator(goal="retrieval").fit(*spaces)
    ids = set()
    for side, space, transform in (("source", spaces[0], t.transform), ("target", spaces[1], t.transform_target)):
        with start(t, side=side, upstream=None) as address:
            x = np.asarray(space.vectors[:5])
            answer = post(address, {"vectors": x.tolist()}).json()
            np.testing.assert_allclose(answer["vectors"], transform(x), rtol=1e-4, atol=1e-5)
            ids.add(answer["space"]["id"])
            assert post(address, {"vectors": x.tolist(), "dimensions": 2}).status_code == 422
    assert len(ids) == 1
    with pytest.raises(ValueError, match="inner product"):
        make_app(t, Settings(normalize=True))


# Every answer names its space.


def test_every_answer_names_its_space(address, stub):
    answers = [httpx.get(f"{address}{path}") for path in ("/health", "/info", "/metrics", "/v1/models")]
    answers += [post(address, {"vectors": rows().tolist()}), post(address, {"input": "x"}, "/v1/embeddings")]
    answers.append(post(address, {"vectors": []}))
    space = answers[1].json()["space"]
    assert {answer.headers["x-relatent-space"] for answer in answers} == {space["id"]}
    assert (space["model"], space["dim"], space["translated_from"]) == ("acme/old", OLD, "acme/new")
    assert answers[4].json()["space"] == answers[5].json()["space"] == space
    assert answers[3].json()["data"][0]["id"] == "acme/old"
    assert client(address).models.list().data[0].id == "acme/old"


@pytest.mark.parametrize(("expected", "status"), [("id", 200), ("acme/old", 200), ("old", 200), ("acme/new", 412)])
def test_a_space_that_is_not_the_expected_one_is_412(address, stub, expected, status):
    expected = httpx.get(f"{address}/info").json()["space"]["id"] if expected == "id" else expected
    in_body = post(address, {"vectors": rows().tolist(), "expect_space": expected})
    in_header = post(address, {"input": "x"}, "/v1/embeddings", headers={"X-Relatent-Expect-Space": expected})
    assert (in_body.status_code, in_header.status_code) == (status, status)
    if status == 412:
        assert in_body.json()["error_type"] == "space_mismatch"
        assert stub.asked == []  # the upstream was not asked
        with pytest.raises(openai.APIStatusError) as refused:
            client(address).embeddings.create(model="old", input="x", extra_body={"expect_space": expected})
        assert refused.value.status_code == 412


# Bad input.


BAD = {
    "no JSON": (b"{", 422),
    "no UTF-8": (b'{"vectors": "\xff"}', 422),
    "no object": (b"[]", 422),
    "deep": (b"[" * 100_000, 422),
    "NaN": (json.dumps({"vectors": [[float("nan")] * NEW]}).encode(), 422),
    "infinite": (json.dumps({"vectors": [[1e39] * NEW]}).encode(), 422),
    "huge integers": (json.dumps({"vectors": [[10**400] * NEW]}).encode(), 422),
    "endless integers": (b'{"vectors": [[' + b"9" * 10_000 + b"]]}", 422),
    "text for numbers": (json.dumps({"vectors": [["1"] * NEW]}).encode(), 422),
    "truth for numbers": (json.dumps({"vectors": [[True] * NEW]}).encode(), 422),
    "ragged": (json.dumps({"vectors": [[1.0] * NEW, [1.0]]}).encode(), 422),
    "mixed": (json.dumps({"vectors": [[1.0] * NEW, "AAAA"]}).encode(), 422),
    "flat": (json.dumps({"vectors": [1.0] * NEW}).encode(), 422),
    "other dims": (json.dumps({"vectors": [[1.0] * (NEW + 1)]}).encode(), 422),
    "no base64": (json.dumps({"vectors": ["*"]}).encode(), 422),
    "odd base64": (json.dumps({"vectors": ["AAA="]}).encode(), 422),
    "empty": (json.dumps({"vectors": []}).encode(), 422),
    "missing": (b"{}", 422),
    "encoding": (json.dumps({"vectors": [[1.0] * NEW], "encoding_format": "hex"}).encode(), 422),
    "dimensions": (json.dumps({"vectors": [[1.0] * NEW], "dimensions": OLD + 1}).encode(), 422),
    "dimensions of truth": (json.dumps({"vectors": [[1.0] * NEW], "dimensions": True}).encode(), 422),
    "expect_space": (json.dumps({"vectors": [[1.0] * NEW], "expect_space": 1}).encode(), 422),
    "many rows": (json.dumps({"vectors": [[1.0] * NEW] * 33}).encode(), 413),
    "large body": (b" " * 200_001, 413),
}


@pytest.mark.parametrize(("content", "status"), BAD.values(), ids=BAD)
def test_bad_input_gets_a_clear_answer(small, content, status):
    answer = httpx.post(f"{small}/v1/translate", content=content)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error", "error_type"}
    assert httpx.get(f"{small}/health").json()["status"] == "ok"


def test_what_overflows_is_refused(start, spaces):
    fitted = rl.Translator(map="affine", normalize="none").fit(spaces[0].vectors, 1e6 * spaces[1].vectors)
    with start(fitted) as address:
        answer = post(address, {"vectors": (1e38 * np.eye(NEW)[9:12]).tolist()})
        assert (answer.status_code, answer.json()["error_type"]) == (422, "bad_input")
        assert "overflow float32" in answer.json()["error"]


@pytest.mark.parametrize("given", [None, 1, "", [], [""], [1, "a"], [[]], [None], {"a": 1}, [[1.5]], [True]])
def test_bad_texts_get_a_clear_answer(small, stub, given):
    answer = post(small, {"input": given}, "/v1/embeddings")
    assert (answer.status_code, answer.json()["error_type"]) == (422, "bad_input")
    assert stub.asked == []


def test_a_body_without_a_length_is_limited_too(small):
    answer = httpx.post(f"{small}/v1/translate", content=(b" " * 50_000 for _ in range(40)))
    assert answer.status_code == 413


def test_unknown_paths_and_methods_are_refused_as_json(address):
    assert httpx.get(f"{address}/nothing").json()["error_type"] == "not_found"
    refused = httpx.get(f"{address}/v1/translate")
    assert (refused.status_code, refused.json()["error_type"]) == (405, "method_not_allowed")
    assert "POST" in refused.headers["allow"]


# Who may ask, and how many.


def test_a_key_is_needed_where_one_is_set(start):
    with start(api_key="geheim ü") as address:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}):
            answer = post(address, {"vectors": rows().tolist()}, headers=headers)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert httpx.get(f"{address}/info").status_code == 401
        assert httpx.get(f"{address}/health").status_code == 200
    assert "geheim" not in repr(Settings(api_key="geheim", upstream_key="geheim"))


def test_beyond_the_limit_requests_are_429_at_once(start, stub):
    stub.wait = 0.5
    with start(max_requests=4) as address, ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(post, address, {"input": "x"}, "/v1/embeddings") for _ in range(12)]
        answers = [a.result() for a in asked]
        codes = [a.status_code for a in answers]
        assert set(codes) == {200, 429}
        assert codes.count(200) >= 4
        assert all(a.headers["retry-after"] == "1" for a in answers if a.status_code == 429)
        stub.wait = 0.0
        assert post(address, {"input": "x"}, "/v1/embeddings").status_code == 200


@pytest.mark.slow
def test_sustained_overload_gets_clean_refusals_and_the_process_lives(start, stub, translator):
    """Eight times as many clients as may be served, without a pause: answers are whole, or 429 with Retry-After."""
    stub.wait = 0.01
    with start(max_requests=8) as address:

        def ask(_):
            with httpx.Client(base_url=address, timeout=60) as session:
                return [session.post("/v1/embeddings", json={"input": TEXTS}) for _ in range(40)]

        with ThreadPoolExecutor(64) as pool:
            answers = [answer for session in pool.map(ask, range(64)) for answer in session]
        stub.wait = 0.0
        served = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert served
        assert refused
        expected = translator.transform(embedded(TEXTS))
        for answer in served:
            found = [one["embedding"] for one in answer.json()["data"]]
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        for answer in refused:
            assert answer.status_code in (429, 503), answer.text
            assert answer.headers["retry-after"] == "1"
            assert answer.json()["error_type"] == "overloaded"
        assert post(address, {"input": TEXTS}, "/v1/embeddings").status_code == 200
        assert "relatent_requests_in_progress 1\n" in httpx.get(f"{address}/metrics").text  # this one alone


def test_a_slow_client_is_told_to_go(start):
    with start(body_timeout=0.3) as address:
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as slow:
            slow.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
            assert b"408" in slow.recv(4096).splitlines()[0]
        with socket.create_connection((host, int(port)), timeout=10) as left:
            left.sendall(b"POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        assert post(address, {"vectors": rows().tolist()}).status_code == 200


def test_a_thousand_connections_are_answered(start, translator):
    content = json.dumps({"vectors": rows(1).tolist()}).encode()
    head = f"POST /v1/translate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n".encode()
    with start(max_requests=5_000) as address:
        host, port = address.removeprefix("http://").split(":")
        connections = [socket.create_connection((host, int(port)), timeout=30) for _ in range(1_000)]
        for connection in connections:
            connection.sendall(head + content)
        codes = {connection.recv(65_536).split(b" ", 2)[1] for connection in connections}
        for connection in connections:
            connection.close()
        assert codes == {b"200"}
        assert httpx.get(f"{address}/health").status_code == 200


# What is counted, and what is never written down.


def test_metrics_count_requests_rows_and_times(start):
    with start() as address:
        post(address, {"vectors": rows(3).tolist()})
        post(address, {"vectors": []})
        post(address, {"input": TEXTS}, "/v1/embeddings")
        httpx.get(f"{address}/made/up")
        text = httpx.get(f"{address}/metrics").text
    assert 'relatent_requests_total{path="/v1/translate",status="200"} 1\n' in text
    assert 'relatent_requests_total{path="/v1/translate",status="422"} 1\n' in text
    assert "relatent_rows_total 6\n" in text
    assert 'relatent_request_seconds_bucket{path="/v1/translate",le="+Inf"} 2\n' in text
    assert "relatent_upstream_seconds_count 1\n" in text
    assert "made" not in text


def test_logs_hold_no_texts_and_no_vectors(start, stub, caplog):
    stub.answer = JSONResponse({"error": "secret text"}, 500)
    with caplog.at_level(logging.DEBUG), start() as address:
        post(address, {"input": "secret text"}, "/v1/embeddings")
        post(address, {"vectors": [["secret text"]]})
        post(address, {"vectors": [[0.123456] * NEW]})
    said = " ".join(record.getMessage() for record in caplog.records if record.name.startswith(("relatent", "uvicorn")))
    assert "secret" not in said
    assert "0.123" not in said


def test_an_internal_error_is_500_and_the_process_stays_up(start, translator, monkeypatch):
    from relatent.serve.app import Service

    with start() as address:
        monkeypatch.setattr(Service, "_mapped", lambda *_: 1 / 0)
        broken = post(address, {"vectors": rows().tolist()})
        monkeypatch.undo()
        assert (broken.status_code, broken.json()["error_type"]) == (500, "internal")
        assert post(address, {"vectors": rows().tolist()}).status_code == 200
