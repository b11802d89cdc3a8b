"""The little of ASGI that the service needs: paths with one method each, bodies with limits, answers in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from relatent._http import Refused
from relatent.serve.protocol import json_of

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    body: bytes
    status: int = 200
    media_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(refused: Refused, **headers: str) -> Answer:
        """Return the answer to a request that is refused."""
        return Answer(json_of(refused.content), refused.status, headers=refused.headers | headers)

    async def send(self, send: Send) -> None:
        """Send the head and the body."""
        every = {"Content-Type": self.media_type, "Content-Length": str(len(self.body)), **self.headers}
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in every.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class Request:
    """The headers of a request by their lower-case names, and its body."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self._receive = receive

    async def body(self, max_bytes: int, seconds: float) -> bytes:
        """Read the body, up to the limits of size and time."""
        length = self.headers.get("content-length", "0")
        declared = int(length) if length.isdigit() else 0
        size, chunks, more = 0, [], True
        try:
            async with asyncio.timeout(seconds):
                while more:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise Refused("slow_client", "The client disconnected.")
                    chunks.append(message.get("body", b""))
                    more, size = message.get("more_body", False), size + len(chunks[-1])
                    if max(size, declared) > max_bytes:
                        raise Refused("body_too_large", f"The body exceeds {max_bytes} bytes: send fewer at a time.")
        except TimeoutError as error:
            said = f"The body did not arrive within {seconds:g} s."
            raise Refused("slow_client", said, Connection="close") from error
        return b"".join(chunks)


Handler = Callable[[Request], Awaitable[Answer]]


class Application:
    """Calls the handler of each path, and ``close`` when the server stops."""

    def __init__(self, handlers: dict[tuple[str, str], Handler], close: Callable[[], Awaitable[None]]) -> None:
        self._handlers = {path: (method, handler) for (method, path), handler in handlers.items()}
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or start and stop."""
        if scope["type"] == "http":
            await (await self._answer(scope, receive)).send(send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            await send({"type": "websocket.close"})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        method, handler = self._handlers.get(path) or self._handlers.get(path.rstrip("/")) or (None, None)
        if handler is None:
            return Answer.of(Refused("not_found", "There is no such path: see /openapi.json."))
        if scope["method"] != method and (scope["method"], method) != ("HEAD", "GET"):
            allowed = "GET, HEAD" if method == "GET" else str(method)
            said = "This path does not take the method: see /openapi.json."
            return Answer.of(Refused("method_not_allowed", said), Allow=allowed)
        return await handler(Request(scope, receive))

    async def _live(self, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await self._close()
        await send({"type": "lifespan.shutdown.complete"})
