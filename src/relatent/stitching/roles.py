"""Checks of a stitch before it runs: encoder, translator and decoder in their roles, fitted, of matching widths."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from relatent._array import to_numpy
from relatent.project import RelativeDecoder, RelativeEncoder, RelativeProjection, RelativeTranslator
from relatent.translate import Hub, Translator

TRANSLATORS = (Translator, RelativeTranslator, RelativeProjection, RelativeEncoder, RelativeDecoder)
ANSWERS = ("predict", "predict_proba", "decision_function")
ORDER = "The order is stitch(encoder, translator, decoder)."
SHOWN = 5


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
    if is_module(part):
        from relatent.stitching.modules import edge_width

        return edge_width(part, first=True)
    found = getattr(part, "n_features_in_", getattr(part, "dims_in", None))
    return None if found is None else int(found)


def width_out(part: Any) -> int | None:
    """Return the number of coordinates that a part returns, None if it is unknown."""
    if is_module(part):
        from relatent.stitching.modules import edge_width

        return edge_width(part, first=False)
    if isinstance(part, TRANSLATORS):
        return int(part._n_features_out)
    return int(part.width) if hasattr(part, "dims_in") else None


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
    if not is_module(part) or not part.training:
        return
    from relatent.stitching.modules import mode_matters

    if mode_matters(part):
        warnings.warn(
            f"The {role} is in training mode, so its dropout or batch statistics are active: call {role}.eval().",
            stacklevel=4,
        )


def _described(part: Any) -> str:
    if isinstance(part, type):
        return f"the class {part.__name__} itself"
    return "None" if part is None else f"a {type(part).__name__}"
