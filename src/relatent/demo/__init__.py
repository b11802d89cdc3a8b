"""DEMO: a migration from one model to another, told in plain words, with files and a picture left behind."""

from relatent.demo.story import Told, run

__all__ = ["Told", "run"]
