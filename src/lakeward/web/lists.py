"""Pages of lists that are read by time, newest first.

A cursor has the time of the last entry, and how many entries of that millisecond earlier pages
had. Such lists only grow at their newer end, so a page begins where the one before ended, even if
entries were added meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeward.web.answers import cursor_of, place_of


def page_after(
    read: Callable[[str | None, int], list[Any]], cursor: str | None, limit: int
) -> tuple[list[Any], str | None]:
    """A page of entries with a `timestamp`, and the cursor of the next one.

    Args:
        read: Reads entries up to a time (ISO 8601, None for now), newest first, at most so many.
        cursor: Of the page before.
        limit: At most so many entries.
    """
    place = place_of(cursor, until=str, skip=int)
    until, skip = (None, 0) if place is None else (place["until"], place["skip"])
    found = read(until, skip + limit + 1)[skip:]
    shown = found[:limit]
    if len(found) <= limit:
        return shown, None
    last = shown[-1].timestamp.isoformat()
    same = sum(one.timestamp.isoformat() == last for one in shown)
    if until == last:
        same += skip
    return shown, cursor_of(until=last, skip=same)
