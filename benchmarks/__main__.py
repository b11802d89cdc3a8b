"""Run all suites, or those named: ``python -m benchmarks [suite …] [--quick]``."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.harness import run

# Every module here that is not part of the machinery is a suite.
MACHINERY = ("__init__", "__main__", "harness", "scale", "stored")
SUITES = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if p.stem not in MACHINERY)

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument("suites", nargs="*", metavar="suite", help=f"one or more of: {', '.join(SUITES)} (default: all)")
parser.add_argument("--quick", action="store_true", help="smaller sizes, to see that it runs")
options = parser.parse_args()
unknown = set(options.suites) - set(SUITES)
if unknown:
    parser.error(f"no suite {', '.join(sorted(unknown))}: choose from {', '.join(SUITES)}")
console = Console(width=140)
missed = [name for name in options.suites or SUITES if not run(name, options.quick, console)]
# A quick run is too small to judge by.
sys.exit(1 if missed and not options.quick else 0)
