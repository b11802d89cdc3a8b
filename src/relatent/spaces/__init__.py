"""HOLD: vectors, and the normalisations that are fitted on anchors and applied to samples."""

from relatent.spaces.normalize import Normalizer, live_dimensions

__all__ = ["Normalizer", "live_dimensions"]
