"""EXPLORE: two or more spaces side by side in the browser, before and after translation.

The page is built from ``web/`` with the package; serving it needs the extra ``explore``.
"""

from relatent.explore.app import make_app, run, write_page
from relatent.explore.exploration import Exploration
from relatent.explore.scene import Scene

__all__ = ["Exploration", "Scene", "make_app", "run", "write_page"]
