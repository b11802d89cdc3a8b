"""The service as a process of its own: how it is started and stopped, and what it takes."""

import asyncio
import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from tests.serve.conftest import TEXTS, post, rows
from threadpoolctl import threadpool_info
from typer.testing import CliRunner

from relatent._http import JoinedWrites, listening
from relatent.cli import ERROR, app
from relatent.serve import Settings, run

REQUESTS = int(os.environ.get("RELATENT_REQUESTS", 100_000))
MEGABYTES = 4


@contextmanager
def served(translator, folder, *options, **environment):
    """Run the command on a free port, and yield its process and its address."""
    translator.save(folder / "t.safetensors")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["serve", str(folder / "t.safetensors"), "--port", str(port), "--quiet", *options]
    command = [sys.executable, "-c", "from relatent.cli import app; app(prog_name='relatent')", *words]
    with subprocess.Popen(command, env={**os.environ, **environment}) as process:
        for _ in range(200):
            try:
                assert httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield process, f"http://127.0.0.1:{port}"
        process.terminate()


def test_the_command_serves_and_stops_after_what_is_in_progress(translator, stub, stub_server, tmp_path):
    with served(translator, tmp_path, "--upstream", stub_server[1], RELATENT_API_KEY="k") as (process, address):
        assert post(address, {"vectors": rows().tolist()}).status_code == 401
        stub.wait = 1.0
        with ThreadPoolExecutor(1) as pool:
            key = {"Authorization": "Bearer k"}
            asked = pool.submit(post, address, {"input": TEXTS}, "/v1/embeddings", headers=key)
            while not stub.asked:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            assert asked.result().status_code == 200
        process.wait(timeout=20)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{address}/health")


def test_a_port_that_is_taken_is_an_error_of_one_line(translator, tmp_path):
    translator.save(tmp_path / "t.safetensors")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for port in (taken.getsockname()[1], 99_999):
            result = CliRunner().invoke(app, ["serve", str(tmp_path / "t.safetensors"), "--port", str(port)])
            assert result.exit_code == ERROR
            assert f"127.0.0.1:{port} cannot be listened on (" in result.stderr


@pytest.mark.parametrize(
    "wrong", [{"max_rows": 0}, {"max_requests": -1}, {"upstream_timeout": 0.0}, {"upstream": "localhost:9000"}]
)
def test_settings_that_no_request_could_pass_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} is "):
        Settings(**wrong)


def test_connections_send_small_packets_at_once():
    """Otherwise the body of each answer waits for the acknowledgment of its headers."""
    sock = listening(uvicorn.Config(None, host="127.0.0.1", port=0, log_level="error"))
    with sock, socket.create_connection(sock.getsockname()), sock.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


class Recorded:
    """A transport that keeps what it is given."""

    def __init__(self):
        self.sent, self.closed = [], False

    def write(self, data):
        assert not self.closed
        self.sent.append(data)

    def close(self):
        self.closed = True


def test_what_is_written_in_one_turn_is_sent_at_once_in_order():
    async def answer(turns, closes):
        transport = Recorded()
        joined = JoinedWrites(transport)
        for writes in turns:
            for data in writes:
                joined.write(data)
            await asyncio.sleep(0)
        if closes:
            joined.write(b"last")
            joined.close()
        await asyncio.sleep(0)
        return transport.sent, transport.closed

    assert asyncio.run(answer([[b"head", b"body", b""]], closes=False)) == ([b"headbody"], False)
    assert asyncio.run(answer([[b"a"], [], [b"b", b"c"]], closes=True)) == ([b"a", b"bc", b"last"], True)
    assert asyncio.run(answer([[b""]], closes=False)) == ([], False)


def test_matrix_products_take_one_core_each(translator, monkeypatch):
    """Threads of a product that wait for one another are slower than the product of a few rows."""
    found = []
    monkeypatch.setattr("relatent.serve.app.run_app", lambda *_, **__: found.extend(threadpool_info()))
    run(translator)
    assert {library["num_threads"] for library in found if library["user_api"] == "blas"} == {1}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="resident memory is read from /proc")
def test_memory_stays_flat(translator, stub_server, tmp_path):
    """RELATENT_REQUESTS requests, of every kind, good and bad: what is resident after a tenth is so after all."""
    with served(translator, tmp_path, "--upstream", stub_server[1]) as (process, address):
        asyncio.run(ask(address, REQUESTS // 10))
        before = resident(process)
        asyncio.run(ask(address, REQUESTS - REQUESTS // 10))
        after = resident(process)
    print(f"resident: {before:.1f} MB after {REQUESTS // 10:,} requests, {after:.1f} MB after {REQUESTS:,}")  # noqa: T201
    assert after - before < MEGABYTES


async def ask(address, n):
    """Send n requests over eight kept connections."""
    packed = [base64.b64encode(row.tobytes()).decode() for row in rows(2)]
    good = (
        {"vectors": rows(1).tolist()},
        {"vectors": packed, "encoding_format": "base64"},
        {"vectors": rows(200).tolist()},
    )
    contents = [*(json.dumps(content).encode() for content in good * 3), b"{", b'{"vectors": [[1]]}']
    requests = [request("/v1/translate", content) for content in contents]
    requests.append(request("/v1/embeddings", json.dumps({"input": TEXTS}).encode()))
    await asyncio.gather(*(connection(address, requests, n // 8) for _ in range(8)))


def request(path, content):
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


async def connection(address, requests, n):
    host, port = address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for i in range(n):
        writer.write(requests[i % len(requests)])
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert head.split(b" ", 2)[1] in (b"200", b"422")
        await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
    writer.close()


def resident(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024
