"""MONITOR: whether a system that runs still sees the model and the items it was built for."""

from relatent.monitor.canary import CanaryCheck, check_canary, make_canary
from relatent.monitor.drift import DriftReport, watch_batch
from relatent.monitor.origin import Origin, list_origins, tell_apart

__all__ = [
    "CanaryCheck",
    "DriftReport",
    "Origin",
    "check_canary",
    "list_origins",
    "make_canary",
    "tell_apart",
    "watch_batch",
]
