"""Stitch an encoder, a translator and a decoder that were never trained together into one model.

Their roles and widths are checked before the model runs.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from typing import Any, TypeVar, cast

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from relatent._array import Array, to_numpy
from relatent.project import RelativeDecoder, RelativeEncoder, RelativeProjection, RelativeTranslator
from relatent.spaces.space import Space
from relatent.translate import Hub, Translator

TRANSLATORS = (Translator, RelativeTranslator, RelativeProjection, RelativeEncoder, RelativeDecoder)
ANSWERS = ("predict", "predict_proba", "decision_function")
ORDER = "The order is stitch(encoder, translator, decoder)."
SHOWN = 5
F = TypeVar("F", bound=Callable[..., Any])


def stitch(encoder: Any, translator: Any, decoder: Any) -> Any:
    r"""Put an encoder under a decoder that was trained on another: :math:`d(t(e(\text{samples})))`.

    Parameters
    ----------
    encoder : turns samples into vectors
        A function, a torch module, or an object with ``encode`` (preferred to a call) or ``transform``. None if the
        samples are vectors already.
    translator : maps the encoder's vectors into the space that the decoder was trained on
        A fitted :class:`~relatent.Translator` or :class:`~relatent.RelativeTranslator`; a fitted
        :class:`~relatent.RelativeProjection` for a decoder trained on relative vectors; a torch module, any function
        (of a hub, ``functools.partial(hub.translate, source=…, target=…)``), or None.
    decoder : reads the translated vectors
        A fitted scikit-learn estimator, a :class:`~relatent.stitching.LinearHead`, a torch module (``decode``
        is used where it has one), or a function.

    Returns
    -------
    A ``torch.nn.Sequential`` with parts ``encoder``, ``translator`` and ``decoder`` if encoder and decoder are torch
    modules, and a :class:`StitchedModel` otherwise. Nothing is trained, copied or changed: train mode, device and
    parameters of the parts stay as they are. A warning is issued for dropout or batch statistics in train mode.

    What breaks it: a translator fitted on other encoders, a decoder trained on vectors with another preprocessing than
    the target's, anchors from another domain than the samples. Widths are checked as soon as they are known.

    References: Moschella et al., ICLR 2023, section 5; Maiorca et al., NeurIPS 2023, section 4.

    >>> import numpy as np
    >>> import relatent as rl
    >>> rng = np.random.default_rng(0)
    >>> x, q = rng.normal(size=(100, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    >>> head = rl.stitching.LinearHead(np.eye(4)[:2], np.zeros(2), np.asarray(["a", "b"]))     # reads x
    >>> model = stitch(lambda samples: samples @ q, rl.Translator("stitching").fit(x @ q, x), head)
    >>> model.score(x, head.predict(x))
    1.0
    """
    check_roles(encoder, translator, decoder)
    if translator is None:
        check_widths("encoder", width_out(encoder), "decoder", width_in(decoder))
    else:
        check_widths("encoder", width_out(encoder), "translator", width_in(translator))
        check_widths("translator", width_out(translator), "decoder", width_in(decoder))
    if is_module(encoder) and is_module(decoder):
        return _modules().as_module(encoder, translator, decoder)
    return StitchedModel(encoder, translator, decoder)


def stitch_at(
    front: Any,
    front_layer: str,
    back: Any,
    back_layer: str,
    samples: Any,
    translator: Any = None,
    *,
    rows: int = 20_000,
    batch_size: int = 256,
    seed: int = 0,
) -> Any:
    r"""Cut two torch networks at named layers, and run the front of one with the back of the other.

    Parameters
    ----------
    front : torch module
        Used up to and including ``front_layer``.
    front_layer : name of a layer, as ``named_modules`` lists it
        Its output is translated position by position: vectors (n, d), token sequences (n, t, d), or feature maps
        (n, d, …). Feature maps of another size are averaged or interpolated to the size that the back expects.
    back : torch module
        Used after ``back_layer``. It takes the same samples.
    back_layer : name of a layer
        Its output is replaced.
    samples : tensor, or mapping of tensors that are passed by name
        The translator is fitted on the outputs of both layers for them; no labels are needed.
    translator : an unfitted estimator
        By default ``Translator("stitching")``.
    rows : int
        About how many positions are drawn to fit on.
    batch_size : int
        Number of samples per pass through the networks.
    seed : int
        Decides which positions are drawn.

    Returns
    -------
    A torch module with the parts ``front``, ``translator`` and ``back``. Both networks stay as they are.

    What breaks it: a path around the back's layer, such as a skip connection, by which its own activations reach the
    output. This is detected, and a warning is issued.

    References: Lenc & Vedaldi, CVPR 2015, trained such layers; Moschella et al., ICLR 2023, name them as future work.

    >>> import torch
    >>> from torch import nn
    >>> def network(seed):
    ...     torch.manual_seed(seed)
    ...     return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    >>> model = stitch_at(network(0), "1", network(1), "1", torch.randn(200, 8))
    >>> model(torch.randn(5, 8)).shape
    torch.Size([5, 3])
    """
    fitted = Translator("stitching") if translator is None else translator
    network = _modules().CutNetwork(front, front_layer, back, back_layer)
    return network.fit(samples, fitted, rows=rows, batch_size=batch_size, seed=seed)


def _if_decoder_has(name: str) -> Callable[[F], F]:
    return cast(Callable[[F], F], available_if(lambda model: hasattr(model.decoder, name)))


class StitchedModel:
    """What :func:`relatent.stitch` returns for parts that are not all torch modules: samples in, predictions out.

    ``predict``, ``predict_proba``, ``decision_function``, ``score`` and ``classes_`` exist if the decoder has them.
    Calling the model calls the decoder, or predicts if that is not callable. Scikit-learn decoders receive NumPy
    arrays without gradient, torch decoders tensors on their device.
    """

    def __init__(self, encoder: Any, translator: Any, decoder: Any) -> None:
        self.encoder, self.translator, self.decoder = encoder, translator, decoder

    def vectors(self, samples: Any) -> Array:
        """Return the input of the decoder: encoded and translated samples."""
        with without_graph() if self._answers else nullcontext():
            x = self._encoded(samples)
            if isinstance(x, Space) and not isinstance(self.translator, TRANSLATORS):
                x = x.vectors
            giver = "samples" if self.encoder is None else "encoder"
            if self.translator is not None:
                _check_width(giver, x, "translator", self.translator)
                giver, x = "translator", self._translated(x)
        _check_width(giver, x, "decoder", self.decoder)
        return as_numpy(x) if self._answers else x

    def __call__(self, samples: Any) -> Any:
        """Call the decoder on the vectors of the samples; predict if it is not callable."""
        x = self.vectors(samples)
        if not is_module(self.decoder):
            return self.decoder(x) if callable(self.decoder) else self.decoder.predict(x)
        warn_training("decoder", self.decoder)
        return getattr(self.decoder, "decode", self.decoder)(_modules().as_input(x, self.decoder))

    @_if_decoder_has("predict")
    def predict(self, samples: Any) -> Any:
        """Return the decoder's predictions."""
        return self.decoder.predict(self.vectors(samples))

    @_if_decoder_has("predict_proba")
    def predict_proba(self, samples: Any) -> Any:
        """Return the decoder's probabilities of its classes."""
        return self.decoder.predict_proba(self.vectors(samples))

    @_if_decoder_has("decision_function")
    def decision_function(self, samples: Any) -> Any:
        """Return the decoder's scores of its classes."""
        return self.decoder.decision_function(self.vectors(samples))

    @_if_decoder_has("score")
    def score(self, samples: Any, y: Any) -> float:
        """Return the decoder's own score. Labels that are unknown to the decoder are refused, not counted as wrong."""
        if hasattr(self.decoder, "classes_"):
            check_labels(y, self.decoder.classes_)
        return float(self.decoder.score(self.vectors(samples), as_numpy(y)))

    @property
    def classes_(self) -> Any:
        """Classes of the decoder."""
        return self.decoder.classes_

    def __repr__(self) -> str:
        parts = (
            f"{role}={getattr(part, '__name__', type(part).__name__) if part is not None else None}"
            for role, part in vars(self).items()
        )
        return f"StitchedModel({', '.join(parts)})"

    @property
    def _answers(self) -> bool:
        return not is_module(self.decoder) and any(hasattr(self.decoder, name) for name in ANSWERS)

    def _encoded(self, samples: Any) -> Any:
        encoder = self.encoder
        if encoder is None:
            return samples
        if is_module(encoder):
            warn_training("encoder", encoder)
            samples = _modules().as_input(samples, encoder)
        encode = getattr(encoder, "encode", encoder if callable(encoder) else getattr(encoder, "transform", None))
        return encode(samples)  # type: ignore[misc]  # check_roles has ensured one of the three

    def _translated(self, x: Any) -> Any:
        t = self.translator
        if is_module(t):
            return t(_modules().as_input(x, t))
        if isinstance(t, TRANSLATORS):
            out = t.transform(x)
            return out.vectors if isinstance(out, Space) else out
        return t.transform(as_numpy(x)) if hasattr(t, "transform") else t(x)


def _check_width(giver: str, x: Any, reader: str, part: Any) -> None:
    """Check the width of a batch against that of the next part."""
    given = int(x.shape[1]) if getattr(x, "ndim", 0) == 2 else None
    check_widths(giver, given, reader, width_in(part))


def _modules() -> Any:
    """Import what needs torch."""
    return import_module("relatent.stitching.modules")


def without_graph() -> Any:
    """Return a context in which torch, if it is loaded, records no gradients."""
    torch = sys.modules.get("torch")
    return nullcontext() if torch is None else torch.no_grad()


def is_module(part: Any) -> bool:
    """Return whether something is a torch module, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(part, torch.nn.Module)


def as_numpy(x: Any) -> Any:
    """Return arrays of other libraries as NumPy arrays, without gradient; other objects are returned unchanged."""
    return to_numpy(x) if compat.is_array_api_obj(x) and not isinstance(x, np.ndarray) else x


def check_roles(encoder: Any, translator: Any, decoder: Any) -> None:
    """Raise for parts that cannot play their role, and for unfitted parts."""
    _check_encoder(encoder)
    _check_translator(translator)
    _check_decoder(decoder)
    for role, part in (("encoder", encoder), ("translator", translator), ("decoder", decoder)):
        _check_fitted(role, part)
    if getattr(translator, "target_map_", None) is not None:
        raise ValueError(
            'The translator has goal="retrieval", whose output is not in the target\'s space: expected a translator '
            'for a decoder. Fit Translator("stitching") on the same anchors.'
        )


def _check_encoder(part: Any) -> None:
    answers = any(hasattr(part, name) for name in ANSWERS) and not hasattr(part, "transform")
    able = hasattr(part, "encode") or hasattr(part, "transform") or callable(part)
    if part is not None and (not able or answers or isinstance(part, (type, Hub, *TRANSLATORS))):
        raise TypeError(
            f"The encoder is {_described(part)}: expected a function, a torch module, or an object with encode or "
            f"transform. {ORDER} If the samples are vectors already, the encoder is None."
        )


def _check_translator(part: Any) -> None:
    if isinstance(part, Hub):
        raise TypeError(
            "The translator is a Hub of many spaces: expected a translator from one space to another. Give "
            "functools.partial(hub.translate, source=…, target=…)."
        )
    other_role = hasattr(part, "encode") or any(hasattr(part, name) for name in ANSWERS)
    able = hasattr(part, "transform") or (callable(part) and not other_role)
    if part is not None and (not able or isinstance(part, type)):
        raise TypeError(
            f"The translator is {_described(part)}: expected a fitted translator, a function of vectors, or None. "
            f"{ORDER}"
        )


def _check_decoder(part: Any) -> None:
    able = callable(part) or any(hasattr(part, name) for name in ANSWERS)
    if not able or isinstance(part, (type, Hub, *TRANSLATORS)):
        raise TypeError(
            f"The decoder is {_described(part)}: expected a fitted scikit-learn estimator, a torch module or "
            f"a function of vectors. {ORDER}"
        )


def _check_fitted(role: str, part: Any) -> None:
    if not isinstance(part, BaseEstimator):
        return
    try:
        check_is_fitted(part)
    except NotFittedError as error:
        raise NotFittedError(f"The {role}, {_described(part)}, is not fitted yet: call its fit first.") from error


def width_in(part: Any) -> int | None:
    """Return the number of coordinates that a part reads, None if it is unknown."""
    found = getattr(part, "n_features_in_", getattr(part, "dims_in", None))
    if is_module(part):
        found = _modules().edge_width(part, first=True)
    return None if found is None else int(found)


def width_out(part: Any) -> int | None:
    """Return the number of coordinates that a part returns, None if it is unknown."""
    if isinstance(part, TRANSLATORS):
        return int(part._n_features_out)
    found = getattr(part, "width", None) if hasattr(part, "dims_in") else None
    if is_module(part):
        found = _modules().edge_width(part, first=False)
    return None if found is None else int(found)


def check_widths(giver: str, given: int | None, reader: str, read: int | None) -> None:
    """Check that one part returns as many coordinates as the next reads, if both are known."""
    if given is None or read is None or given == read:
        return
    advice = "Give a decoder that was trained on what the translator gives."
    if reader == "translator":
        advice = "Give a translator that was fitted from the vectors of this encoder."
    elif giver != "translator":
        advice = "Fit a translator from this encoder to the decoder's own."
    raise ValueError(
        f"{given} coordinates come from the {giver} and the {reader} reads {read}: expected the same. {advice}"
    )


def check_labels(y: Any, classes: Any) -> None:
    """Raise for labels that a decoder cannot predict, since no translation would make them right."""
    known = set(to_numpy(classes).tolist())
    labels = to_numpy(y)
    if labels.ndim != 1:
        return
    unknown = [label for label in labels.tolist() if label not in known]
    if not unknown:
        return
    names = sorted(set(unknown), key=str)
    shown = ", ".join(map(repr, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")
    raise ValueError(
        f"y holds {len(names)} labels that the decoder does not know ({shown}), in {len(unknown)} of {len(labels)} "
        f"rows: it knows {', '.join(map(repr, sorted(known, key=str)[:SHOWN]))}{', …' if len(known) > SHOWN else ''}. "
        "Name the labels as its classes_ are named, or leave those rows out."
    )


def warn_training(role: str, part: Any) -> None:
    """Warn if the output of a torch module is random, or depends on the batch, because it is in training mode."""
    if is_module(part) and part.training and _modules().mode_matters(part):
        warnings.warn(
            f"The {role} is in training mode, so its dropout or batch statistics are active: call {role}.eval().",
            stacklevel=4,
        )


def _described(part: Any) -> str:
    if isinstance(part, type):
        return f"the class {part.__name__} itself"
    return "None" if part is None else f"a {type(part).__name__}"
