"""A service and the embedder behind it, as real servers on loopback."""

from __future__ import annotations

import asyncio
import ssl

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.servers import running

import relatent as rl
from relatent.serve import Settings, make_app

OLD, NEW = 24, 20
# Nothing here speaks TLS: the certificates that each request would load take longer than the request.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
TEXTS = ["a first text", "another one", "and a third"]


def embedded(texts):
    """Embed texts by their letters: what the stub's model is."""
    rows = [np.bincount(np.frombuffer(text.encode(), dtype=np.uint8) % NEW, minlength=NEW) for text in texts]
    return np.asarray(rows, dtype=np.float32) + np.float32(0.25)


def rows(n=3):
    return embedded(TEXTS * n)[:n]


def post(address, content=None, path="/v1/translate", **options):
    return httpx.post(f"{address}{path}", json=content, timeout=20, verify=NO_TLS, **options)


@pytest.fixture(scope="session")
def spaces():
    rng = np.random.default_rng(3)
    new = embedded([" ".join(map(str, rng.integers(0, 10**6, size=9))) for _ in range(400)])
    old = np.tanh(new @ rng.normal(size=(NEW, OLD)) / 9).astype(np.float32)
    known = rl.Fingerprint(dim=NEW, model="acme/new"), rl.Fingerprint(dim=OLD, model="acme/old")
    keys = [str(i) for i in range(400)]
    return rl.Space(new, keys, "new", known[0]), rl.Space(old, keys, "old", known[1])


@pytest.fixture(scope="session")
def translator(spaces):
    """From the new model's space into the old one's."""
    return rl.Translator(map="ridge", normalize="center+l2").fit(*spaces)


class Stub:
    """An OpenAI-compatible embedder whose misbehavior is set by the test."""

    def __init__(self):
        self.answer, self.wait, self.hold, self.asked = None, 0.0, None, []
        self.app = Starlette(routes=[Route("/v1/embeddings", self.embeddings, methods=["POST"])])

    async def embeddings(self, request):
        given = await request.json()
        self.asked.append((given, request.headers.get("authorization")))
        await asyncio.sleep(self.wait)
        while self.hold is not None and not self.hold.is_set():
            await asyncio.sleep(0.02)
        if isinstance(self.answer, Response):
            return self.answer
        asked = given["input"]
        alone = isinstance(asked, str) or all(isinstance(token, int) for token in asked)  # a text, or its tokens
        texts = [asked] if alone else asked
        rows = embedded([str(text) for text in texts])
        data = [{"object": "embedding", "index": i, "embedding": row.tolist()} for i, row in enumerate(rows)]
        usage = {"prompt_tokens": 7, "total_tokens": 7}
        return JSONResponse({"object": "list", "data": data[::-1], "model": "new", "usage": usage})


@pytest.fixture(scope="session")
def stub_server():
    stub = Stub()
    with running(stub.app) as address:
        yield stub, f"{address}/v1"


@pytest.fixture
def stub(stub_server):
    stub = stub_server[0]
    stub.answer, stub.wait, stub.hold, stub.asked = None, 0.0, None, []
    return stub


@pytest.fixture
def start(translator, stub_server):
    """Return a context that serves the translator, by default in front of the stub."""

    def started(fitted=None, **options):
        settings = Settings(**{"upstream": stub_server[1], **options})
        return running(make_app(fitted or translator, settings))

    return started


@pytest.fixture
def address(start):
    with start() as address:
        yield address


@pytest.fixture(scope="module")
def small(translator, stub_server):
    """A service of narrow limits."""
    with running(make_app(translator, Settings(max_rows=32, max_body=200_000, upstream=stub_server[1]))) as address:
        yield address
