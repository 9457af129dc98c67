"""Durations as users write them: `90d`, `30m`, `1h30m`, a `timedelta`, or seconds."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from lakeward.errors import InvalidInput

_PART: Final = re.compile(
    r"(\d+(?:\.\d+)?)\s*(ms|weeks?|w|days?|d|hours?|h|minutes?|min|m|seconds?|s)"
)
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_LONGEST_MS: Final = 10_000 * 366 * 86_400_000


def to_milliseconds(value: object, parameter: str) -> int:
    """Return a duration in milliseconds; raise `InvalidInput`, which names the parameter."""
    if isinstance(value, timedelta):
        found = value // timedelta(milliseconds=1)
    elif isinstance(value, int | float) and not isinstance(value, bool) and value == value:
        found = int(value * 1000) if abs(value) < _LONGEST_MS else -1
    elif isinstance(value, str):
        found = _parsed(value)
    else:
        found = -1
    if not 0 <= found <= _LONGEST_MS:
        what = f"{parameter} is {str(value)[:60]!r}, which is not a duration."
        hint = "Write 90d, 12h, 30m or 1h30m, give seconds as a number, or a timedelta."
        raise InvalidInput(what, hint=hint, parameter=parameter)
    return found


def for_people(milliseconds: int) -> str:
    """Return a duration as text, in days, hours, minutes and seconds: `90d`, `1h30m`."""
    left, parts = max(0, milliseconds), []
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    if left and not parts:
        parts.append(f"{left}ms")
    return "".join(parts) or "0s"


def _parsed(text: str) -> int:
    plain = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        return -1 if float(plain) else 0
    found = list(_PART.finditer(plain))
    if not found or re.sub(r"\s+", "", "".join(m[0] for m in found)) != re.sub(r"\s+", "", plain):
        return -1
    return int(sum(float(m[1]) * _UNITS[_unit(m[2])] for m in found))


def _unit(text: str) -> str:
    return text if text == "ms" else text[0]
