"""The service against a bare uvicorn application that takes and gives as many bytes, over 16 kept connections.

All servers and the client run on one machine and share its cores, so that ratios mean more than requests per second.
"""

import asyncio
import atexit
import base64
import json
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator

CONNECTIONS = 16
HELLO = """
import sys, uvicorn
answer = b"x" * int(sys.argv[2])
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
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
    """A process that listens on loopback, and the request that it is sent."""

    port: int
    request: bytes

    def ask(self, n: int) -> list[float]:
        """Send n requests over a few connections at once, and return how long each took."""
        return asyncio.run(self._ask(n))

    async def _ask(self, n: int) -> list[float]:
        parts = await asyncio.gather(*(self._connection(n // CONNECTIONS) for _ in range(CONNECTIONS)))
        return [seconds for part in parts for seconds in part]

    async def _connection(self, n: int) -> list[float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        times = []
        for _ in range(n):
            start = time.perf_counter()
            writer.write(self.request)
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
    """Start a service, and bare applications of equal payload for numbers as text and as base64."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2 * d, d), dtype=np.float32)
    path = Path(tempfile.mkdtemp()) / "t.safetensors"
    Translator(map="orthogonal").fit(x, x[:, ::-1] + 1).save(path)
    batch = x[:rows]
    packed = [base64.b64encode(row.tobytes()).decode() for row in batch]
    asked = {"float": {"vectors": batch.tolist()}, "base64": {"vectors": packed, "encoding_format": "base64"}}
    service = started(SERVICE, str(path))
    inputs: Inputs = {"n": n}
    for encoding, content in asked.items():
        ours = Server(service, request(json.dumps(content).encode()))
        length = len(asyncio.run(one_answer(ours)))
        inputs |= {encoding: ours, f"hello_{encoding}": Server(started(HELLO, str(length)), ours.request)}
    return inputs


def started(program: str, argument: str) -> int:
    """Run a server until this process ends, and return its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", program, str(port), argument])
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
    writer.write(server.request)
    answer = await _answer(reader)
    writer.close()
    return answer


def latencies(n: int, **servers: Server) -> list[str]:
    """Tell the 50th and 99th percentile of each."""
    lines = []
    for name, server in servers.items():
        p50, p99 = (1e3 * np.percentile(server.ask(n), q) for q in (50, 99))
        lines.append(f"{name}: p50 {p50:.1f} ms, p99 {p99:.1f} ms at {CONNECTIONS} connections")
    return lines


SUITE = Suite(
    title="serve /v1/translate, requests over loopback",
    setup=setup,
    size={"n": 3_200, "d": 768, "rows": 1},
    quick={"n": 160, "d": 128, "rows": 1},
    contenders={
        "translate, base64": lambda n, **servers: servers["base64"].ask(n),
        "hello of equal payload, base64": lambda n, **servers: servers["hello_base64"].ask(n),
        "translate, numbers as text": lambda n, **servers: servers["float"].ask(n),
        "hello of equal payload, numbers as text": lambda n, **servers: servers["hello_float"].ask(n),
    },
    bare="hello of equal payload, base64",
    peer="hello of equal payload, numbers as text",
    targets=[Target("translate, base64", over="hello of equal payload, base64", at_least=0.4)],
    notes=latencies,
    repeats=3,
)
