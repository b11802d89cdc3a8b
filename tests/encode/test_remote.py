"""Embedders behind an address: what they are asked, and what becomes of each of their faults."""

from __future__ import annotations

import json
import socket
import time

import httpx
import numpy as np
import pytest
from tests.embedder import Embedder, embedded, serving

from relatent.encode import encode, provider_text, remote, remote_text, text_encoder
from relatent.encode.client import EmbedderError

TEXTS = [f"note {i} about subject {i % 7}" for i in range(150)]
SERVER = Embedder()


@pytest.fixture(scope="module")
def address():
    with serving(SERVER) as url:
        yield url


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    SERVER.reset()
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "RELATENT_EMBED_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(remote, "PAUSE", 0.001)


@pytest.fixture
def encoder(address):
    return remote_text(address, "new")


def status(code, body=b"", **headers):
    return code, headers, body


def test_rows_are_those_of_the_texts_and_what_they_took_is_counted(encoder):
    np.testing.assert_allclose(encoder(TEXTS), embedded(TEXTS), rtol=1e-6)
    assert sorted(len(asked["input"]) for asked in SERVER.requests) == [22, 64, 64]
    assert {asked["model"] for asked in SERVER.requests} == {"new"}
    assert (encoder.usage.items, encoder.usage.tokens) == (150, sum(map(len, TEXTS)))
    assert encoder.usage.seconds > 0


