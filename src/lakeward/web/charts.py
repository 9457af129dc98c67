"""Converts numbers to shapes of SVG, for charts in templates: lines and heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 300
HEIGHT: Final = 48
_EDGE: Final = 4
CELL: Final = 24
_ACROSS: Final = 20
_SHADES: Final = 5


def line(values: Sequence[float | None]) -> str:
    """Return the points of an SVG polyline from left to right; skip values that are None.

    The smallest value is at the bottom and the largest at the top.
    """
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    if not known:
        return ""
    low, high = min(v for _, v in known), max(v for _, v in known)
    across = (WIDTH - 2 * _EDGE) / max(1, len(values) - 1)
    up = (HEIGHT - 2 * _EDGE) / (high - low) if high > low else 0.0
    points = ((_EDGE + place * across, HEIGHT - _EDGE - (v - low) * up) for place, v in known)
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


@dataclass(frozen=True, slots=True)
class Cell:
    """One square of a heat map.

    Attributes:
        x: The distance from the left.
        y: The distance from the top.
        shade: From 0, for nothing, to 5, for the largest value of the map.
        name: What it stands for.
        value: Its value.
    """

    x: int
    y: int
    shade: int
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Squares in rows, whose shades show values."""

    width: int
    height: int
    cells: tuple[Cell, ...]


def heat(values: Sequence[tuple[str, float]]) -> HeatMap:
    """Return a heat map of named values, in rows by name.

    Names with several parts, such as `day=1/region=eu`, have a row for each beginning and a column
    for each last part, unless there would be too many columns.
    """
    ordered = sorted(values)
    last = {name: place for place, name in enumerate(sorted({_parts(n)[1] for n, _ in ordered}))}
    first = {name: place for place, name in enumerate(sorted({_parts(n)[0] for n, _ in ordered}))}
    most = max((value for _, value in ordered), default=0)
    cells = []
    for place, (name, value) in enumerate(ordered):
        row, column = divmod(place, _ACROSS)
        if len(first) > 1 and len(last) <= _ACROSS:
            above, own = _parts(name)
            row, column = first[above], last[own]
        shade = 0 if value <= 0 else max(1, round(value / most * _SHADES))
        cells.append(Cell(column * CELL, row * CELL, shade, name, value))
    width = max((cell.x for cell in cells), default=0) + CELL
    height = max((cell.y for cell in cells), default=0) + CELL
    return HeatMap(width, height, tuple(cells))


def _parts(name: str) -> tuple[str, str]:
    above, _, own = name.rpartition("/")
    return above, own
