"""Checks of array arguments: namespaces, dtypes, shapes, and the messages when something does not fit.

Every public function checks its arguments here once, under the names its caller used, so that a message can say what
was given, what is expected and what to do. What is returned is 2-D, finite, float32 or float64.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from math import isfinite
from numbers import Real
from typing import Any

import array_api_compat as compat
import numpy as np

# Any array of the array API standard. The standard has no static type yet.
Array = Any
# From version 2.1, NumPy itself has all of the standard that is used here. Its namespace in array-api-compat would load
# all of NumPy, f2py and its tests included, which takes longer than the first call.
HAS_STANDARD = hasattr(np, "astype")


# Arrays with at most this many entries are checked entry by entry: that is cheaper than guarding a sum.
SMALL = 4_096
_PAIRING = (
    "expected the same labels, by which data frames are paired. Keep those in common (.loc), or pair the rows by their "
    "order (.to_numpy())."
)
# Where the sign, exponent and mantissa of a float16 are in a float32; between them are copies of the sign.
SIGN_AND_BITS = np.uint32(0x8FFFE000).view(np.int32)
# Rows that are cast or centered at a time: they fit in the cache and keep the matrix product fast.
BLOCK_ROWS = 2_048


# What torch does with arrays while a function runs: it records a gradient, compiles, or exports a graph. Nothing here
# imports torch: where it was not imported, there are no tensors.


def is_tensor(x: Any) -> bool:
    """Return whether x is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_traced(*arrays: Any) -> bool:
    """Return whether torch arrays hold no values: they are traced (compile, export), or have only a shape."""
    tensors = [a for a in arrays if is_tensor(a)]
    return bool(tensors) and (sys.modules["torch"].compiler.is_compiling() or any(a.is_meta for a in tensors))


def is_exported(*arrays: Any) -> bool:
    """Return whether torch.export is writing these arrays into a graph, which unlike a compiled one may not break."""
    if not is_traced(*arrays):
        return False
    compiler = sys.modules["torch"].compiler
    # is_exporting would tell, but in older torch it is true in torch.compile too (its issue 176347).
    return bool(compiler.is_compiling() and not compiler.is_dynamo_compiling())


def is_tracked(*arrays: Any) -> bool:
    """Return whether torch tracks these arrays, for a gradient or into a graph.

    Then the mathematics must be one expression: no branch on values, no result that is filled piece by piece.
    """
    return any(getattr(a, "requires_grad", False) for a in arrays) or is_traced(*arrays)


def array_namespace(*arrays: Array) -> Any:
    """Return the array API namespace of the arrays."""
    if arrays and all(is_tensor(a) for a in arrays):  # a check that torch.compile can trace
        import array_api_compat.torch as xp

        return xp
    if HAS_STANDARD and arrays and all(isinstance(a, np.ndarray | np.generic) for a in arrays):
        return np
    return compat.array_namespace(*arrays)


def as_matrices(**named: Any) -> tuple[Array, ...]:
    """Check matrices that are used together: each 2-D and finite, all of one namespace and one device."""
    if all(_is_ready(value) for value in named.values()):
        return tuple(named.values())
    arrays = {name: _as_array(value, name) for name, value in named.items()}
    _check_one_namespace(arrays)
    return tuple(_checked(value, name) for name, value in arrays.items())


def as_matrix(x: Any, name: str = "x") -> Array:
    """Check one matrix: 2-D, finite, at least one row and column; float16 and integers become float32 or float64."""
    return x if _is_ready(x) else as_matrices(**{name: x})[0]


def as_rows(x: Any, name: str = "x") -> Array:
    """Check one matrix as :func:`as_matrix` does, for what casts block by block: NumPy's float16 stays float16."""
    is_float16 = type(x) is np.ndarray and x.ndim == 2 and x.size > 0 and x.dtype == np.float16
    if is_float16 and all(_is_finite_float16(x[rows]) for rows in row_chunks(len(x))):
        return x
    return as_matrix(x, name)


