from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from experiments.data import images
from experiments.data.images import IDX, MNIST, load_images, read_idx
from experiments.data.pictures import folder_of_classes
from PIL import Image


def as_idx(a: np.ndarray) -> bytes:
    return bytes([0, 0, 8, a.ndim]) + np.asarray(a.shape, ">u4").tobytes() + a.astype(np.uint8).tobytes()


@pytest.fixture
def mnist(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """A cache that holds a package of few images."""
    shapes = ((6, 28, 28), (6,), (4, 28, 28), (4,))
    arrays = {name: rng.integers(0, 10, shape) for name, shape in zip(IDX, shapes, strict=True)}
    arrays[IDX[0]][0, 0, 0] = 255
    (tmp_path / "packages").mkdir()
    with tarfile.open(tmp_path / "packages" / MNIST.file, "w:gz") as archive:
        for name, array in arrays.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(as_idx(array))
            archive.addfile(member, io.BytesIO(as_idx(array)))
    monkeypatch.setenv("RELATENT_CACHE", str(tmp_path))
    return arrays


def test_mnist_is_read_out_of_its_package_and_scaled_by_the_brightest_pixel(mnist: dict[str, np.ndarray]) -> None:
    found = load_images("MNIST")
    assert found.train.shape == (6, 1, 28, 28)
    assert found.train.dtype == np.float32
    assert (found.side, found.colors) == (28, 1)
    assert np.allclose(found.train[:, 0] * 255, mnist[IDX[0]], atol=1e-4)
    assert np.allclose(found.test[:, 0] * 255, mnist[IDX[2]], atol=1e-4)
    assert found.test_labels.tolist() == mnist[IDX[3]].tolist()
    assert len(load_images("MNIST", 2, 3).train_labels) == 2
    assert len(load_images("MNIST", 2, 3).test) == 3


def test_empty_rows_of_the_package_of_fashion_mnist_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Clothes:
        def read(self, member: str) -> bytes:
            label = int(Path(member).stem)
            return f'{{"data": [{[label] * 784}, [], {[label] * 784}]}}'.encode()

    monkeypatch.setenv("RELATENT_CACHE", str(tmp_path))
    monkeypatch.setattr(images.packages, "FASHION", Clothes())
    pixels, labels = images.fashion_pixels()
    assert pixels.shape == (20, 28, 28)
    assert np.array_equal(pixels[:, 3, 4], labels)


def test_an_unknown_set_is_refused_by_the_names_of_the_known() -> None:
    with pytest.raises(SystemExit, match="choose one of digits, MNIST, Fashion-MNIST, CIFAR-10"):
        load_images("imagenet")


def test_digits_need_no_download_and_both_parts_hold_all_classes() -> None:
    found = load_images("digits")
    assert found.side == 8
    assert set(found.train_labels) == set(found.test_labels) == set(range(10))
    assert len(found.train) + len(found.test) == 1797
    assert 0 <= found.train.min() < found.train.max() == 1


def test_what_is_no_idx_file_is_refused() -> None:
    with pytest.raises(ValueError, match="expected an idx file"):
        read_idx(b"<html>")


def test_a_folder_of_classes_is_read_by_name_and_as_many_of_each(tmp_path: Path) -> None:
    colors = {"cat": (255, 0, 0), "dog": (0, 0, 255)}
    for name, color in colors.items():
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.new("RGB", (5 + i, 9), color).save(tmp_path / name / f"{i}.png")
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    pixels, labels = folder_of_classes(tmp_path, rows=4, side=8)
    assert pixels.shape == (4, 3, 8, 8)
    assert sorted(labels) == [0, 0, 1, 1]
    assert (pixels[labels == 0, 0] == 1).all()
    assert (pixels[labels == 1, 2] == 1).all()


def test_a_folder_without_two_classes_of_pictures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(SystemExit, match="expected a folder per class"):
            folder_of_classes(path, rows=4)