FAULTS = {
    "overloaded": status(429, **{"Retry-After": "0"}),
    "down": status(500),
    "bad gateway": status(502, b"<html>"),
    "dropped": "drop",
    "half an answer": "cut",
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_what_fails_for_now_is_asked_again(encoder, fault):
    SERVER.faults = [fault, None, fault, fault]
    np.testing.assert_allclose(encoder(TEXTS), embedded(TEXTS), rtol=1e-6)


def test_an_embedder_that_stays_down_is_an_error_after_some_attempts(encoder):
    SERVER.faults = [status(503, b'{"error": {"message": "model is loading"}}')] * 50
    with pytest.raises(EmbedderError, match=r"status 503. It says: model is loading. .*run again to resume"):
        encoder(["a text"])
    assert len(SERVER.requests) == remote.ATTEMPTS


def test_it_waits_as_long_as_the_embedder_asks_for(encoder):
    SERVER.faults = [status(429, **{"Retry-After": "0.3"})]
    began = time.monotonic()
    encoder(["a text"])
    assert time.monotonic() - began >= 0.3  # pauses of its own are a thousandth of a second here


def test_a_wait_of_hours_is_an_error_at_once(encoder):
    SERVER.faults = [status(429, **{"Retry-After": "7200"})]
    with pytest.raises(EmbedderError, match="status 429"):
        encoder(["a text"])
    assert len(SERVER.requests) == 1


HOPELESS = {401: "Check the key", 403: "Check the key", 404: "name of the model"}


@pytest.mark.parametrize("code", HOPELESS)
def test_what_cannot_succeed_is_asked_once(encoder, code):
    SERVER.faults = [status(code, b'{"error": {"message": "no"}}')] * 9
    with pytest.raises(EmbedderError, match=f"status {code}. It says: no. .*{HOPELESS[code]}"):
        encoder(["a text"])
    assert len(SERVER.requests) == 1


def test_rows_come_in_any_order(encoder):
    SERVER.faults = [lambda data: data[::-1]]
    np.testing.assert_allclose(encoder(TEXTS[:9]), embedded(TEXTS[:9]), rtol=1e-6)


WRONG = {
    "too few": (lambda data: data[:-1], "8 vectors for 9 inputs"),
    "one index twice": (lambda data: [*data[:-1], data[0]], "each of 0…8 once"),
    "not finite": (lambda data: [{**one, "embedding": [float("nan")] * 16} for one in data], "finite numbers"),
    "ragged": (lambda data: [{**data[0], "embedding": [1.0]}, *data[1:]], "finite numbers"),
    "no data": (lambda data: None, "finite numbers"),
}


@pytest.mark.parametrize(("fault", "says"), WRONG.values(), ids=WRONG)
def test_what_is_not_one_vector_per_text_is_an_error(encoder, fault, says):
    SERVER.faults = [fault]
    with pytest.raises(EmbedderError, match=says):
        encoder(TEXTS[:9])


def test_another_width_than_before_is_an_error(encoder, tmp_path):
    encode(TEXTS[:5], encoder, cache=tmp_path)
    SERVER.dim = 8
    with pytest.raises(EmbedderError, match="8 coordinates: expected 16"):
        encoder(["a text"])
    with pytest.raises(ValueError, match=r"returns 8 coordinates, and its vectors in .* have 16"):
        encode(TEXTS[:9], remote_text(encoder.run._address, "new"), cache=tmp_path)


def test_dimensions_are_asked_for_and_recorded(address):
    short = text_encoder(f"{address}?model=new@4")
    np.testing.assert_allclose(short(TEXTS[:3]), embedded(TEXTS[:3], 4), rtol=1e-6)
    assert SERVER.requests[0]["dimensions"] == 4
    assert short.model == "new@4"
    SERVER.faults = [lambda data: [{**one, "embedding": [1.0] * 16} for one in data]]
    with pytest.raises(EmbedderError, match="16 coordinates: expected 4"):
        short(TEXTS[:3])


def test_an_embedder_that_takes_few_texts_is_given_few(encoder):
    """As TEI, which refuses more than 32."""
    SERVER.most = 20
    np.testing.assert_allclose(encoder(TEXTS), embedded(TEXTS), rtol=1e-6)
    asked = len(SERVER.requests)
    encoder(TEXTS)
    assert max(len(one["input"]) for one in SERVER.requests[asked:]) <= 20  # it is known by now


def test_a_text_that_is_refused_alone_is_named(encoder):
    SERVER.most = 0
    with pytest.raises(EmbedderError, match=r"status 413.*20 characters: 'note 0 about subject'.*max_chars"):
        encoder(["note 0 about subject"])


@pytest.mark.parametrize("texts", [["a", ""], [" \n"], [None]])
def test_empty_texts_are_refused_before_anything_is_asked(encoder, texts):
    with pytest.raises(ValueError, match="not empty"):
        encoder(texts)
    assert not SERVER.requests


def test_long_texts_are_sent_in_smaller_requests(encoder):
    encoder(["x " * 60_000] * 4)
    assert [len(asked["input"]) for asked in SERVER.requests] == [1, 1, 1, 1]


def test_nothing_at_the_address_is_an_error_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(EmbedderError, match=f"cannot be reached .*Check {url}, and whether it runs"):
            remote_text(url, "new")(["a text"])


def test_a_run_that_was_stopped_resumes(encoder, address, tmp_path):
    """What is in the cache is not asked for again: a fatal error costs what was on its way and no more."""
    SERVER.faults = [None, status(401)]
    with pytest.raises(EmbedderError):
        encode(TEXTS, encoder, cache=tmp_path, batch_size=50)
    space = encode(TEXTS, remote_text(address, "new"), cache=tmp_path, batch_size=50)
    np.testing.assert_allclose(space.vectors, embedded(TEXTS), rtol=1e-6)
    assert max(SERVER.seen.values()) == 1


def test_it_runs_inside_of_an_event_loop(encoder):
    """As in a notebook."""
    import asyncio

    async def cell():
        return encoder(["a text"])

    assert asyncio.run(cell()).shape == (1, 16)


def test_keys_come_from_the_environment_and_go_to_their_own_address_only(address, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    text_encoder("openai:new")(["a text"])
    text_encoder(f"{address}?model=new")(["a text"])
    monkeypatch.setenv("RELATENT_EMBED_KEY", "own")
    text_encoder(f"{address}?model=new")(["a text"])
    assert SERVER.keys == ["Bearer sk-openai", None, "Bearer own"]


def test_what_is_recorded_is_the_model_and_never_a_key_or_an_address(address, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    space = encode(TEXTS[:4], text_encoder("openai:new"), cache=tmp_path)
    assert space.fingerprint.model == "openai:new"
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*"))
    assert b"openai:new" in kept
    for secret in (b"sk-secret", address.encode(), TEXTS[0].encode()):
        assert secret not in kept


NAMES = [
    ("openai:", "names no model"),
    ("openai:text-embedding-3-small", "OPENAI_API_KEY"),
    ("http://127.0.0.1:9/v1", "names no model"),
    ("http://127.0.0.1:9/v1?model=a&api_key=b", "has the option 'api_key'"),
    ("http://me:pw@127.0.0.1:9/v1?model=a", "without a user or password"),
    ("gemini:embedding-001", "expected openai:MODEL"),
]


@pytest.mark.parametrize(("spec", "says"), NAMES)
def test_what_names_no_model_is_refused_without_its_secrets(spec, says):
    with pytest.raises(ValueError, match=says) as refused:
        text_encoder(spec)
    assert "pw" not in str(refused.value)
    assert "api_key=b" not in str(refused.value)


def test_a_folder_without_its_kind_is_named(tmp_path):
    with pytest.raises(ValueError, match=f"Is it st:{tmp_path}"):
        text_encoder(str(tmp_path))


def test_ollama_is_on_this_machine(address, monkeypatch):
    monkeypatch.setattr(remote, "OLLAMA", address)
    assert provider_text("ollama:nomic-embed-text:v1.5").model == "ollama:nomic-embed-text:v1.5"
    provider_text("ollama:nomic-embed-text:v1.5")(["a text"])
    assert SERVER.requests[0]["model"] == "nomic-embed-text:v1.5"


def test_an_onnx_folder(onnx_model):
    encoder = text_encoder(f"onnx:{onnx_model}")
    np.testing.assert_allclose(np.linalg.norm(encoder(["the cat", "a red dog"]), axis=1), 1, rtol=1e-6)


def test_it_speaks_what_the_official_client_speaks(address):
    """The stand-in is not of our own dialect only: the package of OpenAI reads the same answers."""
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=address, api_key="x", http_client=httpx.Client(verify=False)) as client:
        answer = client.embeddings.create(model="new", input=TEXTS[:3], encoding_format="float")
    np.testing.assert_allclose([one.embedding for one in answer.data], embedded(TEXTS[:3]), rtol=1e-5)
    assert json.loads(answer.usage.model_dump_json())["total_tokens"] == sum(map(len, TEXTS[:3]))
