"""The command line: one command per verb. Each reads, calls one library function, and writes.

Nothing heavy is imported before a command runs, so that help and completion answer at once.
"""

from relatent.cli import judging, migrate, monitor, services, spaces, translators  # noqa: F401  they register commands
from relatent.cli.frame import ERROR, NO_GO, NO_VERDICT, OK, USAGE, app

__all__ = ["ERROR", "NO_GO", "NO_VERDICT", "OK", "USAGE", "app"]
