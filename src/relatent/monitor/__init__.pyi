from relatent.monitor.canary import CanaryCheck as CanaryCheck
from relatent.monitor.canary import check_canary as check_canary
from relatent.monitor.canary import make_canary as make_canary
from relatent.monitor.drift import DriftReport as DriftReport
from relatent.monitor.drift import watch_batch as watch_batch
from relatent.monitor.origin import Origin as Origin
from relatent.monitor.origin import list_origins as list_origins
from relatent.monitor.origin import tell_apart as tell_apart
