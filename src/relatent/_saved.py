"""Fitted objects on disk: one safetensors file with readable metadata, written atomically, never a pickle."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from relatent import __version__
from relatent._files import FileError, atomic_write, no_file

FORMAT = "relatent"
FORMAT_VERSION = 2
HEADER_LIMIT = 16 * 2**20


@dataclass(frozen=True)
class Saved:
    """What a file holds: the kind of fitted object, its arrays, and everything else about it."""

    kind: str
    arrays: dict[str, np.ndarray]
    about: dict[str, Any] = field(default_factory=dict)


def write_saved(path: str | os.PathLike[str], saved: Saved, *, overwrite: bool = False) -> None:
    """Save to a file, atomically."""
    _check_arrays(path, saved.arrays)
    with atomic_write(path, overwrite=overwrite) as tmp:
        tmp.write_bytes(to_bytes(saved))


def read_saved(path: str | os.PathLike[str], kind: str | None = None) -> Saved:
    """Load what :func:`write_saved` wrote, of one kind if given. Runs no code from the file and checks all of it.

    The header is read first: a file of gigabytes that is none of ours is refused at once.
    """
    _metadata(path)
    saved = from_bytes(Path(path).read_bytes(), str(path))
    _expect(kind in (None, saved.kind), path, f"holds a {saved.kind}, not a {kind}: use relatent.load")
    return saved


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds a fitted object, from its header alone."""
    try:
        return bool(_metadata(path))
    except FileError:
        return False


def _metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the metadata of a file of ours, from its header alone."""
    try:
        with Path(path).open("rb") as file:
            start = file.read(8)
            raw = start + file.read(min(HEADER_LIMIT, int.from_bytes(start, "little")))
    except FileNotFoundError as error:
        raise no_file(path) from error
    return _ours(_header(raw, str(path)), str(path))


def to_bytes(saved: Saved) -> bytes:
    """Pack arrays and metadata as a safetensors file, with a checksum over both."""
    from safetensors.numpy import save

    metadata = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "library_version": __version__,
        "kind": saved.kind,
        "about": json.dumps(saved.about, sort_keys=True, allow_nan=False),
    }
    metadata["sha256"] = _checksum(metadata, saved.arrays)
    return bytes(save({name: np.ascontiguousarray(a) for name, a in saved.arrays.items()}, metadata=metadata))


def content_hash(saved: Saved) -> str:
    """Return a hash of arrays and metadata, which does not depend on their order in a file.

    >>> content_hash(Saved("x", {"a": np.zeros(1)})) == content_hash(Saved("x", {"a": np.ones(1)}))
    False
    """
    return _checksum({"kind": saved.kind, "about": json.dumps(saved.about, sort_keys=True)}, saved.arrays)


def from_bytes(raw: bytes, name: str = "the data") -> Saved:
    """Unpack what :func:`to_bytes` packed, checking format, checksum and finiteness."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    metadata = _ours(_header(raw, name), name)
    found = str(metadata.get("format_version", ""))
    _expect(found == str(FORMAT_VERSION), name, f"has format version {found!r} and this library reads {FORMAT_VERSION}")
    try:
        arrays, about, kind = load(raw), json.loads(metadata["about"]), str(metadata["kind"])
        whole = metadata.pop("sha256") == _checksum(metadata, arrays) and isinstance(about, dict)
    except (SafetensorError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise FileError(f"{name} is damaged ({error}): get a new copy.") from error
    _expect(whole, name, "is damaged (its checksum does not match): get a new copy")
    _check_arrays(name, arrays)
    return Saved(kind, arrays, about)


@contextmanager
def understood(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in the error where an undamaged file does not hold what its kind should."""
    try:
        yield
    except FileError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        problem = f"{path} does not hold what its kind should ({error}): get a new copy or update relatent."
        raise FileError(problem) from error


def _header(raw: bytes, name: str) -> dict[str, Any]:
    """Read the JSON header by hand: safetensors keeps the last of two equal keys, silently."""
    length = int.from_bytes(raw[:8], "little")
    _expect(len(raw) >= 8 and length <= min(HEADER_LIMIT, len(raw) - 8), name, "is not a safetensors file")
    try:
        header = json.loads(raw[8 : 8 + length].decode("utf8"), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} is not a safetensors file ({error}).") from error
    _expect(isinstance(header, dict), name, "is not a safetensors file")
    return dict(header)


def _ours(header: dict[str, Any], name: str) -> dict[str, Any]:
    metadata = header.get("__metadata__")
    if not (isinstance(metadata, dict) and metadata.get("format") == FORMAT):
        raise FileError(f"{name} was not written by relatent.")
    return metadata


def _check_arrays(path: str | os.PathLike[str], arrays: dict[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        _expect(array.dtype.kind != "f" or bool(np.isfinite(array).all()), path, f"holds NaN or infinity in {name!r}")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError("a key stands twice in its header")
    return dict(pairs)


def _expect(condition: bool, path: str | os.PathLike[str], problem: str) -> None:
    if not condition:
        raise FileError(f"{path} {problem}.")


def _checksum(metadata: dict[str, str], arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.data if array.size else b"")
    return digest.hexdigest()


# The class of each kind of fitted object, imported when such a file is loaded.
KINDS = {
    "relative_encoder": ("relatent.project.codes", "RelativeEncoder"),
    "relative_decoder": ("relatent.project.codes", "RelativeDecoder"),
    "relative_translator": ("relatent.project.inverse", "RelativeTranslator"),
    "translator": ("relatent.translate.translator", "Translator"),
    "hub": ("relatent.translate.hub", "Hub"),
    "asif": ("relatent.translate.asif", "ASIF"),
}


def load(path: str | os.PathLike[str]) -> Any:
    """Return the fitted object in a file, whichever kind it is. No code in the file is run."""
    kind = str(_metadata(path).get("kind"))
    if kind not in KINDS:
        kind = read_saved(path).kind  # a damaged file is reported as such
        raise FileError(f"{path} holds a {kind!r}, which this version of relatent does not know: update relatent.")
    module, name = KINDS[kind]
    return getattr(import_module(module), name).load(path)
