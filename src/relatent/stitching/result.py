"""The scores of every encoder with every decoder: tidy rows, a table, a heatmap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._atomic import atomic_write
from relatent._terminal import render

__all__ = ["StitchedPair", "StitchingMatrix"]


@dataclass(frozen=True)
class StitchedPair:
    """One encoder read by one decoder through one method.

    ``own`` is the same decoder on its own encoder, the ceiling; a decoder of relative vectors has its own ceiling.
    ``value`` is None where the method is not available, and ``note`` says why.
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
    """Every encoder with every decoder, by every method. Iterate for its pairs, print it for a table.

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
        """Names of the methods."""
        return tuple(dict.fromkeys(pair.method for pair in self.pairs if pair.encoder != pair.decoder))

    def own(self, decoder: str, method: str = "absolute") -> float | None:
        """Return what a decoder reaches on its own encoder, reading what it reads under this method."""
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
        """Return plain values, for JSON."""
        about = {name: getattr(self, name) for name in ("metric", "larger_is_better", "n_anchors", "n_test", "seed")}
        return {**about, "pairs": [asdict(pair) | {"kept": pair.kept} for pair in self.pairs]}

    def to_pandas(self) -> Any:
        """Return a data frame, one row per pair."""
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "pandas is needed for a data frame and is not installed: pip install pandas. to_dict() does without.",
                name="pandas",
            ) from error
        return pd.DataFrame(self.to_dict()["pairs"])

    def heatmap(self, path: str | Path | None = None, title: str | None = None) -> np.ndarray:
        """Draw encoders × decoders and return the axes, one per method; written as a PNG only if a path is given."""
        from relatent.stitching.heatmap import draw

        axes = draw(self, title)
        if path is not None:
            with atomic_write(path) as beside:
                axes[0].figure.savefig(beside, format="png")
        return axes

    def __str__(self) -> str:
        """Lay it out for a person: a line per pair, the ceiling first, the means below."""
        header, *lines = self._cells()
        header = [name.replace("_", "\n").replace(", ", ",\n") for name in header]
        return "\n".join([self._caption(), render(header, lines, numbers=range(2, len(header))), *self._notes()])

    def _repr_html_(self) -> str:
        """Show the same table in a notebook."""
        header, *lines = ([escape(cell) for cell in line] for line in self._cells())
        rows = "".join(f"<tr><td>{'</td><td>'.join(line)}</td></tr>" for line in lines)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return (
            f"<table><caption>{escape(self._caption())}</caption><thead><tr><th>{'</th><th>'.join(header)}</th></tr>"
            f"</thead><tbody>{rows}</tbody></table>{notes}"
        )

    def _caption(self) -> str:
        better = "larger is better" if self.larger_is_better else "smaller is better"
        return (
            f"{self.metric} of decoders under encoders they were not trained on ({better}), {self.n_anchors} "
            f"anchors, {self.n_test:,} test rows. own: the decoder on its own encoder."
        )

    def _cells(self) -> list[list[str]]:
        """Return the header, a line per pair of different encoder and decoder, and their means."""
        columns = self._columns()
        apart = [(e, d) for e in self.encoders for d in self.decoders if e != d]
        values = [[self._shown(e, d, *key) for key in columns.values()] for e, d in apart]
        means = [_mean(list(column)) for column in zip(*values, strict=True)]
        return [
            ["encoder", "decoder", *columns],
            *([e, d, *map(_figure, line)] for (e, d), line in zip(apart, values, strict=True)),
            ["mean", f"{len(apart)} pairs", *map(_figure, means)],
        ]

    @property
    def _read_alone(self) -> tuple[str, ...]:
        """Methods that are read on their own encoder too, because their decoders read vectors of their own kind."""
        return tuple(dict.fromkeys(p.method for p in self.pairs if p.encoder == p.decoder))

    def _columns(self) -> dict[str, tuple[str, bool]]:
        """Return the method of each column, and whether it shows own values: one such for each kind of vectors."""
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
