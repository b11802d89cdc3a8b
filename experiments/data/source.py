"""Where models and data come from, and what plays each role of an item there."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from experiments.results import HUB, PACKAGED

SOURCE: ContextVar[str] = ContextVar("source", default=PACKAGED)
ORIGINS: set[str] = set()
"""Models and data sets of a hub that were read so far, each with its revision."""


class BySource:
    """What plays a role: one value in packages, another on a hub. Stands for that of the current source.

    >>> encoders = BySource(packages=("minilm", "use"), hub=("BERT", "RoBERTa"))
    >>> token = SOURCE.set("hub")
    >>> list(encoders), encoders[0], "use" in encoders
    (['BERT', 'RoBERTa'], 'BERT', False)
    >>> SOURCE.reset(token)
    """

    def __init__(self, packages: Any, hub: Any) -> None:
        self._values = {PACKAGED: packages, HUB: hub}

    @property
    def value(self) -> Any:
        """The value itself."""
        return self._values[SOURCE.get()]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_values":
            raise AttributeError(name)
        return getattr(self.value, name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __getitem__(self, key: Any) -> Any:
        return self.value[key]

    def __contains__(self, key: Any) -> bool:
        return key in self.value

    def __str__(self) -> str:
        return str(self.value)


def on_hub() -> bool:
    """Return whether models and data come from a hub."""
    return bool(SOURCE.get() == HUB)
