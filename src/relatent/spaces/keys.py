"""Keys: what makes two of them the same, and hashes of them.

Keys are compared by their text, whatever type a file keeps them in (:func:`key_texts`). So the same key is the same in
every file, run and machine, and has the same hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import normalize
from uuid import UUID

import numpy as np

from relatent._array import to_numpy
from relatent._lazy import LazyModule

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as kinds
else:
    pa, pc, kinds = (LazyModule(name) for name in ("pyarrow", "pyarrow.compute", "pyarrow.types"))

# Whole floats up to here are exact integers.
EXACT = 2.0**53
# Keys that are Python strings at a time.
KEYS_AT_ONCE = 2**16


def key_texts(keys: Iterable[Any] | pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the texts that keys are compared by: two keys are the same if and only if their texts are.

    =====================  ==========================================================================
    integers               their digits: 7 and "7" are the same key
    text                   normalized to NFC, so that composed and decomposed accents are the same
    floats, decimals       as short as possible: 7.0 and 7.00 are "7" (as pandas writes integers)
    dates, times           ISO 8601 without trailing zeros; times with a zone in UTC
    UUIDs                  the usual form, 8-4-4-4-12 hexadecimal digits
    bytes                  the text they hold, if they are UTF-8; else 0x and hexadecimal digits
    dictionary-encoded     what they stand for
    =====================  ==========================================================================

    Nulls and NaN stay null. Booleans, durations, lists and structs are refused: they name no row.

    >>> key_texts([7, "7", 7.0, b"7"]).to_pylist()
    ['7', '7', '7', '7']
    """
    column = _one_array(keys)
    if _is_uuid(column.type):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.large_string())
    column = _decoded(column)
    for fits, read in _READERS:
        if fits(column.type):
            return read(column)
    raise ValueError(
        f"{column.type} cannot be a key: expected integers, text, UUIDs, bytes, numbers or dates. Name another column."
    )