def _is_finite_float16(x: np.ndarray) -> bool:
    """Check the exponents, which are all ones in NaN and infinity: NumPy's own check takes ten times as long."""
    return int((x.view(np.uint16) & np.uint16(0x7C00)).max()) != 0x7C00


def as_float(x: np.ndarray) -> np.ndarray:
    """Return rows as float32, or as float64 if they are: no copy where they are either.

    float16 is widened by its bits, shifted into place and scaled: NumPy's own conversion takes five times as long.
    """
    if x.dtype != np.float16 or not x.dtype.isnative or not x.size or not _is_finite_float16(x):
        return x.astype(np.result_type(x.dtype, np.float32), copy=False)
    wide = np.empty(x.shape, dtype=np.float32)
    bits = wide.view(np.int32)
    np.left_shift(x.view(np.int16), 13, out=bits, dtype=np.int32)
    bits &= SIGN_AND_BITS
    wide *= np.float32(2.0**112)  # the exponents are biased by 127 instead of 15
    return wide


def as_same_space(**named: Any) -> tuple[Array, ...]:
    """Check matrices whose rows live in one space: the same last axis."""
    arrays = as_matrices(**named)
    check_same_width(**dict(zip(named, arrays, strict=True)))
    return _one_dtype(arrays)


def check_same_width(**named: Array) -> None:
    """Check that matrices have the same last axis."""
    if len({a.shape[1] for a in named.values()}) > 1:
        given = " and ".join(f"{name} {tuple(a.shape)}" for name, a in named.items())
        first, other = list(named)[:2]
        raise ValueError(
            f"The shapes are {given}: expected the same last axis. "
            f"Take {other} from the space of {first}, or translate {first} first."
        )


def is_space(*values: Any) -> bool:
    """Return whether each is a :class:`relatent.Space`, without importing the class: not imported, there is none."""
    module = sys.modules.get("relatent.spaces.space")
    return module is not None and all(isinstance(value, module.Space) for value in values)


def as_parallel(**named: Any) -> tuple[Array, ...]:
    """Check matrices whose rows are parallel: row i means the same in each of them.

    Spaces are joined on their keys, data frames on their index: see :func:`_on_index`.
    """
    if named and is_space(*named.values()):
        first, *others = named.values()
        named = dict(zip(named, first.aligned_with(*others), strict=True))
    arrays = as_matrices(**_on_index(named))
    if len({a.shape[0] for a in arrays}) > 1:
        given = " and ".join(f"{name} has {a.shape[0]} rows" for name, a in zip(named, arrays, strict=True))
        raise ValueError(
            f"{given}: expected the same number, row i of each meaning the same. Join the two spaces on keys first."
        )
    return arrays


def _on_index(named: dict[str, Any]) -> dict[str, Any]:
    """Bring data frames with the same labels in their index into the order of the first; refuse other labels.

    Frames whose indexes are equal stay as they are, and so does what is no frame: these are paired row by row.
    """
    frames = {name: value for name, value in named.items() if hasattr(value, "iloc") and hasattr(value, "index")}
    first = next(iter(frames.values()), None)
    if first is None or all(frame.index.equals(first.index) for frame in frames.values()):
        return named
    others = {name: frame for name, frame in frames.items() if not frame.index.equals(first.index)}
    for name, frame in frames.items():
        if not frame.index.is_unique:
            raise ValueError(f"{name} has labels that are in its index twice: {_PAIRING}")
    for name, frame in others.items():
        if len(frame) != len(first) or not frame.index.isin(first.index).all():
            common = int(frame.index.isin(first.index).sum())
            raise ValueError(
                f"{name} has {len(frame)} labels in its index, {common} of them in {next(iter(frames))}, "
                f"which has {len(first)}: {_PAIRING}"
            )
    return named | {name: frame.loc[first.index] for name, frame in others.items()}


def check_one_device(**named: Array) -> None:
    """Check that arrays are on one device."""
    devices = {name: a.device for name, a in named.items()}
    if len(set(map(str, devices.values()))) > 1:
        given = " and ".join(f"{name} is on {device}" for name, device in devices.items())
        raise ValueError(f"{given}: expected one device. Move one of them.")


