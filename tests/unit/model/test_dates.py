"""Dates and moments of any year, as text and back."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from lakeward.model.calendar import DAY, day_text, moment_text, parse_day, parse_moment

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (-4_371_587, "-9999-01-01"),
        (-719_528, "0000-01-01"),
        (-719_163, "0000-12-31"),
        (-719_162, "0001-01-01"),
        (0, "1970-01-01"),
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
    ],
)
def test_a_day_is_told_and_read(days: int, text: str) -> None:
    assert (day_text(days), parse_day(text)) == (text, days)
    assert moment_text(days * DAY + 1) == f"{text} 00:00:00.000001"
    assert parse_moment(f"{text} 00:00:00.000001") == days * DAY + 1
    assert parse_moment(f"{text}T02:00:00+02:00") == days * DAY


def test_days_that_python_has_are_its_own() -> None:
    for days in range(-719_162, 2_932_897, 4_999):
        own = date(1970, 1, 1) + timedelta(days=days)
        assert (day_text(days), parse_day(own.isoformat())) == (own.isoformat(), days)


@pytest.mark.parametrize("text", ["", "2026-02-30", "2025-02-29", "today", "2026-1-1", "26-01-01"])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_day(text)
    with pytest.raises(ValueError, match=r".+"):
        parse_moment(text)
