"""Image encoders (extra: image): transformers vision models, timm, torchvision, and CLIP-style pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import to_numpy
from relatent._errors import needs
from relatent.encode.encoder import Encoder
from relatent.encode.text import (
    best_device,
    check_pooling,
    hidden_state,
    load_transformer,
    normalized,
    pooled,
    recorded,
)


@dataclass(frozen=True)
class ClipPair:
    """The text encoder and the image encoder of one joint model: both map into one space."""

    text: Encoder
    image: Encoder


def open_image(item: Any) -> Any:
    """Return an RGB image from a path, an array (height, width, channels; bytes) or an image."""
    images = needs("PIL.Image", "image", "open images")
    if isinstance(item, str | Path):
        try:
            with images.open(item) as image:
                return image.convert("RGB")
        except OSError as error:
            raise ValueError(f"{item} cannot be opened as an image ({error}): fix the file or leave it out.") from error
    image = item if hasattr(item, "convert") else images.fromarray(np.asarray(item, dtype=np.uint8))
    return image.convert("RGB")


def torch_module(
    module: Any,
    preprocess: Callable[[Any], Any],
    model: str,
    *,
    device: str | None = None,
    normalize: bool = False,
    **known: Any,
) -> Encoder:
    """Make an encoder of a torch module that takes a batch of image tensors and returns a vector each.

    ``preprocess`` turns one RGB image into one tensor. Feature maps (n, d, height, width) are averaged.
    """
    import torch

    place = best_device(device)
    if hasattr(module, "eval"):
        module = module.to(place).eval()

    def run(items: Sequence[Any]) -> np.ndarray:
        with torch.inference_mode():
            out = module(torch.stack([preprocess(open_image(item)) for item in items]).to(place))
        vectors = to_numpy(out.float())
        return normalized(vectors.mean(axis=(2, 3)) if vectors.ndim == 4 else vectors, normalize)

    return Encoder(run, model, normalization="l2" if normalize else "none", kind="image", **known)


def timm_model(model: str | Any, *, name: str | None = None, pretrained: bool = True, **options: Any) -> Encoder:
    """Load a timm model by name (or take one) without its head, with the preprocessing it was trained with."""
    timm = needs("timm", "image", "load a timm model")
    loaded = timm.create_model(model, pretrained=pretrained, num_classes=0) if isinstance(model, str) else model
    preprocess = timm.data.create_transform(**timm.data.resolve_model_data_config(loaded), is_training=False)
    known = getattr(loaded, "pretrained_cfg", {})
    called = name or (model if isinstance(model, str) else known.get("architecture", type(loaded).__name__))
    return torch_module(loaded, preprocess, called, revision=known.get("tag") or None, pooling="model", **options)


def torchvision_model(model: str, *, weights: str = "DEFAULT", name: str | None = None, **options: Any) -> Encoder:
    """Load a torchvision classifier by name without its head, with the preprocessing of its weights."""
    models = needs("torchvision.models", "image", "load a torchvision model")
    import torch

    chosen = models.get_model_weights(model)[weights]
    loaded = models.get_model(model, weights=chosen)
    for head in ("fc", "classifier", "heads", "head"):
        if hasattr(loaded, head):
            setattr(loaded, head, torch.nn.Identity())
            break
    return torch_module(loaded, chosen.transforms(), name or model, revision=chosen.name, pooling="model", **options)


def vision_transformer(
    model: str | Path,
    *,
    pooling: str = "cls",
    layer: int = -1,
    name: str | None = None,
    revision: str | None = None,
    device: str | None = None,
    normalize: bool = False,
) -> Encoder:
    """Load a transformers vision model with its image processor, from a folder or a hub."""
    check_pooling(pooling)
    library = needs("transformers", "image", "load a transformers model")
    processor = library.AutoImageProcessor.from_pretrained(str(model), revision=revision)
    loaded = load_transformer(library, model, revision, device)

    def run(items: Sequence[Any]) -> np.ndarray:
        inputs = processor(images=[open_image(item) for item in items], return_tensors="pt")
        state = hidden_state(loaded, layer, **inputs)
        tokens = state.reshape(*state.shape[:2], -1).swapaxes(1, 2) if state.ndim == 4 else state
        return normalized(pooled(tokens, None, "mean" if state.ndim == 4 else pooling), normalize)

    known = recorded(model, name, revision, loaded, pooling=pooling, normalize=normalize, layer=layer)
    return Encoder(run, kind="image", **known)


def clip(
    model: str | Path,
    *,
    name: str | None = None,
    revision: str | None = None,
    device: str | None = None,
    normalize: bool = True,
) -> ClipPair:
    """Load a CLIP-style model from a folder or a hub: one encoder for texts and one for images, in one space."""
    library = needs("transformers", "image", "load a CLIP model")
    tokenizer = library.AutoTokenizer.from_pretrained(str(model), revision=revision)
    processor = library.AutoImageProcessor.from_pretrained(str(model), revision=revision)
    loaded = load_transformer(library, model, revision, device)

    def text(items: Sequence[str]) -> np.ndarray:
        inputs = tokenizer(list(items), padding=True, truncation=True, return_tensors="pt")
        return _features(loaded, "get_text_features", inputs, normalize)

    def image(items: Sequence[Any]) -> np.ndarray:
        inputs = processor(images=[open_image(item) for item in items], return_tensors="pt")
        return _features(loaded, "get_image_features", inputs, normalize)

    known = recorded(model, name, revision, loaded, pooling="joint", normalize=normalize)
    return ClipPair(Encoder(text, kind="text", **known), Encoder(image, kind="image", **known))


def _features(loaded: Any, method: str, inputs: Any, normalize: bool) -> np.ndarray:
    import torch

    with torch.inference_mode():
        out = getattr(loaded, method)(**{key: value.to(loaded.device) for key, value in inputs.items()})
    # Later versions of transformers give an output object here, earlier ones the features themselves.
    return normalized(to_numpy(getattr(out, "pooler_output", out).float()), normalize)
