"""What a service is told when it starts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Limits, names and addresses. Keys are not shown when it is printed."""

    side: str = "source"
    normalize: bool = False
    """Whether answers are scaled to unit norm, as most embedders' vectors are."""
    model: str | None = None
    """The name that answers go by; the target's model by default."""
    upstream: str | None = None
    """Address of an OpenAI-compatible embedder of the source, such as http://127.0.0.1:9000/v1."""
    upstream_model: str | None = None
    """The model to ask it for; the one that was asked for by default."""
    upstream_key: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)
    """What callers must send as a bearer token, if anything."""
    max_rows: int = 2_048
    """Vectors or texts per request."""
    max_body: int = 32 * 2**20
    """Bytes per request, and per answer of the upstream."""
    max_requests: int = 256
    """Requests at a time; those beyond are refused at once, to be tried again."""
    body_timeout: float = 15.0
    """Seconds that a client may take to send its request."""
    upstream_timeout: float = 30.0
    """Seconds that the upstream may take to answer."""

    def __post_init__(self) -> None:
        """Refuse what no request could pass."""
        for name in ("max_rows", "max_body", "max_requests", "body_timeout", "upstream_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}: expected more than 0.")
        if self.upstream is not None and not re.match(r"https?://[^/]", self.upstream):
            raise ValueError(
                f"The upstream is {self.upstream!r}: expected an address such as http://127.0.0.1:9000/v1."
            )
