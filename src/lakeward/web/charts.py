"""Converts numbers to the points of an SVG line, for charts in templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

WIDTH: Final = 300
HEIGHT: Final = 48
_EDGE: Final = 4


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
