"""The embedder behind the service: one that fails, is slow, is dead, or closes connections."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import numpy as np
import pytest
from starlette.responses import JSONResponse, PlainTextResponse
from tests.serve.conftest import NEW, TEXTS, post, rows

UPSTREAM = {
    "an error": (JSONResponse({"error": "secret text"}, 500), 424),
    "overloaded": (PlainTextResponse("", 429, headers={"Retry-After": "9"}), 429),
    "no JSON": (PlainTextResponse("secret text"), 424),
    "no object": (JSONResponse([1]), 424),
    "no data": (JSONResponse({}), 424),
    "another width": (JSONResponse({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}), 424),
    "too many": (JSONResponse({"data": [{"index": i, "embedding": [1.0] * NEW} for i in (0, 1)]}), 424),
    "NaN": (PlainTextResponse('{"data": [{"index": 0, "embedding": [' + ",".join(["NaN"] * NEW) + "]}]}"), 424),
    "huge": (PlainTextResponse(" " * 200_001), 424),
    "no index": (JSONResponse({"data": [{"embedding": [1.0] * NEW}]}), 424),
    "an index beyond the inputs": (JSONResponse({"data": [{"index": 1, "embedding": [1.0] * NEW}]}), 424),
    "text for an index": (JSONResponse({"data": [{"index": "0", "embedding": [1.0] * NEW}]}), 424),
    "truth for an index": (JSONResponse({"data": [{"index": False, "embedding": [1.0] * NEW}]}), 424),
}
ONE = [{"index": 0, "embedding": [1.0] * NEW}]


@pytest.mark.parametrize(("answer", "status"), UPSTREAM.values(), ids=UPSTREAM)
def test_a_failing_upstream_is_said_and_not_repeated(small, stub, answer, status):
    stub.answer = answer
    found = post(small, {"input": "one"}, "/v1/embeddings")
    assert found.status_code == status, found.text
    assert "secret" not in found.text
    if status == 429:
        assert found.headers["retry-after"] == "9"
    stub.answer = None
    assert post(small, {"input": "one"}, "/v1/embeddings").status_code == 200


@pytest.mark.parametrize("index", [(0, 0, 0), (2, 2, 1), (0, 1, 3), (-1, 0, 1), (1, 2, 3), (0.5, 0.7, 0.9)])
def test_an_index_that_is_no_permutation_is_424(small, stub, index):
    """Which vector belongs to which text cannot be told."""
    stub.answer = JSONResponse(
        {"data": [{"index": i, "embedding": row.tolist()} for i, row in zip(index, rows(3), strict=True)]}
    )
    found = post(small, {"input": TEXTS}, "/v1/embeddings")
    assert (found.status_code, found.json()["error_type"]) == (424, "upstream_failed"), found.text
    assert "0…2" in found.json()["error"]


def test_vectors_are_answered_by_their_index(small, stub, translator):
    order = [2, 0, 1]
    stub.answer = JSONResponse({"data": [{"index": i, "embedding": rows(3)[i].tolist()} for i in order]})
    found = [one["embedding"] for one in post(small, {"input": TEXTS}, "/v1/embeddings").json()["data"]]
    np.testing.assert_allclose(found, translator.transform(rows(3)), rtol=1e-5)


BAD_USAGE = ["many", 7, [7], {"prompt_tokens": "many"}, {"total_tokens": [1]}, {"prompt_tokens": -1}]
BAD_USAGE += [False, "", {"total_tokens": ""}, {"total_tokens": 1.5}, {"total_tokens": True}, {"total_tokens": 1e300}]


@pytest.mark.parametrize("usage", BAD_USAGE, ids=str)
def test_a_usage_that_counts_nothing_is_424(small, stub, usage):
    stub.answer = JSONResponse({"data": ONE, "usage": usage})
    found = post(small, {"input": "one"}, "/v1/embeddings")
    assert (found.status_code, found.json()["error_type"]) == (424, "upstream_failed"), found.text


@pytest.mark.parametrize("usage", [{}, {"usage": None}, {"usage": {}}, {"usage": {"prompt_tokens": None}}], ids=str)
def test_an_upstream_may_count_no_tokens(small, stub, usage):
    stub.answer = JSONResponse({"data": ONE, **usage})
    assert post(small, {"input": "one"}, "/v1/embeddings").json()["usage"] == {"prompt_tokens": 0, "total_tokens": 0}


def test_a_slow_and_a_dead_upstream_are_424(start, stub):
    stub.wait = 1.0
    with start(upstream_timeout=0.2) as address:
        slow = post(address, {"input": "one"}, "/v1/embeddings")
    with socket.socket() as taken:  # a port without a server
        taken.bind(("127.0.0.1", 0))
        with start(upstream=f"http://127.0.0.1:{taken.getsockname()[1]}/v1") as address:
            dead = post(address, {"input": "one"}, "/v1/embeddings")
    assert [a.status_code for a in (slow, dead)] == [424, 424]
    assert "within 0.2 s" in slow.json()["error"]
    assert "cannot be reached" in dead.json()["error"]


@contextmanager
def dripping(seconds):
    """An embedder that sends one byte after the other, each long before any timeout between two of them."""
    closed = threading.Event()

    def answered(connection):
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not closed.wait(seconds):
                connection.sendall(b" ")

    def serve():
        with suppress(OSError):
            while True:
                threading.Thread(target=answered, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        closed.set()
        listening.shutdown(socket.SHUT_RDWR)


def test_the_timeout_bounds_the_whole_call_not_the_time_between_two_bytes(start):
    with dripping(0.05) as upstream, start(upstream=upstream, upstream_timeout=0.4) as address:
        found = httpx.post(f"{address}/v1/embeddings", json={"input": "one"}, timeout=5)
        assert (found.status_code, found.json()["error_type"]) == (424, "upstream_failed")
        assert "within 0.4 s" in found.json()["error"]


def test_health_and_metrics_answer_while_all_requests_wait_for_the_upstream(start, stub):
    stub.hold = threading.Event()
    with start(max_requests=256) as address, ThreadPoolExecutor(256) as pool:
        waiting = [pool.submit(post, address, {"input": "x"}, "/v1/embeddings") for _ in range(256)]
        while len(stub.asked) < 256:
            time.sleep(0.02)
        watched = [httpx.get(f"{address}{path}") for path in ("/health", "/metrics")]
        refused = post(address, {"vectors": rows(1).tolist()})
        stub.hold.set()
        assert {one.result().status_code for one in waiting} == {200}
    assert [one.status_code for one in watched] == [200, 200]
    assert "relatent_requests_in_progress 257\n" in watched[1].text
    assert refused.status_code == 429


def test_without_an_upstream_there_are_no_embeddings(start):
    with start(upstream=None) as address:
        assert post(address, {"input": "x"}, "/v1/embeddings").json()["error_type"] == "no_upstream"


def test_the_upstream_is_asked_for_its_model_with_its_key(start, stub):
    with start(upstream_model="new-model", upstream_key="upstream-key", api_key="my-key") as address:
        done = post(address, {"input": "x", "model": "m"}, "/v1/embeddings", headers={"Authorization": "Bearer my-key"})
    assert done.status_code == 200
    given, key = stub.asked[0]
    assert (given["model"], key) == ("new-model", "Bearer upstream-key")


# An upstream that closes kept connections.


class Closing:
    """An embedder that promises to keep connections, and closes each at its request number ``answers``."""

    def __init__(self, answers):
        self.answers, self.connections, self.listening = answers, 0, socket.create_server(("127.0.0.1", 0))
        content = json.dumps({"data": [{"index": 0, "embedding": [1.0] * NEW}]}).encode()
        self.answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
        self.all_asked = threading.Barrier(2)  # so that two first requests take two connections

    def serve(self):
        while True:
            try:
                connection = self.listening.accept()[0]
            except OSError:  # closed
                return
            self.connections += 1
            threading.Thread(target=self.answered, args=(connection, self.connections <= 2), daemon=True).start()

    def answered(self, connection, wait):
        with connection:
            for _ in range(self.answers):
                if not self.read(connection):
                    return
                if wait:
                    self.all_asked.wait(10)
                    wait = False
                connection.sendall(self.answer)
            self.read(connection)

    @staticmethod
    def read(connection):
        raw = b""
        while b"\r\n\r\n" not in raw or not raw.endswith(b"}"):
            part = connection.recv(65_536)
            if not part:
                return False
            raw += part
        return True


@contextmanager
def closing(answers):
    stub = Closing(answers)
    thread = threading.Thread(target=stub.serve, daemon=True)
    thread.start()
    yield stub, f"http://127.0.0.1:{stub.listening.getsockname()[1]}/v1"
    stub.listening.shutdown(socket.SHUT_RDWR)
    stub.listening.close()
    thread.join(10)


def test_a_kept_connection_that_is_closed_as_we_ask_costs_a_new_one_and_no_error(start):
    """All kept connections are stale at once, as after an upstream's own limit of idle time."""
    with closing(answers=1) as (stub, upstream), start(upstream=upstream) as address, ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(post, address, {"input": "one"}, "/v1/embeddings") for _ in range(2)]
        assert [a.result().status_code for a in asked] == [200, 200]
        assert stub.connections == 2
        assert post(address, {"input": "one"}, "/v1/embeddings").status_code == 200
        assert stub.connections == 3


def test_an_upstream_that_always_closes_is_asked_twice_and_is_424(start):
    with closing(answers=0) as (stub, upstream), start(upstream=upstream) as address:
        answer = post(address, {"input": "one"}, "/v1/embeddings")
        assert (answer.status_code, answer.json()["error_type"]) == (424, "upstream_failed")
        assert stub.connections == 2
