"""Fingerprints: which model made these vectors, and a probe that gives a wrong answer away."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, fields, replace
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from relatent.spaces.probe import Match, Probe, compare_probes, probe_of

# What a name has beside that of the model, where an embedder was asked for it.
_PROVIDER, _DIMENSIONS = re.compile(r"^(openai|ollama):"), re.compile(r"@\d+$")


@dataclass(frozen=True)
class Fingerprint:
    """What is known about where vectors come from. What is not known is None and is not compared.

    >>> old = Fingerprint(dim=384, model="all-MiniLM-L6-v2", pooling="mean")
    >>> bool(old.matches(Fingerprint(dim=384, model="all-MiniLM-L6-v2")))
    True
    >>> old.matches(Fingerprint(dim=384, model="paraphrase-MiniLM-L3-v2")).reason
    "the model is 'all-MiniLM-L6-v2' in one and 'paraphrase-MiniLM-L3-v2' in the other"
    """

    dim: int
    model: str | None = None
    revision: str | None = None
    pooling: str | None = None
    normalization: str | None = None
    layer: int | None = None
    probe: Probe | None = None

    @staticmethod
    def of(vectors: np.ndarray, **known: Any) -> Fingerprint:
        """Derive the fingerprint of vectors: their dimension and a probe, and what else is known."""
        return Fingerprint(dim=int(vectors.shape[1]), probe=probe_of(vectors), **known)

    def matches(self, other: Fingerprint) -> Match:
        """Say whether both can describe one space: the same, unsure, or foreign.

        What both record must be equal, where a model may go by its name with or without its organization. When a model
        is recorded on one side only, or on neither, the probes decide (``relatent.spaces.probe``): by the rows of one,
        where it was just measured, along the directions in which the other hardly varies. Of an isotropic space, which
        has none, nothing can be told, and nothing is held against it.
        """
        for name in ("dim", "model", "revision", "pooling", "normalization", "layer"):
            mine, theirs = getattr(self, name), getattr(other, name)
            known = mine is not None and theirs is not None
            if known and not (one_model(mine, theirs) if name == "model" else mine == theirs):
                return Match("foreign", f"the {name} is {mine!r} in one and {theirs!r} in the other")
        if self.model is not None and other.model is not None:
            return Match("same", f"both are from {self.model!r}")
        if self.probe is None or other.probe is None:
            return Match("same", "the dimensions are equal; nothing else is known")
        return compare_probes(self.probe, other.probe, self.dim)

    @property
    def id(self) -> str:
        """A short hash that names the space, the same in reports, model cards, services and caches.

        It depends on what is recorded; on the probe only where no model is, as there is nothing else to tell by.

        >>> Fingerprint(384, "all-MiniLM-L6-v2").id
        '412e168f8cbc4e06'
        """
        known = self if self.model is None else self.recorded()
        if known.probe is not None:  # whose quiet directions differ in their last digits from machine to machine
            known = replace(known, probe=replace(known.probe, quiet=None))
        return hashlib.sha256(known.to_json().encode()).hexdigest()[:16]

    def recorded(self) -> Fingerprint:
        """Return the same without the probe: what was said about the vectors, not what was measured."""
        return replace(self, probe=None)

    def without_rows(self) -> Fingerprint:
        """Return the same without the rows that the probe has at hand: what is saved."""
        return self if self.probe is None else replace(self, probe=self.probe.without_rows())

    def to_json(self) -> str:
        """Write as one line of JSON, without what is not known."""
        known = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        if self.probe is not None:
            known["probe"] = self.probe.to_dict()
            if "quiet" in known["probe"]:  # beside the probe, so that earlier versions read the rest
                known["quiet"] = known["probe"].pop("quiet")
        return json.dumps(known, allow_nan=False, ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> Fingerprint:
        """Read what :meth:`to_json` wrote; entries of later versions are passed over."""
        try:
            given = dict(json.loads(text))
            names = {f.name for f in fields(Fingerprint)}
            known = {name: value for name, value in given.items() if name in names}
            if known.get("probe") is not None:
                known["probe"] = Probe.from_dict({**known["probe"], "quiet": given.get("quiet")})
            return Fingerprint(**{**known, "dim": int(known["dim"])})
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"This is not a fingerprint ({error}): expected what to_json gives.") from error


def one_model(a: str, b: str) -> bool:
    """Return whether two names are of one model: equal, or one without the organization, provider or dimensions.

    >>> one_model("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2")
    True
    >>> one_model("openai:text-embedding-3-large@256", "text-embedding-3-large")
    True
    >>> one_model("intfloat/e5-small", "someone-else/e5-small")
    False
    """
    (folder_a, name_a), (folder_b, name_b) = _parts(a), _parts(b)
    return name_a == name_b and (folder_a == folder_b or not folder_a or not folder_b)


def _parts(model: str) -> tuple[str, str]:
    """Split "organization/name" or "provider:name@dimensions"; any other path has no organization."""
    model = _DIMENSIONS.sub("", _PROVIDER.sub(r"\1/", model))
    parts = PurePosixPath(model.replace("\\", "/")).parts
    is_hub = len(parts) == 2 and not model.startswith((".", "/", "~"))
    return (parts[0].casefold() if is_hub else "", parts[-1].casefold() if parts else "")
