"""The cache: what is downloaded, unpacked or computed once, and read from then on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

from relatent._terminal import doing

VARIABLE = "RELATENT_CACHE"


def cache_folder() -> Path:
    """Return the folder that RELATENT_CACHE names, else ``~/.cache/relatent-experiments``, made if need be."""
    folder = Path(os.environ.get(VARIABLE) or Path.home() / ".cache" / "relatent-experiments")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def made_once(path: Path, make: Callable[[Path], object]) -> Path:
    """Return a file or folder that ``make`` writes on first use: atomically, by one process at a time.

    ``make`` is given another path to write to, with the same suffix.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):
            if not path.exists():
                beside = path.with_name(f"part-{path.name}")
                with doing(f"making {path.name}, once"):
                    make(beside)
                beside.rename(path)
    return path
