"""The service against a bare uvicorn application that takes and gives as many bytes, over 16 kept connections.

All servers and the client run on one machine and share its cores, so that ratios mean more than requests per second.
*Hello and the product* is the bare application that also multiplies as many rows by a matrix, and uses nothing of them.
"""

import asyncio
import atexit
import base64
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator

CONNECTIONS = 16
# Different ones, so that the service sees rows of a space.
REQUESTS = 64
HELLO = """
import sys, uvicorn
answer, rows, d = b"x" * int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
if rows:
    import numpy as np
    x, m = np.ones((rows, d), dtype=np.float32), np.ones((d, d), dtype=np.float32)
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    if rows:
        x @ m
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})
uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False, lifespan="off")
"""
SERVICE = """
import sys, relatent
relatent.serve.run(relatent.load(sys.argv[2]), port=int(sys.argv[1]), log_level="error")
"""


@dataclass(frozen=True)
class Server:
    """A process that listens on loopback once it is asked, and the requests that it is sent in turn."""

    start: Callable[[], int]
    requests: tuple[bytes, ...]

    @cached_property
    def port(self) -> int:
        """Start it."""
        return self.start()

    def ask(self, n: int) -> list[float]:
        """Send n requests over a few connections at once, and return how long each took."""
        _ = self.port  # which is started before there is a loop
        return asyncio.run(self._ask(n))

    async def _ask(self, n: int) -> list[float]:
        parts = await asyncio.gather(*(self._connection(n // CONNECTIONS) for _ in range(CONNECTIONS)))
        return [seconds for part in parts for seconds in part]

    async def _connection(self, n: int) -> list[float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        times = []
        for i in range(n):
            start = time.perf_counter()
            writer.write(self.requests[i % len(self.requests)])
            await _answer(reader)
            times.append(time.perf_counter() - start)
        writer.close()
        return times


async def _answer(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    if " 200 " not in lines[0]:
        raise RuntimeError(lines[0])
    length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
    return await reader.readexactly(length)


def setup(n: int, d: int, rows: int) -> Inputs:
    """Prepare a service and bare applications of equal payload: for one row and several, as base64 and as text."""
    rng = np.random.default_rng(0)
    mixing, center = (rng.standard_normal((k, d), dtype=np.float32) for k in (d // 4, 1))
    x = rng.standard_normal((2 * d, d // 4), dtype=np.float32) @ mixing + 5 * center
    path = Path(tempfile.mkdtemp()) / "t.safetensors"
    Translator(map="orthogonal").fit(x, x[:, ::-1] + 1).save(path)
    service = cache(lambda: started(SERVICE, path))
    inputs: Inputs = {"n": n}
    for count, name in ((1, "one_base64"), (rows, "many_base64"), (1, "one_text")):
        inputs |= servers(service, x, count, name)
    return inputs


def servers(service: Callable[[], int], x: np.ndarray, rows: int, name: str) -> Inputs:
    """Return the service and its bare applications, for requests of so many rows in one encoding."""
    packed, batches = name.endswith("base64"), [x[i : i + rows] for i in range(0, REQUESTS * rows, rows)]
    ours = Server(service, tuple(request(content(batch, packed)) for batch in batches))

    def bare(rows: int) -> Server:
        return Server(lambda: started(HELLO, len(asyncio.run(one_answer(ours))), rows, x.shape[1]), ours.requests)

    return {name: ours, f"hello_{name}": bare(0)} | ({f"product_{name}": bare(rows)} if packed else {})


def content(batch: np.ndarray, packed: bool) -> bytes:
    """Return the body of a request."""
    vectors = [base64.b64encode(row.tobytes()).decode() for row in batch] if packed else batch.tolist()
    return json.dumps({"vectors": vectors, "encoding_format": "base64" if packed else "float"}).encode()


def started(program: str, *arguments: object) -> int:
    """Run a server until this process ends, and return its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-c", program, str(port), *map(str, arguments)]
    process = subprocess.Popen(words, env={**os.environ, "OMP_NUM_THREADS": "1"})
    atexit.register(process.kill)
    for _ in range(600):
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return port
        time.sleep(0.1)
    raise RuntimeError("the server did not start")


def request(body: bytes) -> bytes:
    """Return a whole request."""
    head = f"POST /v1/translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def one_answer(server: Server) -> bytes:
    """Return the body of one answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(server.requests[0])
    answer = await _answer(reader)
    writer.close()
    return answer


def latencies(n: int, **servers: Server) -> list[str]:
    """Tell the 50th and 99th percentile of each."""
    lines = []
    for name, server in servers.items():
        p50, p99 = (1e3 * np.percentile(server.ask(n), q) for q in (50, 99))
        lines.append(f"{shown(name)}: p50 {p50:.1f} ms, p99 {p99:.1f} ms at {CONNECTIONS} connections")
    return lines


def shown(name: str) -> str:
    """Return the name of a contender: who answers how many rows in which encoding."""
    *who, rows, encoding = name.split("_")
    known = {"": "translate", "hello": "hello", "product": "hello and the product"}
    return f"{known[''.join(who)]}, {rows}, {encoding}"


def asking(name: str) -> Callable[..., list[float]]:
    """Return a contender."""
    return lambda n, **servers: servers[name].ask(n)


NAMES = [f"{who}{rows}_base64" for rows in ("one", "many") for who in ("", "hello_", "product_")]
NAMES += ["one_text", "hello_one_text"]
SUITE = Suite(
    title="serve /v1/translate, requests over loopback, of one vector and of many",
    setup=setup,
    size={"n": 1_600, "d": 768, "rows": 16},
    quick={"n": 160, "d": 128, "rows": 16},
    contenders={shown(name): asking(name) for name in NAMES},
    bare="hello, one, base64",
    peer="hello, many, base64",
    targets=[
        Target("translate, one, base64", over="hello, one, base64", at_least=0.6),
        Target("translate, many, base64", over="hello, many, base64", at_least=0.6),
        Target("translate, one, base64", over="hello and the product, one, base64", at_least=0.75),
        Target("translate, many, base64", over="hello and the product, many, base64", at_least=0.75),
        Target("translate, one, text", over="hello, one, text", at_least=0.5),
    ],
    notes=latencies,
    repeats=3,
)
