"""The affine map of latentis 0.0.8 (300 steps of Adam) against the closed form, and parity of the shared estimators.

Needs ``pip install latentis==0.0.8``, which is no dependency of relatent; without it the suite says so.
"""

from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.harness import Inputs, Suite, Target
from relatent import Translator
