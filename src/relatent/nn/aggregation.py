"""Several similarities as one: the product of invariances, summed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relatent.nn.forward import check_batch


class SumAggregation(nn.Module):
    r"""Sum the parts of a combined relative projection, each normalized and projected by weights of its own.

    .. math:: h(r) = \sum_{i=1}^{p} \tanh\left(W_i \operatorname{LayerNorm}_i(r_i) + b_i\right)

    with :math:`r = (r_1, \dots, r_p)` the similarities of p kinds to the same k anchors, side by side
    (:func:`relatent.project.similarity.combine`): (n, p k) → (n, dim). Which transformation relates two encoders is
    rarely known beforehand; where some of the kinds are unchanged by it, the weights can read those.

    The layer belongs to the head: it is trained with it, and reads any encoder through that encoder's own anchors, as
    :class:`relatent.nn.RelativeProjection` with ``output="none"`` gives them. LayerNorm takes the scale of the
    similarities out, so distances are also unchanged by one scale of the encoder's space, up to its small constant. All
    parts together are unchanged only by what leaves every one of them unchanged. The paper names the parts of the sum
    (normalization, a linear layer, a nonlinearity); that the latter is a hyperbolic tangent is decided here.

    Parameters
    ----------
    anchors : k, the number of anchors
    parts : p, the number of similarities that were combined
    dim : width of the sum; None for k

    References: Cannistraci et al., ICLR 2024 (product of invariances).

    >>> from relatent.nn import RelativeProjection
    >>> from relatent.project.similarity import combine
    >>> kinds = ("cosine", "euclidean", "l1", "linf")
    >>> relative = RelativeProjection(torch.randn(20, 8), combine(*kinds), output="none")
    >>> head = nn.Sequential(SumAggregation(20, parts=len(kinds)), nn.Linear(20, 3))
    >>> head(relative(torch.randn(5, 8))).shape
    torch.Size([5, 3])
    """

    def __init__(self, anchors: int, parts: int, dim: int | None = None) -> None:
        super().__init__()
        for name, value in (("anchors", anchors), ("parts", parts), ("dim", dim)):
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: expected at least 1.")
        self.anchors, self.dim = anchors, anchors if dim is None else dim
        self.parts = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(anchors), nn.Linear(anchors, self.dim), nn.Tanh()) for _ in range(parts)
        )

    def forward(self, r: Tensor) -> Tensor:
        """Return the sum of the projected parts."""
        check_batch(r, "r")
        expected = self.anchors * len(self.parts)
        if r.shape[1] != expected:
            raise ValueError(
                f"r has shape {tuple(r.shape)}: expected {expected} columns, {len(self.parts)} similarities to "
                f"{self.anchors} anchors. Project with similarity=combine(…) of as many similarities."
            )
        split = r.reshape(-1, len(self.parts), self.anchors)
        return torch.stack([part(split[:, i]) for i, part in enumerate(self.parts)]).sum(dim=0)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"anchors={self.anchors}, dim={self.dim}"
