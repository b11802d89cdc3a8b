"""What the HTTP servers share: refusals with a status, keys, and a process that runs until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import hmac
import logging
import socket
from collections.abc import Callable
from typing import Any

from relatent._errors import needs, with_remedy

# Every type of error and its status.
ERRORS: dict[str, int] = {
    "bad_input": 422,
    "batch_too_large": 413,
    "body_too_large": 413,
    "internal": 500,
    "method_not_allowed": 405,
    "no_upstream": 404,
    "not_found": 404,
    "overloaded": 429,
    "slow_client": 408,
    "space_mismatch": 412,
    "unauthorized": 401,
    "upstream_failed": 424,
    "upstream_overloaded": 429,
}
# Seconds a client should wait before it tries again.
RETRY_AFTER = "1"
# Seconds that requests in progress are given when the process is told to stop.
GRACE = 30


class Refused(Exception):  # noqa: N818 (it is an answer, not a fault)
    """A request that is answered with an error."""

    def __init__(self, error_type: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.error_type, self.status = error_type, ERRORS[error_type]
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.status == 429:
            self.headers.setdefault("Retry-After", RETRY_AFTER)

    @property
    def content(self) -> dict[str, str]:
        """The body of the answer."""
        return {"error": str(self), "error_type": self.error_type}


def bearer(request: Any) -> str:
    """Return the bearer token of a request, empty if there is none."""
    return str(request.headers.get("authorization", "").removeprefix("Bearer "))


def check_key(given: str, key: str, message: str, **headers: str) -> None:
    """Refuse another key than the expected one. Compares in constant time."""
    if not hmac.compare_digest(given.encode(), key.encode()):
        raise Refused("unauthorized", message, **headers)


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

    Port 0 takes a free one. ``ready`` is called with the address once it accepts connections.
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
    config.load()
    config.http_protocol_class = joining(config.http_protocol_class)
    sock = listening(config)
    address = f"http://{host}:{sock.getsockname()[1]}"
    logging.getLogger("uvicorn.error").info("Listening on %s (Ctrl-C stops it)", address)
    ready(address)
    gc.collect()
    gc.freeze()  # what was imported is not looked through for garbage while requests are answered
    try:
        uvicorn.Server(config).run(sockets=[sock])
    except KeyboardInterrupt:  # the server has stopped already, and raises its signal again
        pass
    finally:
        gc.unfreeze()
        sock.close()


class JoinedWrites:
    """A transport that sends what is written in one turn of the loop together, such as the head and body of an answer.

    A system call for each costs more than all else that is done to a small answer, and wakes up the client twice.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._kept = transport, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Keep data until the other events that are ready have been handled."""
        if data and not self._kept:
            asyncio.get_running_loop().call_soon(self._send)
        self._kept += data

    def close(self) -> None:
        """Send what was kept, and close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        data, self._kept = self._kept, b""
        if data:
            self._transport.write(data)


def joining(protocol: Any) -> Any:
    """Return a protocol of uvicorn whose connections join writes."""

    class Joining(protocol):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(JoinedWrites(transport))

    return Joining


def listening(config: Any) -> socket.socket:
    """Return the listening socket of a uvicorn configuration; early connections wait for the server.

    Connections inherit TCP_NODELAY. asyncio sets it only on sockets of its own: without it, the body of an answer waits
    up to 40 ms for the client to acknowledge the headers.
    """
    sock = _bound(config.host, config.port)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.listen()
    return sock


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address. uvicorn's own function ends the process when that fails."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except (OSError, OverflowError) as error:
        sock.close()
        reason = getattr(error, "strerror", None) or "no such port"
        refused = ValueError(f"{host}:{port} cannot be listened on ({reason}).")
        remedy = "Choose another {} from 0 to 65535, or another {}."
        python, command = remedy.format("port=", "host="), remedy.format("--port", "--host")
        raise with_remedy(refused, python=python, command=command) from error
    return sock