def key_values(keys: Iterable[Any] | pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return keys for display: integers as they are, all others as their texts."""
    column = _decoded(_one_array(keys))
    return column if kinds.is_integer(column.type) else key_texts(column)


def is_key_type(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type can be keys."""
    if _is_uuid(kind):
        return True
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    kind = kind.value_type if kinds.is_dictionary(kind) else kind
    return any(fits(kind) for fits, _ in _READERS)


def key_hashes(keys: Iterable[Any] | pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return a 64-bit hash of each key, by its text (:func:`key_texts`).

    >>> a, b = key_hashes([7, "x"]), key_hashes(["x", "7"])
    >>> bool(a[0] == b[1]), bool(a[1] == b[0])
    (True, True)
    """
    texts = without_nulls(key_texts(keys))
    digests = b"".join(hashlib.blake2b(text.as_buffer(), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def held_out(hashes: np.ndarray, share: float) -> np.ndarray:
    """Return which keys are held out: those whose hash is in the lowest share of all hashes.

    A key is held out or not for good, whatever other keys there are and however the rows are ordered.

    >>> bool(abs(held_out(key_hashes(range(10_000)), 0.2).mean() - 0.2) < 0.02)
    True
    """
    if not 0 <= share < 1:
        raise ValueError(f"The share to hold out is {share}: expected from 0 to less than 1, such as 0.2.")
    return hashes < np.uint64(int(share * 2**64))


def rows_of(keys: Iterable[Any] | pa.Array | pa.ChunkedArray, wanted: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Return the rows of the wanted keys, in the order wanted.

    >>> rows_of([1, 2, 3], ["3", 1]).tolist()
    [2, 0]
    """
    texts, sought = key_texts(keys), key_texts(wanted)
    twice = repeated_keys(sought)
    if len(twice):
        raise ValueError(f"{len(twice)} of the {len(sought)} wanted keys are repeated: give each once.")
    found = pc.index_in(sought, value_set=texts)
    if found.null_count:
        missing = sought.filter(found.is_null())
        raise KeyError(
            f"{len(missing)} of the {len(sought)} wanted keys are not in the space, first {missing[0].as_py()!r}."
        )
    twice = repeated_keys(texts.filter(pc.is_in(texts, value_set=sought)))
    if len(twice):
        first = min(twice.to_pylist())
        raise ValueError(f"{len(twice)} wanted keys stand for several rows, first {first!r}: make keys unique.")
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.intp)


def repeated_keys(texts: pa.Array) -> pa.Array:
    """Return the texts that occur more than once, each once."""
    counts = pc.value_counts(texts)
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def without_nulls(texts: pa.Array, which: str = "the list") -> pa.Array:
    """Return the texts if each row has one; raise an error that names the first row without one."""
    if texts.null_count:
        row = int(np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"{texts.null_count} keys of {which} are null, first in row {row}: give every row a key.")
    return texts


def as_column(keys: Iterable[Any] | pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return keys of any Python or NumPy type as an Arrow array; keys of several types as their texts."""
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        return keys
    values: Any = to_numpy(keys) if hasattr(keys, "dtype") else list(keys)
    if isinstance(values, np.ndarray) and values.dtype.kind in "UTSO":  # Arrow takes Python's strings at any width
        values = values.tolist()
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([_text_of_one(value) for value in values], pa.large_string())


def _text_of_one(value: Any) -> str | None:
    # Of any size; Arrow takes UUIDs from version 24 on.
    if (isinstance(value, int) and not isinstance(value, bool)) or isinstance(value, UUID):
        return str(value)
    text: str | None = key_texts(pa.array([value]))[0].as_py()
    return text


def _one_array(keys: Iterable[Any] | pa.Array | pa.ChunkedArray) -> pa.Array:
    column = as_column(keys)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _decoded(column: pa.Array) -> pa.Array:
    """Return dictionary-encoded keys as what they stand for, and those of an extension type as they are stored."""
    if isinstance(column, pa.ExtensionArray) and not _is_uuid(column.type):
        column = column.storage
    return column.cast(column.type.value_type) if kinds.is_dictionary(column.type) else column


def _from_text(column: pa.Array) -> pa.Array:
    texts = column.cast(pa.large_string())
    ascii_only = pc.all(pc.string_is_ascii(texts)).as_py() is not False
    return texts if ascii_only else _composed(texts)


def _composed(texts: pa.Array) -> pa.Array:
    """Normalize to NFC by Python's tables: before version 26, Arrow's function only decomposes (its issue 51225)."""
    parts = [texts.slice(first, KEYS_AT_ONCE).to_pylist() for first in range(0, len(texts), KEYS_AT_ONCE)]
    return pa.concat_arrays(
        [pa.array([None if t is None else normalize("NFC", t) for t in part], pa.large_string()) for part in parts]
    )


def _from_bytes(column: pa.Array) -> pa.Array:
    try:
        return _from_text(column.cast(pa.large_binary()).cast(pa.large_string()))
    except pa.ArrowInvalid:
        return _from_text(pa.array([None if value is None else _utf8_or_hex(value) for value in column.to_pylist()]))


def _utf8_or_hex(value: bytes) -> str:
    try:
        return value.decode("utf8")
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _from_floats(column: pa.Array) -> pa.Array:
    values = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    exact = (np.trunc(values) == values) & (np.abs(values) < EXACT)
    integers = pa.array(np.where(exact, values, 0).astype(np.int64)).cast(pa.large_string())
    texts = pc.if_else(pa.array(exact), integers, column.cast(pa.large_string()))
    return pc.if_else(pa.array(np.isnan(values)), pa.scalar(None, pa.large_string()), texts)


def _from_digits(column: pa.Array) -> pa.Array:
    """Write decimals, dates and times without the zeros behind a decimal point."""
    if kinds.is_timestamp(column.type) and column.type.tz is not None:
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    texts = pc.replace_substring_regex(column.cast(pa.large_string()), pattern=r"\.0+(Z?)$", replacement=r"\1")
    return pc.replace_substring_regex(texts, pattern=r"(\.\d*[1-9])0+(Z?)$", replacement=r"\1\2")


def _is_uuid(kind: pa.DataType) -> bool:
    """Return whether a type is Arrow's own type of UUIDs, which pyarrow has since version 18."""
    return isinstance(kind, getattr(pa, "UuidType", ()))


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    plain = kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind)
    return bool(plain or kinds.is_fixed_size_binary(kind))


def _is_digits(kind: pa.DataType) -> bool:
    return bool(kinds.is_decimal(kind) or kinds.is_date(kind) or kinds.is_time(kind) or kinds.is_timestamp(kind))


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (lambda kind: kinds.is_integer(kind) or kinds.is_null(kind), lambda column: column.cast(pa.large_string())),
    (_is_text, _from_text),
    (_is_bytes, _from_bytes),
    (lambda kind: kinds.is_floating(kind), _from_floats),
    (_is_digits, _from_digits),
)