def as_labels(labels: Any, name: str = "labels") -> np.ndarray:
    """Check a one-dimensional sequence with one entry per row."""
    array = to_numpy(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}: expected one entry per row, a 1-D sequence.")
    return array


def check_count(k: int, n: int, what: str = "anchors") -> int:
    """Check that k things can be taken out of n."""
    if isinstance(k, bool) or not isinstance(k, Real) or k < 1 or k % 1 != 0:
        raise ValueError(f"{k!r} {what} were asked for: expected a whole number of at least 1.")
    if k > n:
        raise ValueError(
            f"{k} {what} were asked for but there are only {n} rows to take them from: ask for at most {n}."
        )
    return int(k)


def like(value: Any, x: Array) -> Array:
    """Return a fitted array in the namespace, on the device and with the dtype of x."""
    if isinstance(value, np.ndarray) and isinstance(x, np.ndarray):
        return value.astype(x.dtype, copy=False)
    if is_tensor(value) and is_tensor(x):
        return value.to(device=x.device, dtype=x.dtype)
    xp = array_namespace(x)
    if not isinstance(value, np.ndarray) and array_namespace(value) == xp:
        return compat.to_device(xp.astype(value, x.dtype, copy=False), compat.device(x))
    return xp.asarray(np.array(to_numpy(value)), dtype=x.dtype, device=compat.device(x))


def to_numpy(x: Any) -> np.ndarray:
    """Bring an array to NumPy on the CPU, without a copy where the library allows it."""
    if compat.is_torch_array(x):
        x = x.detach().cpu()
        return np.asarray(x.float() if str(x.dtype) == "torch.bfloat16" else x)
    if compat.is_array_api_obj(x) and not isinstance(x, np.ndarray):
        return np.from_dlpack(x)
    return np.asarray(x)


def take_rows(x: Array, rows: np.ndarray) -> Array:
    """Take rows of an array of any namespace by the row numbers that `relatent.anchors` gives."""
    if isinstance(x, np.ndarray):
        return x[rows]
    xp = array_namespace(x)
    return xp.take(x, xp.asarray(np.array(rows), device=compat.device(x)), axis=0)


