"""Where a report comes from: files, fingerprints, versions and the command, without a password."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

import numpy as np

from relatent.spaces.fingerprint import Fingerprint
from relatent.spaces.schemes import is_store
from relatent.spaces.space import Space
from relatent.stores.address import Address

__all__ = ["Provenance", "SpaceFacts", "command_line", "without_secrets"]


@dataclass(frozen=True)
class SpaceFacts:
    """What is known about a space without reading its vectors, and a hash of its fingerprint."""

    role: str
    name: str
    path: str | None
    rows: int
    dim: int
    dtype: str
    model: str | None
    fingerprint: str

    @staticmethod
    def of(role: str, space: Space) -> SpaceFacts:
        """Describe a space. Its fingerprint is measured on some rows where none was recorded."""
        path = None if space.path is None else without_secrets(str(space.path))
        known = space.fingerprint
        name = space.name or (path or role)
        return SpaceFacts(role, name, path, len(space), space.dim, str(space.dtype), known.model, short_hash(known))


@dataclass(frozen=True)
class Provenance:
    """Which files and versions a report was made from, when, and by which command."""

    spaces: tuple[SpaceFacts, ...]
    command: str | None
    date: str
    versions: Mapping[str, str]
    seed: int

    @staticmethod
    def of(spaces: Mapping[str, Space], command: str | None = None, seed: int = 0) -> Provenance:
        """Describe spaces by their roles, and this moment and machine."""
        from relatent import __version__

        versions = {"relatent": __version__, "Python": platform.python_version(), "NumPy": np.__version__}
        facts = tuple(SpaceFacts.of(role, space) for role, space in spaces.items())
        return Provenance(facts, command, datetime.now(UTC).isoformat(timespec="seconds"), versions, seed)


def short_hash(fingerprint: Fingerprint) -> str:
    """Return twelve hexadecimal digits that tell one fingerprint from another."""
    return hashlib.sha256(fingerprint.to_json().encode()).hexdigest()[:12]


def command_line(words: Sequence[str]) -> str:
    """Return a command as it can be typed again, without passwords.

    >>> command_line(["fit", "old files/", "postgresql://ann:secret@db/shop/items"])
    "relatent fit 'old files/' postgresql://ann@db/shop/items"
    """
    return shlex.join(["relatent", *map(without_secrets, words)])


def without_secrets(word: str) -> str:
    """Return a word of a command as it may be shown: a URL without its password, and without options that may be one.

    >>> without_secrets("--out=s3://key:secret@bucket/a.parquet?token=x")
    '--out=s3://key@bucket/a.parquet'
    """
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    if "://" not in value:
        return word
    if is_store(value):
        return f"{option}{equals}{Address.parse(value)}"
    parts = urlsplit(value)
    user = f"{parts.username}@" if parts.username else ""
    host = parts.netloc.rpartition("@")[2]
    return f"{option}{equals}{parts.scheme}://{user}{host}{parts.path}"
