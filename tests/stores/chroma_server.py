"""Chroma's own server on a free port of the loopback, ended by its id with the process that started it."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

chromadb = pytest.importorskip("chromadb")


def quiet() -> Any:
    """Return settings of one client, which it changes."""
    return chromadb.config.Settings(anonymized_telemetry=False)


class Server:
    """One ``chroma run`` over a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._client: Any = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()

    def start(self) -> None:
        command = Path(sys.executable).with_name("chroma")
        where = ["--path", str(self.folder), "--host", "127.0.0.1", "--port", str(self.port)]
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        env = os.environ | {"ANONYMIZED_TELEMETRY": "0"}
        self._process = subprocess.Popen([command, "run", *where], env=env, **silent)
        until = time.monotonic() + 60
        while not self._answers():
            if time.monotonic() > until or self._process.poll() is not None:
                pytest.fail("chroma run did not start")
            time.sleep(0.05)

    def stop(self) -> None:
        if self._client is not None:
            for client in (self._client, self._client._admin_client):
                client._server._session.close()  # Chroma leaves its sessions open
            self._client = None
        self._process.kill()
        self._process.wait()

    def client(self) -> Any:
        if self._client is None:
            self._client = chromadb.HttpClient("127.0.0.1", self.port, settings=quiet())
        return self._client

    def _answers(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v2/heartbeat", timeout=1):
            return True
        return False


@cache
def shared_server() -> Server:
    """Start a server for all tests of this process."""
    folder = tempfile.mkdtemp(prefix="relatent-chroma-")
    server = Server(Path(folder))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(server.stop)
    return server
