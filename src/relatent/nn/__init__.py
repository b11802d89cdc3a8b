"""NN: the core as torch modules, losses and monitors (extra ``torch``; the callback needs ``lightning``)."""

# ruff: noqa: E402 - a missing torch must be named before anything imports it
from relatent._errors import needs

needs("torch", "torch", "use relatent.nn")

from relatent.nn.aggregation import SumAggregation
from relatent.nn.monitor import LatentMonitor, RelativeSimilarityLoss, latent_similarity
from relatent.nn.projection import RelativeProjection
from relatent.nn.translation import Translation

__all__ = [
    "LatentMonitor",
    "RelativeProjection",
    "RelativeSimilarityLoss",
    "SumAggregation",
    "Translation",
    "latent_similarity",
]


def __dir__() -> list[str]:
    return __all__
