"""Run an application until the process is told to stop."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from relatent._extras import needs

__all__ = ["listening", "run_app"]

# Seconds that requests in progress are given when the process is told to stop.
GRACE = 30


def run_app(
    app: Any,
    *,
    host: str,
    port: int,
    extra: str,
    log_level: str = "info",
    access_log: bool = False,
    grace: int = GRACE,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serve on an address until the process is told to stop; requests in progress are answered first.

    Port 0 takes one that is free. ``ready`` is told the address, which can be opened from then on.
    """
    uvicorn = needs("uvicorn", extra, "serve over HTTP")
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level=log_level,
        access_log=access_log,
        server_header=False,
        timeout_graceful_shutdown=grace,
    )
    sock = listening(config)
    ready(f"http://{host}:{sock.getsockname()[1]}")
    try:
        uvicorn.Server(config).run(sockets=[sock])
    except KeyboardInterrupt:  # the server has stopped already, and says so by its signal
        pass
    finally:
        sock.close()


def listening(config: Any) -> socket.socket:
    """Return the socket of a configuration of uvicorn; whoever comes before the server is up waits.

    Connections inherit that small packets are sent at once. asyncio sees to this only where it made the socket: without
    it, the body of an answer waits up to 40 ms for the client to acknowledge the headers.
    """
    sock: socket.socket = config.bind_socket()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.listen()
    return sock
