"""Similarity of a latent space to a reference: measured, as a loss, and logged during a Lightning run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from relatent import anchors as choose
from relatent._array import as_labels, check_one_device, check_same_width, suggest, to_numpy
from relatent._errors import needs
from relatent.evaluate.linear import cka
from relatent.evaluate.pairwise import relative_relation, relative_similarity
from relatent.nn.forward import check_batch, in_mode, in_single_at_least

# Enough anchors to distinguish spaces, few enough to log every epoch.
MAX_ANCHORS = 300
# One library under two names; the trainer of each accepts only its own callbacks.
LIGHTNING = ("lightning.pytorch", "pytorch_lightning")


def latent_similarity(
    model: Any,
    reference: Any,
    samples: Tensor | None = None,
    *,
    layer: str | None = None,
    anchor_rows: Any = None,
    center: bool = True,
    batch_size: int = 512,
    prefix: str = "",
    log: Callable[[dict[str, float]], Any] | None = None,
) -> dict[str, float]:
    """Measure how similar a latent space is to a reference: relative similarity and CKA, for any logger.

    ``model`` is a module or a function of ``samples``, or an array of vectors. ``layer`` names a submodule (as in
    ``model.named_modules()``) whose output is used instead of the model's. ``reference`` are the vectors of the same
    samples in another model, of any width. ``anchor_rows`` are the rows to use as anchors, by default up to 300 from a
    fixed seed; ``center=False`` compares raw cosines to them, as the paper does. ``log`` is called with the result:
    ``wandb.log``, ``mlflow.log_metrics``, ``history.append``, ….

    The model is unchanged afterwards: the mode of every submodule, statistics, gradients and hooks.

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
    anchors = choose.uniform(x, min(MAX_ANCHORS, len(x)), 0) if anchor_rows is None else anchor_rows
    rows = as_labels(anchors, "anchor_rows")
    values = {"relative_similarity": float(relative_similarity(x, y, rows, center=center)), "cka": float(cka(x, y))}
    values = {prefix + name: value for name, value in values.items()}
    if log is not None:
        log(values)
    return values


class RelativeSimilarityLoss(nn.Module):
    r"""One minus the relative similarity of a student to a teacher: distillation without labels.

    .. math:: 1 - \frac1n \sum_i \cos\left(\cos(x_i, A_X), \cos(y_i, A_Y)\right)

    x and y are the same samples in the spaces of the student and the teacher, :math:`A_X` and :math:`A_Y` the same
    anchors; the two spaces may differ in width. 0: equal up to rotation, reflection, one scale and (with ``center``) an
    offset, none of which changes it; 1: unrelated. So the student is free to choose its coordinates. Gradients flow to
    the student's vectors and anchors, never to the teacher. Anchors may be rows of the batch itself. The measure is
    :func:`relatent.evaluate.relative_similarity`.

    References: Moschella et al., ICLR 2023, section 4.2.

    >>> y = torch.randn(20, 8)
    >>> rotated = y @ torch.linalg.qr(torch.randn(8, 8))[0]
    >>> abs(round(float(RelativeSimilarityLoss()(rotated, y, rotated[:5], y[:5])), 5))
    0.0
    """

    def __init__(self, *, center: bool = True) -> None:
        super().__init__()
        self.center = center

    def forward(self, student: Tensor, teacher: Tensor, student_anchors: Tensor, teacher_anchors: Tensor) -> Tensor:
        """Compare a batch, each side with its own embedding of the same anchors."""
        _check_parallel(student, teacher, student_anchors, teacher_anchors)
        teacher, teacher_anchors = teacher.detach(), teacher_anchors.detach()
        return in_single_at_least(self._distance, student, teacher, student_anchors, teacher_anchors)

    def _distance(self, x: Tensor, y: Tensor, x_anchors: Tensor, y_anchors: Tensor) -> Tensor:
        a = relative_relation(x, x_anchors, center=self.center)
        b = relative_relation(y, y_anchors, center=self.center)
        return 1 - (a * b).sum(dim=1).mean()  # type: ignore[no-any-return]


