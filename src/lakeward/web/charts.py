"""Numbers as the points of a line, for charts that a template draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

WIDTH: Final = 300
HEIGHT: Final = 48
_EDGE: Final = 4


def line(values: Sequence[float | None]) -> str:
    """The points of a line from left to right, as SVG has them; values that are None are left out.

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
