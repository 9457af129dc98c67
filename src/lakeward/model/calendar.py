"""Dates and timestamps of any year: calendar fields, and ISO 8601 text, in UTC.

Python's dates have the years 1 to 9999; tables of other engines may have others. In the text, years
without four digits have a sign.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Final

HOUR: Final = 3_600_000_000
"""Microseconds of an hour."""
DAY: Final = 24 * HOUR
EPOCH_YEAR: Final = 1970
FIRST_DAY: Final = -719_162
"""The first day of the year 1, in days since 1970; `LAST_DAY` is the last of 9999."""
LAST_DAY: Final = 2_932_896
FIRST_FOUR_DIGITS: Final = -4_371_587
"""The first day of the year -9999, in days since 1970."""
_ERA_YEARS: Final = 400
_ERA_DAYS: Final = 146_097
"""The calendar repeats after 400 years, which have so many days."""
_SHIFT: Final = 719_468
"""Days from 1 March of the year 0, where an era begins, to 1970."""
_EPOCH: Final = date(1970, 1, 1).toordinal()
_SHAPE: Final = re.compile(r"([+-]?[0-9]{4,6})(-[0-9]{2}-[0-9]{2})([T ].+)?")


def year_month(days: int) -> tuple[int, int]:
    """Return year and month of a day, given in days since 1970."""
    year, month, _ = civil(days)
    return year, month


def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day since 1970, in the proleptic Gregorian calendar."""
    era, of_era = divmod(days + _SHIFT, _ERA_DAYS)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // (_ERA_DAYS - 1)) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    march_based = (5 * of_year + 2) // 153
    day = of_year - (153 * march_based + 2) // 5 + 1
    month = march_based + 3 if march_based < 10 else march_based - 9
    return year + era * _ERA_YEARS + (month <= 2), month, day


def first_of_year(year: int) -> int:
    """Return the first day of a year, as the number of days since 1970-01-01."""
    before = year - 1
    era, of_era = divmod(before, _ERA_YEARS)
    # 306 days after 1 March it is 1 January of the next year.
    return era * _ERA_DAYS + 365 * of_era + of_era // 4 - of_era // 100 + 306 - _SHIFT


def day_text(days: int) -> str:
    """Return the text of a date, given in days since 1970."""
    year, month, day = civil(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def moment_text(micros: int) -> str:
    """Return the text of a timestamp in microseconds since 1970, with six digits of fraction."""
    days, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{day_text(days)} {hour:02}:{minute:02}:{second:02}.{fraction:06}"


def parse_day(text: str) -> int:
    """Parse a date; return days since 1970, or raise `ValueError`."""
    alike, shift = _in_this_era(text)
    return date.fromisoformat(alike).toordinal() - _EPOCH + shift


def parse_moment(text: str) -> int:
    """Parse a timestamp; return microseconds since 1970, or raise `ValueError`.

    A timestamp without an offset is in UTC.
    """
    alike, shift = _in_this_era(text)
    found = datetime.fromisoformat(alike)
    moment = found.astimezone(UTC) if found.tzinfo else found
    of_day = (moment.hour * 60 + moment.minute) * 60 + moment.second
    days = moment.toordinal() - _EPOCH + shift
    return days * DAY + of_day * 1_000_000 + moment.microsecond


def _in_this_era(text: str) -> tuple[str, int]:
    """Return the text with its year shifted to 2000 to 2399, and the shift in days."""
    found = _SHAPE.fullmatch(text)
    if found is None:
        return text, 0
    eras, of_era = divmod(int(found[1]) - 2000, _ERA_YEARS)
    return f"{2000 + of_era}{found[2]}{found[3] or ''}", eras * _ERA_DAYS
