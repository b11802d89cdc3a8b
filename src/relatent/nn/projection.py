"""Relative representations as a layer of a network."""

from __future__ import annotations

import warnings
from typing import Any, Self

import torch
from torch import Tensor, nn

from relatent._array import check_one_device, check_same_width, is_exported, suggest
from relatent.nn.forward import (
    Encoder,
    check_batch,
    embed,
    in_single_at_least,
    no_autocast,
    no_autocast_cache,
    normalizes_by_batch,
    ordinary_tensors,
)
from relatent.project.relative import OUTPUTS, normalized_output
from relatent.project.similarity import Similarity, resolve
from relatent.spaces.normalize import centered, standardized

NORMALIZATIONS = {"none": lambda x, anchors: (x, anchors), "center": centered, "standard": standardized}


class RelativeProjection(nn.Module):
    r"""Describe each vector of a batch by its similarity to every anchor: (n, d) → (n, k).

    .. math:: R_{ij} = \operatorname{sim}(x_i, a_j)

    With the cosine, the output is unchanged when the encoder's space is rotated, reflected or rescaled, so the layers
    after it can read any encoder. An offset changes it: with a pretrained encoder, use ``normalize="center"``. While an
    encoder is trained through the layer, the center moves with every step, and subtracting it made encoders without
    batch normalization learn and stitch worse.

    Parameters
    ----------
    anchors : tensor or None
        Without ``encoder``, anchor vectors (k, d), held fixed. With it, anchor samples (k, …), whatever the encoder
        takes. None: they come with ``load_state_dict``.
    similarity : name or function
        As in :func:`relatent.relative_projection`.
    encoder : module or function
        Embeds the anchor samples again at every training step, and in evaluation once after the last training step. It
        is not registered a second time, and its running statistics, flags and hooks are unchanged. Batch
        normalization treats the anchors as it treats a batch of samples; dropout is off.
    momentum : float or None
        Anchors are a moving average: each training step keeps this share of them.
    anchor_grad : bool
        Let gradients pass through the anchors. Anchor vectors without an encoder then become a parameter.
    normalize : "none", "center" or "standard"
        Subtract the mean of the anchors from vectors and anchors first; "standard" also divides each coordinate by
        their standard deviation. That is the batch-normalized (robust) relative transformation with the anchors as
        the batch: it is unchanged when coordinates are permuted, shifted or rescaled one by one, which activation
        functions leave undecided, and no longer when they are rotated. To normalize samples by their own batch and
        anchors by theirs, with running statistics in evaluation, end the encoder with
        ``nn.BatchNorm1d(d, affine=False)`` instead.
    output : "layer", "l2" or "none"
        Scale the rows of the output to mean 0 and variance 1 (LayerNorm), to unit norm, or not at all. The default
        stitched best from every seed (``experiments.relative_representations.newcomer``): the spread of raw cosines
        differs from training to training, and a head learns it.

    ``state_dict`` holds the embedded anchors and not the samples, so a loaded model needs no samples to predict.
    Similarities are computed at least in float32, also under autocast.

    References: Moschella et al., ICLR 2023, sections 3.1 and A.5.4; García-Castellanos et al., 2024 (batch
    normalization).

    >>> encoder = nn.Linear(5, 3)
    >>> model = nn.Sequential(encoder, RelativeProjection(torch.randn(4, 5), encoder=encoder), nn.Linear(4, 2))
    >>> model(torch.randn(8, 5)).shape
    torch.Size([8, 2])
    """

    anchors: Tensor
    samples: Tensor | None
    _encoder: Encoder | None

    def __init__(
        self,
        anchors: Tensor | None,
        similarity: str | Similarity = "cosine",
        *,
        encoder: Encoder | None = None,
        momentum: float | None = None,
        anchor_grad: bool = False,
        normalize: str = "none",
        output: str = "layer",
    ) -> None:
        super().__init__()
        _check_options(encoder, momentum, anchor_grad, normalize, output)
        if not isinstance(anchors, Tensor | None):
            raise TypeError(
                f"The anchors are a {type(anchors).__name__}: expected a tensor. Samples of another kind go "
                "by number: encoder=lambda rows: model(samples)[rows]."
            )
        resolve(similarity)
        self.similarity, self.normalize, self.output = similarity, normalize, output
        self.momentum, self.anchor_grad = momentum, anchor_grad
        self._hold(encoder, anchors if encoder is not None else None)
        given = anchors is not None and encoder is None
        vectors = _as_vectors(anchors).detach().clone() if given else torch.empty(0, 0)
        if anchor_grad and encoder is None:
            self.anchors = nn.Parameter(vectors)
        else:
            self.register_buffer("anchors", vectors)

    def forward(self, x: Tensor) -> Tensor:
        """Return the similarity of each row to every anchor."""
        anchors = self._current_anchors()
        check_batch(x)
        check_one_device(x=x, anchors=anchors)
        check_same_width(x=x, anchors=anchors)
        return in_single_at_least(self._project, x, anchors)

    def refresh(self) -> Self:
        """Embed the anchor samples now and hold them, as evaluation does automatically after training.

        Call it when the encoder was changed otherwise than by training through this layer.
        """
        if self._encoder is not None and normalizes_by_batch(self._encoder):
            warnings.warn(
                "The anchors are embedded for evaluation and the encoder is in training mode, where batch "
                "normalization makes vectors depend on their batch: call encoder.eval() first, or the two will not "
                "match.",
                stacklevel=2,
            )
        self._embed_and_hold()
        return self

    def freeze(self) -> Self:
        """Hold the current anchors permanently; the encoder and the samples are released."""
        if self._encoder is not None and self._is_outdated():
            self.refresh()
        self._hold(None, None)
        return self

    def extra_repr(self) -> str:
        """Return the options."""
        shape = "none yet" if self._is_empty() else "×".join(map(str, self.anchors.shape))
        kind = "held" if self._encoder is None else "embedded" if self.momentum is None else "averaged"
        return f"anchors={shape} ({kind}), similarity={self.similarity!r}, output={self.output!r}"

    def _hold(self, encoder: Encoder | None, samples: Tensor | None) -> None:
        # Bypasses nn.Module, which would register the encoder a second time.
        self.__dict__["_encoder"] = encoder
        self.register_buffer("samples", samples, persistent=False)
        self._stale = False

    def _is_empty(self) -> bool:
        return self.anchors.numel() == 0

    def _is_outdated(self) -> bool:
        return self._is_empty() or (self._stale and self.momentum is None)

    def _current_anchors(self) -> Tensor:
        if self._encoder is None:
            if self._is_empty():
                raise RuntimeError("There are no anchors yet: give them, or load a state_dict that contains them.")
            return self.anchors
        if self.training and self.samples is not None:
            return self._trained()
        if self._is_outdated():
            if is_exported(self.anchors):
                raise RuntimeError(
                    "The anchors were not embedded since the last training step, and an export cannot do that: "
                    "call model.eval(), then freeze() on the relative projection, and export again."
                )
            self.refresh()
        return self.anchors

    def _trained(self) -> Tensor:
        self._stale = True
        grad = self.anchor_grad and torch.is_grad_enabled()
        with torch.set_grad_enabled(grad), no_autocast_cache(self.anchors.device.type):
            fresh = self._embedded(training=True)
        if self.momentum is None:
            return fresh
        fresh = fresh.to(torch.promote_types(fresh.dtype, torch.float32))  # float16 would round small steps away
        # A new tensor, because the last one may still be needed by a backward pass.
        self.anchors = fresh if self._is_empty() else torch.lerp(fresh, self.anchors.to(fresh.dtype), self.momentum)
        return self.anchors

    def _project(self, x: Tensor, anchors: Tensor) -> Tensor:
        x, anchors = NORMALIZATIONS[self.normalize](x, anchors)
        return normalized_output(resolve(self.similarity)(x, anchors), self.output)  # type: ignore[no-any-return]

    def _embed_and_hold(self) -> None:
        # The anchors outlive the current mode: full precision, and usable in a later backward pass.
        with torch.no_grad(), no_autocast(self.anchors.device.type), ordinary_tensors():
            self.anchors = self._embedded(training=False)
        self._stale = False

    def _embedded(self, *, training: bool) -> Tensor:
        if self._encoder is None or self.samples is None:
            raise RuntimeError("There are no anchor samples to embed: the anchors are fixed.")
        return _as_vectors(embed(self._encoder, self.samples, training=training))

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        # The saved anchors are those of evaluation, also if the last step has changed the encoder.
        if self.samples is not None and self._is_outdated():
            self._embed_and_hold()
        super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(f"{prefix}anchors")
        if saved is not None and (self._is_empty() or self._encoder is not None):
            shaped = self.anchors.detach().new_empty(saved.shape)
            self.anchors = nn.Parameter(shaped) if isinstance(self.anchors, nn.Parameter) else shaped
            self._stale = False
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _check_options(
    encoder: Encoder | None, momentum: float | None, anchor_grad: bool, normalize: str, output: str
) -> None:
    for name, value, known in (("normalize", normalize, NORMALIZATIONS), ("output", output, OUTPUTS)):
        if value not in known:
            raise ValueError(f"{name} is {value!r}.{suggest(value, known)}")
    if momentum is None:
        return
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum is {momentum}: expected at least 0 and less than 1.")
    if encoder is None:
        raise ValueError("momentum is for anchors that an encoder embeds: give encoder, or leave momentum out.")
    if anchor_grad:
        raise ValueError("An average over past steps has no gradient: choose momentum or anchor_grad.")


def _as_vectors(anchors: Tensor | None) -> Tensor:
    if not isinstance(anchors, Tensor) or anchors.ndim != 2 or not anchors.is_floating_point():
        given = f"shape {tuple(anchors.shape)} and dtype {anchors.dtype}" if isinstance(anchors, Tensor) else "no shape"
        raise ValueError(
            f"The anchors have {given}: expected a floating 2-D tensor, one vector per row. "
            "Anchor samples need an encoder that embeds them, and one that gives more axes needs nn.Flatten."
        )
    return anchors
