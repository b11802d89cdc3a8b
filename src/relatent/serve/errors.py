"""Refusals: a status, a type that programs can read, and a sentence that says what to do."""

from __future__ import annotations

from typing import Any

__all__ = ["ERRORS", "Refused"]

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
# What a client should wait before it tries again, in seconds.
RETRY_AFTER = "1"


class Refused(Exception):  # noqa: N818 (it is an answer, not a fault)
    """A request that is answered by an error."""

    def __init__(self, error_type: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.error_type, self.status = error_type, ERRORS[error_type]
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.status == 429:
            self.headers.setdefault("Retry-After", RETRY_AFTER)

    def to_dict(self) -> dict[str, Any]:
        """Return the body of the answer."""
        return {"error": str(self), "error_type": self.error_type}
