"""DELIVER: fitted things leave the process and come back."""

from relatent.deliver.saved import load

__all__ = ["load"]
