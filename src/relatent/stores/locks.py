"""Locks of stores that are files: one migration at a time, and none after its process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: two migrations are not kept apart there
    fcntl = None  # type: ignore[assignment]

from relatent.stores.address import Address, StoreError


@contextmanager
def file_lock(path: Path, address: Address) -> Iterator[None]:
    """Lock a file, which is made if it is not there, or refuse. The system drops the lock with its process."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise busy(address) from error
        yield
    finally:
        os.close(handle)


def busy(address: Address) -> StoreError:
    """Return the error for a store that another migration has locked."""
    return StoreError(f"Another migration of {address} is running: wait for it to end, or stop it.")
