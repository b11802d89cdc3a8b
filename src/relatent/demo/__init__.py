"""DEMO: an old model's vectors read by a new one, on digits that scikit-learn carries; files and a picture are left."""

from relatent.demo.digits import Network, Upgrade, digits_upgrade
from relatent.demo.report import DemoReport, run_demo

__all__ = ["DemoReport", "Network", "Upgrade", "digits_upgrade", "run_demo"]
