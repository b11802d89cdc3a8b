"""NN: the core as torch modules, losses and monitors (extra ``torch``)."""

from relatent._extras import needs

needs("torch", "torch", "use relatent.nn")

from relatent.nn.projection import RelativeProjection  # noqa: E402 - torch was asked for first

__all__ = ["RelativeProjection"]
