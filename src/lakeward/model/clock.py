"""Time in the log: whole milliseconds since 1970, UTC."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from lakeward.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_MS = -62_135_596_800_000
_LAST_MS = 253_402_300_799_999


def now_ms() -> int:
    """Return the time of this host, which may step back.

    Commit timestamps never do (see `write.ratify`).
    """
    return time.time_ns() // 1_000_000


def to_datetime(milliseconds: int) -> datetime:
    """Return a time of the log as an aware datetime."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def to_ms(moment: datetime | str | int) -> int:
    """Return a user's datetime, ISO 8601 text or milliseconds as milliseconds.

    A datetime without a zone is in UTC.
    """
    if isinstance(moment, bool):
        what = f"{moment!r} is not a moment."
        raise InvalidInput(what, hint="Use a datetime or ISO 8601 text.")
    if isinstance(moment, int):
        return _checked(moment)
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            what = f"{moment!r} is not a moment."
            raise InvalidInput(what, hint="Use ISO 8601, as 2026-11-15T08:00:00Z.") from error
    if not isinstance(moment, datetime):
        what = f"{moment!r} is not a moment."
        raise InvalidInput(what, hint="Use a datetime or ISO 8601 text.")
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    # In UTC it may be in another year than in its own zone.
    return _checked((aware - _EPOCH) // timedelta(milliseconds=1))


def _checked(milliseconds: int) -> int:
    if not _FIRST_MS <= milliseconds <= _LAST_MS:
        what = f"{milliseconds} milliseconds since 1970 are outside the years 1 to 9999."
        raise InvalidInput(what, hint="Use a datetime or ISO 8601 text.")
    return milliseconds
