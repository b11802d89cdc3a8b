"""Latent similarity to a reference as a figure to watch while training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from relatent import anchors as choose
from relatent._array import as_labels, suggest, to_numpy
from relatent.evaluate.linear import cka
from relatent.evaluate.pairwise import relative_similarity
from relatent.nn.embedding import in_mode

__all__ = ["captured", "latent_similarity"]

# Enough anchors to tell spaces apart, few enough to log every epoch.
ANCHORS = 300


def latent_similarity(
    model: Any,
    reference: Any,
    samples: Tensor | None = None,
    *,
    layer: str | None = None,
    anchor_rows: Any = None,
    batch_size: int = 512,
    prefix: str = "",
    log: Callable[[dict[str, float]], Any] | None = None,
) -> dict[str, float]:
    """Measure how similar a latent space is to a reference: relative similarity and CKA, for any logger.

    ``model`` is a module or a function, which is given ``samples``, or bare vectors. ``layer`` names a submodule
    (as in ``model.named_modules()``) whose output is taken instead of the model's own. ``reference`` are the vectors of
    the same samples in another model, of any width. ``anchor_rows`` are the rows to use as anchors; without them up to
    300, drawn once and for all. ``log`` is called with the dictionary: ``wandb.log``, ``mlflow.log_metrics``,
    ``history.append``, ….

    The model is left as it was: the mode of every submodule, its statistics, its gradients and its hooks.

    References: Moschella et al., ICLR 2023, section 4.2; Kornblith et al., ICML 2019.

    >>> x = torch.randn(50, 8)
    >>> scores = latent_similarity(nn.Identity(), 1 - 2 * x, x)
    >>> {name: round(score, 4) for name, score in scores.items()}
    {'relative_similarity': 1.0, 'cka': 1.0}
    """
    if samples is None and callable(model):
        raise ValueError("A model was given without samples: give the samples that it should embed.")
    vectors = model if samples is None else captured(model, samples, layer=layer, batch_size=batch_size)
    x, y = (to_numpy(v).astype(np.float64) for v in (vectors, reference))
    rows = choose.uniform(x, min(ANCHORS, len(x)), 0) if anchor_rows is None else as_labels(anchor_rows, "anchor_rows")
    values = {"relative_similarity": float(relative_similarity(x, y, rows)), "cka": float(cka(x, y))}
    values = {prefix + name: value for name, value in values.items()}
    if log is not None:
        log(values)
    return values


def captured(model: Any, samples: Tensor, *, layer: str | None = None, batch_size: int = 512) -> Tensor:
    """Give the vectors of samples, in evaluation mode and without gradient, and leave the model as it was.

    More than two axes are flattened; of several outputs the first is taken.

    >>> captured(nn.Sequential(nn.Linear(5, 3), nn.ReLU()), torch.randn(4, 5), layer="0").shape
    torch.Size([4, 3])
    """
    if not isinstance(model, nn.Module):
        if layer is not None:
            raise TypeError(f"layer is {layer!r}, and the model is a function: expected a torch module.")
        return _as_rows(model(samples))
    seen: list[Tensor] = []
    watched = model if layer is None else _submodule(model, layer)
    with in_mode(model, lambda _: False), torch.no_grad():
        handle = watched.register_forward_hook(lambda _module, _given, output: seen.append(_as_rows(output)))
        try:
            return torch.cat([_one_pass(model, batch, seen) for batch in torch.split(samples, batch_size)])
        finally:
            handle.remove()


def _one_pass(model: nn.Module, batch: Tensor, seen: list[Tensor]) -> Tensor:
    """Run a batch; a relative layer may run the watched encoder once more, on its anchors."""
    seen.clear()
    model(batch)
    vectors = next((v for v in seen if len(v) == len(batch)), None)
    if vectors is None:
        raise ValueError(
            f"The layer gave {[len(v) for v in seen]} rows for a batch of {len(batch)}: expected one vector per "
            "sample. Name a layer that every sample passes once."
        )
    return vectors


def _as_rows(output: Any) -> Tensor:
    output = output[0] if isinstance(output, tuple | list) else output
    if not isinstance(output, Tensor):
        raise TypeError(f"The output is a {type(output).__name__}: expected a tensor. Name a layer that gives one.")
    return output.detach().reshape(len(output), -1)


def _submodule(model: nn.Module, layer: str) -> nn.Module:
    known: dict[str, nn.Module] = dict(model.named_modules())
    if layer not in known:
        raise ValueError(f"The model has no layer {layer!r}.{suggest(layer, [n for n in known if n])}")
    return known[layer]
