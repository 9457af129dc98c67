"""Years, months, days and hours of moments that are counted from 1970, in UTC, for any year.

Python's own calendar ends with the years 1 and 9999; Arrow's and Spark's do not.
"""

from __future__ import annotations

from typing import Final

HOUR: Final = 3_600_000_000
"""Microseconds of an hour."""
DAY: Final = 24 * HOUR
EPOCH_YEAR: Final = 1970

FIRST_DAY: Final = -719_162
"""The first day of the year 1, and `LAST_DAY` the last of 9999: what dates of four digits reach."""
LAST_DAY: Final = 2_932_896
FIRST_FOUR_DIGITS: Final = -4_371_587
"""The first day of the year -9999."""

_ERA_YEARS: Final = 400
_ERA_DAYS: Final = 146_097
_SHIFT: Final = 719_468
"""Days from 1 March of the year 0, where an era begins, to 1970."""


def year_month(days: int) -> tuple[int, int]:
    """Year and month of a day."""
    year, month, _ = civil(days)
    return year, month


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day, in the Gregorian calendar without a beginning."""
    era, of_era = divmod(days + _SHIFT, _ERA_DAYS)
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // (_ERA_DAYS - 1)) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    march_based = (5 * of_year + 2) // 153
    day = of_year - (153 * march_based + 2) // 5 + 1
    month = march_based + 3 if march_based < 10 else march_based - 9
    return year + era * _ERA_YEARS + (month <= 2), month, day


def first_of_year(year: int) -> int:
    """The day on which a year begins."""
    before = year - 1
    era, of_era = divmod(before, _ERA_YEARS)
    # 306 days after 1 March it is 1 January of the next year.
    return era * _ERA_DAYS + 365 * of_era + of_era // 4 - of_era // 100 + 306 - _SHIFT
