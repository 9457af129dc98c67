"""Sizes and durations as people write them: `128 MB`, `90 days`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.model.duration import to_milliseconds

_SIZES: Final = {"": 1, "b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30}
_UNITS: Final = {
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
}
_AMOUNT: Final = re.compile(r"(\d+)\s*([a-z]*)")


def size(value: Any, name: str) -> int:
    """Return a size in bytes; raise `InvalidInput` unless it is a whole number or like `128 MB`."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    found = _AMOUNT.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if found is None or found[2] not in _SIZES or int(found[1]) < 1:
        what = f"`{name}` must be a size; it is {value!r}."
        raise InvalidInput(what, hint='Write it as 134217728 or "128 MB".', parameter=name)
    return int(found[1]) * _SIZES[found[2]]


def duration(value: Any, name: str) -> timedelta:
    """Return a duration; raise `InvalidInput` unless it is a timedelta or like `90 days`."""
    plain = value.strip().lower().removeprefix("interval ") if isinstance(value, str) else value
    return timedelta(milliseconds=to_milliseconds(plain, name))


def duration_text(value: timedelta) -> str:
    """Return a duration as `duration` reads it: `90 days`, `36 hours`."""
    for unit in ("day", "hour", "minute"):
        if value % _UNITS[unit] == timedelta(0) and value:
            return _counted(value // _UNITS[unit], unit)
    return _counted(value // _UNITS["second"], "second")


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
