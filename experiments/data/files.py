"""Where experiments find their data: files that are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

VARIABLE = "RELATENT_DATA"


def locate(name: str, folder: str | os.PathLike[str] | None = None) -> Path:
    """Find a data file in the given folder, else in the one that RELATENT_DATA names, else in ``data/``."""
    path = Path(folder or os.environ.get(VARIABLE) or "data") / name
    if not path.is_file():
        raise SystemExit(
            f"{path} does not exist. Put {name} into a folder and name that folder with --data or {VARIABLE}."
        )
    return path


def load_spaces(name: str, wanted: list[str], folder: str | os.PathLike[str] | None = None) -> dict[str, np.ndarray]:
    """Read parallel spaces out of an .npz file, as float32."""
    with np.load(locate(name, folder), allow_pickle=False) as file:
        missing = [space for space in wanted if space not in file.files]
        if missing:
            raise SystemExit(f"{name} holds {', '.join(file.files)}: {', '.join(missing)} is missing.")
        return {space: file[space].astype(np.float32) for space in wanted}
