"""Dates and moments of any year as text: ISO 8601, with a sign where a year has no four digits.

Python's own dates end with the years 1 and 9999; those in tables of others may not.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Final

from lakeward.model.civil import DAY, civil

_YEARS: Final = 400
_DAYS: Final = 146_097
"""After so many years, which have so many days, the calendar repeats."""
_EPOCH: Final = date(1970, 1, 1).toordinal()
_SHAPE: Final = re.compile(r"([+-]?[0-9]{4,6})(-[0-9]{2}-[0-9]{2})([T ].+)?")


def day_text(days: int) -> str:
    """The date so many days after 1970 began."""
    year, month, day = civil(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def moment_text(micros: int) -> str:
    """The moment so many microseconds after 1970 began, with six digits after the seconds."""
    days, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{day_text(days)} {hour:02}:{minute:02}:{second:02}.{fraction:06}"


def parse_day(text: str) -> int:
    """The days since 1970 of a date.

    Raises:
        ValueError: The text is no date.
    """
    alike, shift = _in_this_era(text)
    return date.fromisoformat(alike).toordinal() - _EPOCH + shift


def parse_moment(text: str) -> int:
    """The microseconds since 1970 of a moment; one without an offset is in UTC.

    Raises:
        ValueError: The text is no moment.
    """
    alike, shift = _in_this_era(text)
    found = datetime.fromisoformat(alike)
    moment = found.astimezone(UTC) if found.tzinfo else found
    of_day = (moment.hour * 60 + moment.minute) * 60 + moment.second
    days = moment.toordinal() - _EPOCH + shift
    return days * DAY + of_day * 1_000_000 + moment.microsecond


def _in_this_era(text: str) -> tuple[str, int]:
    """The same date or moment in one of the years 2000 to 2399, and how many days that is off."""
    found = _SHAPE.fullmatch(text)
    if found is None:
        return text, 0
    eras, of_era = divmod(int(found[1]) - 2000, _YEARS)
    return f"{2000 + of_era}{found[2]}{found[3] or ''}", eras * _DAYS