class LatentMonitor:
    """A Lightning callback that logs relative similarity and CKA to a reference at the end of every epoch.

    ``samples``, ``reference`` and ``center`` as in :func:`~relatent.nn.latent_similarity`; ``layer`` names a submodule
    of the LightningModule, say "encoder". With ``every_n_steps`` it also logs during an epoch. The values go through
    ``log_dict`` of the module, so that they reach every logger of the trainer, and checkpoints and early stopping can
    monitor ``latent/relative_similarity`` and ``latent/cka``.

    Works with ``lightning`` and ``pytorch_lightning`` (extra ``lightning``).

    ``Trainer(callbacks=[LatentMonitor(samples, teacher_vectors, layer="encoder")])``
    """

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Make it a callback of the Lightning package in use."""
        made: type[Self] = _as_callback(cls, _libraries())  # type: ignore[arg-type]
        return super().__new__(made)

    def __init__(
        self,
        samples: Tensor,
        reference: Any,
        *,
        layer: str | None = None,
        anchor_rows: Any = None,
        center: bool = True,
        every_n_steps: int | None = None,
        batch_size: int = 512,
        prefix: str = "latent/",
    ) -> None:
        if every_n_steps is not None and every_n_steps < 1:
            raise ValueError(f"every_n_steps is {every_n_steps}: expected at least 1, or None for epochs only.")
        self.samples, self.reference = samples, reference
        self.layer, self.anchor_rows, self.center = layer, anchor_rows, center
        self.every_n_steps, self.batch_size, self.prefix = every_n_steps, batch_size, prefix

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Log every ``every_n_steps`` steps."""
        if self.every_n_steps is not None and trainer.global_step % self.every_n_steps == 0:
            pl_module.log_dict(self.measure(pl_module), on_step=True, on_epoch=False)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log after an epoch."""
        pl_module.log_dict(self.measure(pl_module))

    def measure(self, pl_module: Any) -> dict[str, float]:
        """Compare the current module with the reference."""
        return latent_similarity(
            pl_module,
            self.reference,
            self.samples.to(pl_module.device),
            layer=self.layer,
            anchor_rows=self.anchor_rows,
            center=self.center,
            batch_size=self.batch_size,
            prefix=self.prefix,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Allow pickling, for trainers of several processes: the class is created here, not importable."""
        return _rebuilt, (dict(self.__dict__),)


def captured(model: Any, samples: Tensor, *, layer: str | None = None, batch_size: int = 512) -> Tensor:
    """Return the vectors of samples, in evaluation mode and without gradient, and leave the model unchanged.

    More than two axes are flattened; of several outputs the first is used.

    >>> captured(nn.Sequential(nn.Linear(5, 3), nn.ReLU()), torch.randn(4, 5), layer="0").shape
    torch.Size([4, 3])
    """
    if not isinstance(model, nn.Module):
        if layer is not None:
            raise TypeError(f"layer is {layer!r}, and the model is a function: expected a torch module.")
        return _as_rows(model(samples))
    seen: list[Tensor] = []
    observed = model if layer is None else submodule(model, layer)
    handle = observed.register_forward_hook(lambda _module, _given, output: seen.append(_as_rows(output)))
    with handle, in_mode(model, lambda _: False), torch.no_grad():
        return torch.cat([_one_pass(model, batch, seen) for batch in torch.split(samples, batch_size)])


def _one_pass(model: nn.Module, batch: Tensor, seen: list[Tensor]) -> Tensor:
    """Run a batch; a relative layer may run the observed encoder once more, on its anchors."""
    seen.clear()
    model(batch)
    vectors = next((v for v in seen if len(v) == len(batch)), None)
    if vectors is None:
        raise ValueError(
            f"The layer gave {[len(v) for v in seen]} rows for a batch of {len(batch)}: expected one vector per "
            "sample. Name a layer that every sample passes through once."
        )
    return vectors


def _as_rows(output: Any) -> Tensor:
    output = output[0] if isinstance(output, tuple | list) else output
    if not isinstance(output, Tensor):
        raise TypeError(f"The output is a {type(output).__name__}: expected a tensor. Name a layer that returns one.")
    return output.detach().reshape(len(output), -1)


def submodule(model: nn.Module, layer: str) -> nn.Module:
    """Return the layer of a name; an unknown name is answered with close ones."""
    known: dict[str, nn.Module] = dict(model.named_modules())
    if layer not in known:
        raise ValueError(f"The model has no layer {layer!r}.{suggest(layer, [n for n in known if n])}")
    return known[layer]


def _check_parallel(student: Tensor, teacher: Tensor, student_anchors: Tensor, teacher_anchors: Tensor) -> None:
    named = {"student": student, "teacher": teacher}
    anchors = {"student_anchors": student_anchors, "teacher_anchors": teacher_anchors}
    for name, x in (named | anchors).items():
        check_batch(x, name)
    check_one_device(**named, **anchors)
    check_same_width(student=student, student_anchors=student_anchors)
    check_same_width(teacher=teacher, teacher_anchors=teacher_anchors)
    for pair in (named, anchors):
        if len({len(x) for x in pair.values()}) > 1:
            given = " and ".join(f"{name} has {len(x)} rows" for name, x in pair.items())
            raise ValueError(f"{given}: expected row-aligned arrays of the same length.")


def _rebuilt(state: dict[str, Any]) -> LatentMonitor:
    monitor = LatentMonitor.__new__(LatentMonitor)
    monitor.__dict__.update(state)
    return monitor


def _libraries() -> tuple[str, ...]:
    """Return the imported packages, since the trainer comes from there; by default the installed one."""
    imported = tuple(name for name in LIGHTNING if name in sys.modules)
    if imported:
        return imported
    installed = [name for name in LIGHTNING if find_spec(name.split(".")[0]) is not None]
    return ((installed or LIGHTNING)[0],)


@cache
def _as_callback(cls: type, libraries: tuple[str, ...]) -> type:
    bases = (needs(name, "lightning", "watch a Lightning run").Callback for name in libraries)
    return type(cls.__name__, (cls, *bases), {"__module__": cls.__module__, "__doc__": cls.__doc__})
