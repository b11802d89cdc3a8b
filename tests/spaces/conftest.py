"""Spaces of every shape, and the formats they are written in."""

import numpy as np
import pytest

from relatent.spaces import Space

FILES = [
    "x.parquet",
    "x.npy",
    "x.npz",
    "x.arrow",
    "x.feather",
    "x.safetensors",
    "x.h5",
    "x.txt",
    "x.vec",
    "x.jsonl",
    "x.csv",
    "x.tsv",
    "folder",
    "datasets",
]
# These hold words and vectors, and nothing else.
BARE = ("x.txt", "x.vec")


@pytest.fixture(params=FILES)
def target(request, tmp_path):
    """A path to write to, in each format in turn."""
    return tmp_path / request.param


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def space(rng):
    """Ten vectors with keys and two more columns."""
    others = {"title": [f"Größe {i}" for i in range(10)], "year": list(range(2000, 2010))}
    return Space(rng.normal(size=(10, 5)).astype(np.float32), keys=[f"k{i}" for i in range(10)], others=others)
