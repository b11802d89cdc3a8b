"""The result of a stitching matrix: scores of pairs, as a table and as a heatmap with one square per method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from relatent._array import suggest
from relatent._errors import needs
from relatent._files import atomic_write
from relatent._terminal import Tabular, render

SHADES = ("#f8f9fa", "#d0ebff", "#74c0fc", "#1c7ed6", "#0b3a66")
OWN, MISSING, GREY = "#d9480f", "#e9ecef", "#868e96"
ACROSS = 4
# Ratio of the largest to the smallest error above which the scale of colors is logarithmic.
WIDE = 20.0


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
        """Value over own: the share of an accuracy that is kept, the factor by which an error grows."""
        return self.value / self.own if self.value is not None and self.own else None


@dataclass(frozen=True)
class StitchControl:
    """What a decoder scores by a method when there is nothing of the encoder to read, or no translation of it.

    ``control`` is "random encoder" (weights or vectors that nobody trained, translated by the method), "shuffled pairs"
    (a true encoder, its anchors paired at random), or "majority" (the most frequent answer of the decoder on its own
    encoder, or their mean, for every row). A stitch that is no better than these says nothing about its encoder.
    """

    control: str
    encoder: str | None
    decoder: str
    method: str | None
    value: float | None


@dataclass(frozen=True)
class StitchingMatrix(Tabular):
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
    controls: tuple[StitchControl, ...] = ()
    """What the same decoders score for the wrong reasons, where ``controls=True`` was given."""

    def __iter__(self) -> Iterator[StitchedPair]:
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
        """Return the score of a decoder on its own encoder, on the kind of vectors that this method gives it."""
        return self[decoder, decoder, method if method in self._read_alone else "absolute"].value

    def values(self, method: str) -> np.ndarray:
        """Return the values of one method, encoders × decoders: NaN where not available, own values on a match."""
        if method not in self.methods:
            raise ValueError(f"There is no method {method!r}.{suggest(method, self.methods)}")
        of = {(p.encoder, p.decoder): p.value for p in self.pairs if p.method == method}
        of |= {(decoder, decoder): self.own(decoder, method) for decoder in self.decoders}
        table = [[of[encoder, decoder] for decoder in self.decoders] for encoder in self.encoders]
        return np.asarray(table, dtype=np.float64)

    def mean(self, method: str) -> float:
        """Average a method over the pairs of different encoders where it is available; NaN if it is nowhere."""
        return _mean([p.value for p in self._apart(method)])

    def control(self, name: str, method: str | None = None) -> float:
        """Average a control over decoders and encoders, of one method; NaN where it is not available."""
        known = tuple(dict.fromkeys(c.control for c in self.controls))
        if name not in known:
            raise ValueError(f"There is no control {name!r}.{suggest(name, known) if known else ' Use controls=True.'}")
        return _mean([c.value for c in self.controls if c.control == name and c.method in (None, method)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        about = {name: getattr(self, name) for name in ("metric", "larger_is_better", "n_anchors", "n_test", "seed")}
        return {**about, "pairs": self.records(), "controls": [asdict(one) for one in self.controls]}

    def records(self) -> list[dict[str, Any]]:
        """Return one record per pair."""
        return [asdict(pair) | {"kept": pair.kept} for pair in self.pairs]

    def heatmap(self, path: str | Path | None = None, title: str | None = None) -> np.ndarray:
        """Draw encoders × decoders and return the axes, one per method; written as a PNG only if a path is given."""
        axes = draw(self, title)
        if path is not None:
            with atomic_write(path) as tmp:
                axes[0].figure.savefig(tmp, format="png")
        return axes

    def __str__(self) -> str:
        header, *lines = self._cells()
        header = [name.replace("_", "\n").replace(", ", ",\n") for name in header]
        return "\n".join([self._caption(), render(header, lines, numbers=range(2, len(header))), *self._notes()])

    def _repr_html_(self) -> str:
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
        values = [
            [self.own(d, method) if own else self[e, d, method].value for method, own in columns.values()]
            for e, d in apart
        ]
        means = [_mean(list(column)) for column in zip(*values, strict=True)]
        return [
            ["encoder", "decoder", *columns],
            *([e, d, *map(_figure, line)] for (e, d), line in zip(apart, values, strict=True)),
            ["mean", f"{len(apart)} pairs", *map(_figure, means)],
            *(
                [name, "control", *("" if own else _figure(self.control(name, m)) for m, own in columns.values())]
                for name in dict.fromkeys(c.control for c in self.controls)
            ),
        ]

    @property
    def _read_alone(self) -> tuple[str, ...]:
        """Methods whose decoders read vectors of their own kind, so that they are also scored on their own encoder."""
        return tuple(dict.fromkeys(p.method for p in self.pairs if p.encoder == p.decoder))

    def _columns(self) -> dict[str, tuple[str, bool]]:
        """Return the method of each column, and whether it shows own values: one such for each kind of vectors."""
        columns = {"own": ("absolute", True)}
        for method in self.methods:
            if method in self._read_alone and method != "absolute":
                columns[f"own, {method}"] = (method, True)
            columns[method] = (method, False)
        return columns

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


def draw(matrix: StitchingMatrix, title: str | None = None) -> np.ndarray:
    """Draw encoders × decoders, one axes per method, and return the axes; decoders on their own encoders are framed."""
    figure_class = needs("matplotlib.figure", "demo", "draw a heatmap").Figure
    tables = {method: matrix.values(method) for method in matrix.methods}
    across = min(ACROSS, len(tables))
    down = -(-len(tables) // across)
    height, width = 0.52 * len(matrix.encoders) + 1.1, 0.68 * len(matrix.decoders) + 0.5
    figure = figure_class(figsize=(across * width + 2.2, down * height + 1.0), dpi=130, layout="constrained")
    figure.suptitle(title or f"Decoders under other encoders: {matrix.metric}", fontsize=12.5)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    colors = _colors(np.concatenate([table.ravel() for table in tables.values()]), matrix.larger_is_better)
    for i, (ax, (method, values)) in enumerate(zip(axes, tables.items(), strict=False)):
        _square(ax, matrix, method, values, colors)
        ax.set_yticks(range(len(matrix.encoders)), _wrapped(matrix.encoders) if i % across == 0 else [])
        bottom = i + across >= len(tables)
        ax.set_xticks(range(len(matrix.decoders)), _wrapped(matrix.decoders) if bottom else [], rotation=35, ha="right")
        ax.set_ylabel("encoder" if i % across == 0 else "", color=GREY)
        ax.set_xlabel("decoder trained on" if bottom else "", color=GREY)
    for ax in axes[len(tables) :]:
        ax.set_visible(False)
    bar = figure.colorbar(colors, ax=axes.tolist(), shrink=0.75, pad=0.015, aspect=26)
    bar.outline.set_visible(False)
    legend = f"framed: on its own encoder, the ceiling. {matrix.n_anchors} anchors, {matrix.n_test:,} test rows."
    figure.supxlabel(legend, x=0.99, ha="right", fontsize=8, color=GREY)  # constrained layout keeps it free
    return np.asarray(axes[: len(tables)])


def _square(ax: Any, matrix: StitchingMatrix, method: str, values: np.ndarray, colors: Any) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    rgba = np.where(np.isnan(values)[..., None], to_rgba(MISSING), colors.to_rgba(values))
    ax.imshow(rgba, aspect="auto")
    mean = matrix.mean(method)
    words = method.replace("_", " ")
    ax.set_title(words if np.isnan(mean) else f"{words}, mean {_short(mean)}", fontsize=10)
    for (i, j), value in np.ndenumerate(values):
        dark = rgba[i, j, :3] @ (0.299, 0.587, 0.114) < 0.62
        words = "n/a" if np.isnan(value) else _short(value)
        color = GREY if np.isnan(value) else "white" if dark else "#212529"
        ax.text(j, i, words, ha="center", va="center", fontsize=8.5, color=color)
        if matrix.encoders[i] == matrix.decoders[j]:
            ax.add_patch(Rectangle((j - 0.46, i - 0.46), 0.92, 0.92, fill=False, edgecolor=OWN, linewidth=1.8))
    ax.set_xticks(np.arange(values.shape[1] + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(values.shape[0] + 1) - 0.5, minor=True)
    ax.grid(which="minor", color="white", linewidth=2)
    ax.tick_params(which="both", length=0, labelsize=9)
    ax.spines[:].set_visible(False)


def _colors(values: np.ndarray, larger_is_better: bool) -> Any:
    """Return one scale for all squares, dark is good: from 0 to 1 for shares, logarithmic for errors far apart."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    found = values[np.isfinite(values)]
    low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
    shades = SHADES if larger_is_better else SHADES[::-1]
    if not larger_is_better and low > 0 and high > WIDE * low:
        norm: Any = LogNorm(low, high)
    else:
        share = low >= 0 and high <= 1 and larger_is_better
        norm = Normalize(0.0, 1.0) if share else Normalize(low, high if high > low else low + 1)
    return ScalarMappable(norm, LinearSegmentedColormap.from_list("stitching", shades))


def _wrapped(names: tuple[str, ...]) -> list[str]:
    return [fill(name, 16) for name in names]


def _short(value: float) -> str:
    """Return two significant digits, without the leading zero."""
    if not 0 < value < 1:
        return f"{value:.3g}"
    digits = f"{value:.2f}" if value >= 0.1 else f"{value:#.2g}"
    return digits.removeprefix("0")
