"""MONITOR: whether a system that runs still sees the model and the items it was built for."""

from typing import TYPE_CHECKING

from relatent._lazy import attach

if TYPE_CHECKING:
    from relatent.monitor.canary import CanaryCheck as CanaryCheck
    from relatent.monitor.canary import check_canary as check_canary
    from relatent.monitor.canary import make_canary as make_canary
    from relatent.monitor.drift import DriftReport as DriftReport
    from relatent.monitor.drift import check_drift as check_drift
    from relatent.monitor.origin import Origin as Origin
    from relatent.monitor.origin import tell_apart as tell_apart
else:
    __getattr__, __dir__, __all__ = attach(__name__)
