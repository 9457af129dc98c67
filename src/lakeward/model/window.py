"""Windows of time in which maintenance may run: `02:00-05:00 Europe/Lisbon`, `Sat,Sun 22:00-04:00`.

A window that ends before it begins ends on the next day; `00:00-24:00` is a whole day. Times are
local times of the window's zone, by default UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from lakeward.errors import InvalidInput

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TEXT: Final = re.compile(
    r"(?:(?P<days>[A-Za-z,\s]+?)\s+)?(?P<from>\d{1,2}:\d{2})\s*-\s*(?P<to>\d{1,2}:\d{2})"
    r"(?:\s+(?P<zone>\S+))?"
)
_HINT: Final = 'Write "02:00-05:00 Europe/Lisbon" or "Sat,Sun 22:00-04:00".'


@dataclass(frozen=True, slots=True)
class Window:
    """A time of day, on some days of the week, in a time zone."""

    begins: time
    ends: time
    zone: ZoneInfo
    days: frozenset[int]
    text: str

    @classmethod
    def parse(cls, text: str) -> Window:
        """Parse a window; raise `InvalidInput` if it is invalid or never opens."""
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            raise _wrong(text, "is no window of time")
        begins, ends = (_time(found[part], text) for part in ("from", "to"))
        is_whole_day = found["from"] in ("0:00", "00:00") and found["to"] == "24:00"
        if begins == ends and not is_whole_day:
            raise _wrong(text, "never opens: it begins when it ends")
        days = frozenset(
            _day(d, text) for d in re.split(r"[,\s]+", (found["days"] or "").strip()) if d
        )
        return cls(begins, ends, _zone(found["zone"] or "UTC", text), days, text.strip())

    def closes_after(self, moment: datetime) -> datetime | None:
        """Return when the window closes, if it is open at a time; else None.

        A window that opens again in the moment in which it closes does not close then.
        """
        closes = None
        for start, end in self._around(moment):
            if start <= (closes or moment) < end:
                closes = end
        return closes

    def opens_after(self, moment: datetime) -> datetime:
        """Return when the window opens next, after a time at which it is closed."""
        return min(start for start, _ in self._around(moment) if start > moment)

    def _around(self, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield when the window opens and closes on the days around a time."""
        today = moment.astimezone(self.zone).date()
        for number in range(-1, 16):
            day = today + timedelta(days=number)
            if self.days and day.weekday() not in self.days:
                continue
            last = day if self.begins < self.ends else day + timedelta(days=1)
            start = datetime.combine(day, self.begins, self.zone).astimezone(UTC)
            end = datetime.combine(last, self.ends, self.zone).astimezone(UTC)
            # On the day of the change to summer time a short window may not exist: the next may be
            # two weeks away.
            if start < end:
                yield start, end


def _time(text: str, window: str) -> time:
    hour, minute = map(int, text.split(":"))
    if (hour, minute) == (24, 0):
        return time(0, 0)
    if hour > 23 or minute > 59:
        raise _wrong(window, f"has the time {text}, which is none")
    return time(hour, minute)


def _day(text: str, window: str) -> int:
    short = text[:3].lower()
    if short not in _DAYS:
        raise _wrong(window, f"has the day {text!r}, which is none")
    return _DAYS.index(short)


def _zone(name: str, window: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        reason = f"has the time zone {name!r}, which is unknown here"
        raise _wrong(window, reason) from error


def _wrong(text: str, reason: str) -> InvalidInput:
    return InvalidInput(f"The window {text[:80]!r} {reason}.", hint=_HINT, parameter="window")
