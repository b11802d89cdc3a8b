"""EXPLORE: two or more spaces side by side in the browser, and a slider from as they are to translated.

The page is built from ``web/`` when the package is built (extra ``explore`` to serve it).
"""

from relatent.explore.app import make_app, run, write_page
from relatent.explore.exploration import Exploration
from relatent.explore.scene import Scene

__all__ = ["Exploration", "Scene", "make_app", "run", "write_page"]
