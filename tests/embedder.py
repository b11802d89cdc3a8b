"""A stand-in for an embedder: OpenAI-compatible, deterministic, and as faulty as a test asks for."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

WORDS, SENSES = 512, 24


def embedded(texts: list[str], dim: int = 16, model: str = "new") -> np.ndarray:
    """Embed texts: counts of their words by hash, which every model turns into coordinates of its own.

    All models see the same 24 senses of the words, so that one can be translated into another.
    """
    counts = np.zeros((len(texts), WORDS))
    for row, text in enumerate(texts):
        for word in re.findall(r"\w+", text.lower()):
            counts[row, int(hashlib.sha256(word.encode()).hexdigest(), 16) % WORDS] += 1
    senses = counts @ np.random.default_rng(0).normal(size=(WORDS, SENSES))
    turn = np.random.default_rng([dim, *model.encode()]).normal(size=(SENSES, dim))
    vectors = senses @ turn + 1e-3
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


class Embedder:
    """What the server does: ``faults`` are taken one per request, from the first on; None answers as it should."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.faults: list[object] = []
        self.requests: list[dict] = []
        self.keys: list[str | None] = []
        self.seen: Counter[str] = Counter()
        self.most, self.dim, self.usage = 10_000, 16, True
        self.lock = threading.Lock()

    def answer(self, given: dict, key: str | None) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body."""
        with self.lock:
            self.requests.append(given)
            self.keys.append(key)
            fault = self.faults.pop(0) if self.faults else None
        texts = given["input"]
        if isinstance(fault, tuple):
            return fault
        if len(texts) > self.most:
            return 413, {}, json.dumps({"error": f"batch size {len(texts)} > {self.most}"}).encode()
        with self.lock:
            self.seen.update(texts)
        dim = given.get("dimensions", self.dim)
        data = [
            {"object": "embedding", "index": i, "embedding": row.tolist()}
            for i, row in enumerate(embedded(texts, dim, given["model"]))
        ]
        if callable(fault):
            data = fault(data)
        usage = {"usage": {"prompt_tokens": sum(map(len, texts)), "total_tokens": sum(map(len, texts))}}
        body = {"object": "list", "data": data, "model": given["model"], **(usage if self.usage else {})}
        raw = json.dumps(body).encode()
        return (200, {}, raw[: len(raw) // 2]) if fault == "cut" else (200, {}, raw)


@contextmanager
def serving(embedder: Embedder) -> Iterator[str]:
    """Serve on a free port of this machine, and yield the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fault = embedder.faults[0] if embedder.faults else None
            status, headers, body = embedder.answer(given, self.headers.get("Authorization"))
            if fault == "drop":
                self.close_connection = True
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=20)