def row_chunks(n: int, size: int = BLOCK_ROWS) -> Iterator[slice]:
    """Split n rows into consecutive chunks of at most the given size."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def suggest(name: object, known: Iterable[str]) -> str:
    """Return which known name was probably meant, and the list of all."""
    known = list(known)
    close = get_close_matches(str(name), known, n=1)
    return (f" Did you mean {close[0]!r}?" if close else "") + f" There are: {', '.join(known)}."


def random_generator(seed: int | np.random.Generator | None) -> np.random.Generator:
    """Turn a seed, a generator or None into a generator."""
    if seed is not None and not isinstance(seed, int | np.integer | np.random.Generator):
        raise TypeError(f"seed is {seed!r}: expected an integer, a numpy.random.Generator or None.")
    return np.random.default_rng(seed)


def seed_sequence(seed: int | np.random.Generator | None, count: int) -> list[int]:
    """Return consecutive seeds s, s+1, …; s is drawn when it is not an integer."""
    first = int(seed) if isinstance(seed, int | np.integer) else int(random_generator(seed).integers(2**31))
    return [first + i for i in range(count)]


def _is_ready(x: Any) -> bool:
    """Return whether x is a finite 2-D NumPy array of floats already. This keeps single rows at microseconds."""
    if type(x) is not np.ndarray or x.ndim != 2 or x.size == 0 or x.dtype.char not in "fd" or not x.dtype.isnative:
        return False
    if x.size <= SMALL:
        return bool(np.isfinite(x).all())
    # One number that is finite only if every entry is. If it overflows, the full check decides.
    with np.errstate(over="ignore", invalid="ignore"):
        if not x.flags.c_contiguous:
            return isfinite(x.sum())
        flat = x.reshape(-1)
        return isfinite(flat.dot(flat))


def _as_array(x: Any, name: str) -> Array:
    """Take arrays as they are; make lists, data frames and whatever else NumPy understands into NumPy arrays."""
    if _is_sparse(x):
        raise TypeError(f"{name} is a sparse matrix: expected a dense array. Convert it with .toarray().")
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: expected every entry. Drop its masked rows or fill them.")
    if compat.is_array_api_obj(x) and not isinstance(x, np.ndarray):
        return x
    try:
        return np.asarray(x)
    except ValueError as error:
        raise ValueError(f"{name} cannot be read as a matrix ({error}): expected rows of equal length.") from error


def _is_sparse(x: Any) -> bool:
    if compat.is_torch_array(x):
        return "strided" not in str(x.layout)
    return compat.is_pydata_sparse_array(x) or type(x).__module__.startswith("scipy.sparse")


def _check_one_namespace(arrays: dict[str, Array]) -> None:
    kinds = {name: array_namespace(a).__name__.split(".")[-1] for name, a in arrays.items()}
    if len(set(kinds.values())) > 1:
        given = " and ".join(f"{name} is a {kind} array" for name, kind in kinds.items())
        raise TypeError(f"{given}: expected one library. Convert one of them.")
    check_one_device(**arrays)


def _checked(x: Array, name: str) -> Array:
    if x.ndim != 2:
        hint = f" Reshape your data with {name}[None, :] if it is a single vector." if x.ndim == 1 else ""
        raise ValueError(f"{name} has shape {tuple(x.shape)}: expected 2-D, one vector per row.{hint}")
    if 0 in x.shape:
        # scikit-learn's own sentence, which its users know and its checks look for.
        what = "sample(s)" if x.shape[0] == 0 else "feature(s)"
        raise ValueError(f"{name} has 0 {what} (shape={tuple(x.shape)}) while a minimum of 1 is required.")
    x = _as_float(x, name)
    _check_finite(x, name)
    return x


def _as_float(x: Array, name: str) -> Array:
    """Return float32 or float64: the smaller of the two that holds every value of the given dtype."""
    xp = array_namespace(x)
    if x.dtype in (xp.float32, xp.float64):
        return x
    if "complex" in str(x.dtype):
        raise ValueError(f"{name} has dtype {x.dtype}. Complex data not supported: expected real numbers.")
    if isinstance(x, np.ndarray):
        try:
            return x.astype(_numpy_float(x.dtype))
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} has dtype {x.dtype} ({error}): expected numbers.") from error
    wide = xp.isdtype(x.dtype, "integral") and xp.iinfo(x.dtype).bits > 16
    return xp.astype(x, xp.float64 if wide else xp.float32)


def _numpy_float(dtype: np.dtype) -> np.dtype:
    if dtype.kind == "O":  # lists of Python numbers inside an object array
        return np.dtype(np.float64)
    result = np.result_type(dtype, np.float32)
    if result.kind != "f":
        raise TypeError("which holds no numbers")
    return result if result.itemsize <= 8 else np.dtype(np.float64)


def _check_finite(x: Array, name: str) -> None:
    xp = array_namespace(x)
    # A finite sum proves every entry finite in one pass without a temporary; an infinite one may be an overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        if bool(xp.isfinite(xp.sum(x))):
            return
    finite = xp.all(xp.isfinite(x), axis=1)
    if bool(xp.all(finite)):
        return
    row = int(xp.argmin(xp.astype(finite, xp.int8)))
    bad = x.shape[0] - int(xp.sum(xp.astype(finite, xp.int64)))
    raise ValueError(
        f"{name} holds NaN or infinity in {bad} of {x.shape[0]} rows, first in row {row}: drop or fix them."
    )


def _one_dtype(arrays: tuple[Array, ...]) -> tuple[Array, ...]:
    if len({str(a.dtype) for a in arrays}) == 1:
        return arrays
    xp = array_namespace(*arrays)
    return tuple(xp.astype(a, xp.float64) for a in arrays)
