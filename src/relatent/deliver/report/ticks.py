"""Axes: where their marks stand and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, log10

__all__ = ["Axis", "number"]

# Steps between marks that people read at a glance, in units of a power of ten.
STEPS = (1, 2, 2.5, 5, 10)


@dataclass(frozen=True)
class Axis:
    """A range of values that is laid out over a range of pixels, with a mark every ``step``, or by logarithm."""

    low: float
    high: float
    start: float
    end: float
    step: float | None = None
    """None: by logarithm."""

    @staticmethod
    def over(values: list[float], start: float, end: float, *, log: bool = False, zero: bool = False) -> Axis:
        """Return an axis on which all values lie, between marks; with ``zero``, zero too.

        >>> Axis.over([0.12, 0.87], 0, 100).ticks()
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        """
        low, high = min(values), max(values)
        if log:
            return Axis(low, high if high > low else 10 * low, start, end)
        low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
        step = _step(low, high)
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        return Axis(step * first, step * max(last, first + 1), start, end, step)

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, value = (v if self.step else log10(v) for v in (self.low, self.high, value))
        return round(self.start + (self.end - self.start) * (value - low) / (high - low), 2)

    def ticks(self) -> list[float]:
        """Return the values to mark."""
        if self.step is None:
            powers = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            marks = [m * 10.0**p for p in powers for m in ((1,) if len(powers) > 4 else (1, 2, 5))]
            return [mark for mark in marks if self.low * 0.999 <= mark <= self.high * 1.001]
        first, last = round(self.low / self.step), round(self.high / self.step)
        return [round(i * self.step, 12) for i in range(first, last + 1)]


def number(value: float) -> str:
    """Return a mark as text, as short as it can be.

    >>> number(0.25), number(20_000), number(1e-5)
    ('0.25', '20,000', '1e-05')
    """
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def _step(low: float, high: float) -> float:
    """Return the step that cuts a range into about five."""
    rough = ((high - low) or abs(high) or 1.0) / 5
    power = 10.0 ** floor(log10(rough))
    return next(step for step in STEPS if step * power >= rough * 0.999) * power
