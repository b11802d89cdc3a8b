"""Latent similarity as a signal to train by."""

from __future__ import annotations

from torch import Tensor, nn

from relatent._array import check_one_device, check_same_width
from relatent.evaluate.pairwise import relative_relation
from relatent.nn.forward import check_batch, in_single_at_least

__all__ = ["RelativeSimilarityLoss"]


class RelativeSimilarityLoss(nn.Module):
    r"""One minus the relative similarity of a student to a teacher: distillation without labels.

    .. math:: 1 - \frac1n \sum_i \cos\left(\cos(x_i, A_X), \cos(y_i, A_Y)\right)

    x and y are the same samples as the student and the teacher see them, :math:`A_X` and :math:`A_Y` the same anchors;
    the two spaces may differ in width. 0: equal up to rotation, reflection, one scale and (with ``center``) an offset,
    none of which changes it; 1: unrelated. So the student is free to choose its own coordinates. Gradients reach
    the student's vectors and anchors, never the teacher. Anchors may be rows of the batch itself. The measure is
    :func:`relatent.evaluate.relative_similarity`.

    References: Moschella et al., ICLR 2023, section 4.2.

    >>> import torch
    >>> y = torch.randn(20, 8)
    >>> rotated = y @ torch.linalg.qr(torch.randn(8, 8))[0]
    >>> abs(round(float(RelativeSimilarityLoss()(rotated, y, rotated[:5], y[:5])), 5))
    0.0
    """

    def __init__(self, *, center: bool = True) -> None:
        super().__init__()
        self.center = center

    def forward(self, student: Tensor, teacher: Tensor, student_anchors: Tensor, teacher_anchors: Tensor) -> Tensor:
        """Compare a batch, each side beside its own embedding of the same anchors."""
        _check_parallel(student, teacher, student_anchors, teacher_anchors)
        teacher, teacher_anchors = teacher.detach(), teacher_anchors.detach()
        return in_single_at_least(self._distance, student, teacher, student_anchors, teacher_anchors)

    def _distance(self, x: Tensor, y: Tensor, x_anchors: Tensor, y_anchors: Tensor) -> Tensor:
        a = relative_relation(x, x_anchors, center=self.center)
        b = relative_relation(y, y_anchors, center=self.center)
        return 1 - (a * b).sum(dim=1).mean()  # type: ignore[no-any-return]


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
            raise ValueError(f"{given}: expected as many, row i of each meaning the same.")
