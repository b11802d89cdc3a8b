"""Flip bits of a file, read it, and count what becomes of it; run as a process of its own, since a flip may crash it.

A flip is *refused* (a FileError), *same* (the byte carries nothing, all values are read as they were) or *silent*.
"""

import json
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from relatent._files import FileError
from relatent.spaces import read_space


def contents(path):
    """Everything that a reader learns from a file."""
    space = read_space(path)
    return space.vectors, space.others, space.layout.key, space.fingerprint


def equal(a, b):
    return np.array_equal(a[0], b[0], equal_nan=True) and a[1].equals(b[1]) and a[2:] == b[2:]


def outcome(path, whole):
    try:
        found = contents(path)
    except FileError:
        return "refused"
    return "same" if equal(found, whole) else "silent"


def flips(target, victim, tries, seed):
    """Flip one bit at a time in one file of what stands at target."""
    rng = np.random.default_rng(seed)
    whole, raw = contents(target), victim.read_bytes()
    found = Counter()
    for bit in rng.integers(0, 8 * len(raw), tries).tolist():
        Path("last.json").write_text(json.dumps({"file": str(victim), "bit": bit}))
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << (bit % 8)
        victim.write_bytes(damaged)
        kind = outcome(target, whole)
        found[kind] += 1
        if kind == "silent":
            found.setdefault("first silent", bit)
    victim.write_bytes(raw)
    return dict(found)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    target, victim, tries, seed = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    print(json.dumps(flips(target, victim, tries, seed)))  # noqa: T201 (the answer)
