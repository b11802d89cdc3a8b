"""Applications as real servers on loopback, for the tests that ask them."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import uvicorn


@contextmanager
def running(app, **options):
    """Run an application on a free port of this machine, and yield its address."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        threading.Event().wait(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=20)
    assert not thread.is_alive()
