"""What all stitches of a set of encoders and decoders gave: tidy rows, a table, a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._terminal import render

__all__ = ["StitchedPair", "StitchingMatrix"]


@dataclass(frozen=True)
class StitchedPair:
    """One encoder read by one decoder in one way.

    ``own`` is the same decoder on its own encoder, the ceiling; a decoder of relative vectors has its own ceiling.
    ``value`` is None where the way is not there, and ``note`` says why.
    """

    encoder: str
    decoder: str
    method: str
    value: float | None
    own: float | None
    note: str = ""

    @property
    def kept(self) -> float | None:
        """Value over own: what is kept of an accuracy, by how much an error grows."""
        return self.value / self.own if self.value is not None and self.own else None


@dataclass(frozen=True)
class StitchingMatrix:
    """Every encoder with every decoder, in every way. Iterate for its pairs, print it for a table.

    Where encoder and decoder belong together, the pair is a decoder on its own encoder: method "absolute", and one for
    each kind of relative vectors.
    """

    pairs: tuple[StitchedPair, ...]
    metric: str
    larger_is_better: bool
    n_anchors: int
    n_test: int
    seed: int

    def __iter__(self) -> Iterator[StitchedPair]:
        """Go through the pairs."""
        return iter(self.pairs)

    def __getitem__(self, key: tuple[str, str, str]) -> StitchedPair:
        """Find a pair by (encoder, decoder, method)."""
        for pair in self.pairs:
            if (pair.encoder, pair.decoder, pair.method) == key:
                return pair
        raise KeyError(
            f"{key!r} is not in the matrix: expected (encoder, decoder, method), with encoders "
            f"{', '.join(self.encoders)}, decoders {', '.join(self.decoders)} and methods {', '.join(self.methods)}."
        )

    @property
    def encoders(self) -> tuple[str, ...]:
        """Names of the encoders."""
        return tuple(dict.fromkeys(pair.encoder for pair in self.pairs))

    @property
    def decoders(self) -> tuple[str, ...]:
        """Names of the decoders."""
        return tuple(dict.fromkeys(pair.decoder for pair in self.pairs))

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the ways to stitch."""
        return tuple(dict.fromkeys(pair.method for pair in self.pairs if pair.encoder != pair.decoder))

    def own(self, decoder: str, method: str = "absolute") -> float | None:
        """Give what a decoder reaches on its own encoder, reading what it reads under this method."""
        return self[decoder, decoder, method if method in self._read_alone else "absolute"].value

    def values(self, method: str) -> np.ndarray:
        """Lay one method out, encoders × decoders: NaN where it is not available, own values where both are one."""
        if method not in self.methods:
            raise ValueError(f"There is no method {method!r}.{suggest(method, self.methods)}")
        of = {(p.encoder, p.decoder): p for p in self.pairs if p.method == method}
        out = np.full((len(self.encoders), len(self.decoders)), np.nan)
        for i, encoder in enumerate(self.encoders):
            for j, decoder in enumerate(self.decoders):
                value = self.own(decoder, method) if encoder == decoder else of[encoder, decoder].value
                out[i, j] = np.nan if value is None else value
        return out

    def mean(self, method: str) -> float:
        """Average a method over the pairs of different encoders where it is available; NaN if it is nowhere."""
        return _mean([p.value for p in self._apart(method)])

    def to_dict(self) -> dict[str, Any]:
        """Give plain values, for JSON."""
        about = {name: getattr(self, name) for name in ("metric", "larger_is_better", "n_anchors", "n_test", "seed")}
        return {**about, "pairs": [asdict(pair) | {"kept": pair.kept} for pair in self.pairs]}

    def to_pandas(self) -> Any:
        """Give a data frame, one row per pair."""
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "pandas is needed for a data frame and is not installed: pip install pandas. to_dict() does without.",
                name="pandas",
            ) from error
        return pd.DataFrame(self.to_dict()["pairs"])

    def heatmap(self, path: str | Path, title: str | None = None) -> Path:
        """Draw one square per method, encoders × decoders, and write it as a PNG."""
        from relatent.stitching.picture import draw

        return draw(self, Path(path), title)

    def __str__(self) -> str:
        """Lay it out for a person: a line per pair, the ceiling first, the means below."""
        columns = self._columns()
        header = ("encoder", "decoder", *(name.replace("_", "\n").replace(", ", ",\n") for name in columns))
        apart = [(e, d) for e in self.encoders for d in self.decoders if e != d]
        lines = [(e, d, *(_figure(self._shown(e, d, *key)) for key in columns.values())) for e, d in apart]
        means = [_mean([self._shown(e, d, *key) for e, d in apart]) for key in columns.values()]
        lines.append(("mean", f"{len(apart)} pairs", *map(_figure, means)))
        better = "larger is better" if self.larger_is_better else "smaller is better"
        return "\n".join(
            [
                f"{self.metric} of decoders under encoders they were not trained on ({better}), {self.n_anchors} "
                f"anchors, {self.n_test:,} test rows. own: the decoder on its own encoder.",
                render(header, lines, numbers=range(2, len(header))),
                *self._notes(),
            ]
        )

    @property
    def _read_alone(self) -> tuple[str, ...]:
        """Methods that are read on their own encoder too, because their decoders read vectors of their own kind."""
        return tuple(dict.fromkeys(p.method for p in self.pairs if p.encoder == p.decoder))

    def _columns(self) -> dict[str, tuple[str, bool]]:
        """Give each column its method, and whether it shows own values: one such for each kind of vectors."""
        columns = {"own": ("absolute", True)}
        for method in self.methods:
            if method in self._read_alone and method != "absolute":
                columns[f"own, {method}"] = (method, True)
            columns[method] = (method, False)
        return columns

    def _shown(self, encoder: str, decoder: str, method: str, own: bool) -> float | None:
        return self.own(decoder, method) if own else self[encoder, decoder, method].value

    def _apart(self, method: str) -> list[StitchedPair]:
        return [p for p in self.pairs if p.method == method and p.encoder != p.decoder]

    def _notes(self) -> list[str]:
        missing = {m: [p for p in self._apart(m) if p.value is None] for m in self.methods}
        return [
            f"{method} is not available for {len(pairs)} of {len(self._apart(method))} pairs: {pairs[0].note}."
            for method, pairs in missing.items()
            if pairs
        ]


def _mean(values: list[float | None]) -> float:
    found = [v for v in values if v is not None]
    return float(np.mean(found)) if found else float("nan")


def _figure(value: float | None) -> str:
    return "–" if value is None or np.isnan(value) else f"{value:.3f}" if abs(value) >= 0.01 else f"{value:.2g}"
