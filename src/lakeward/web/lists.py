"""Pages of lists that are ordered by time, newest first.

A cursor has the time of the last entry, and how many entries of that millisecond earlier pages
had. Such lists only grow at their newer end, so a page begins where the previous page ended, even
if entries were added meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeward.web.answers import cursor_of, place_of


def page_after(
    read: Callable[[str | None, int], list[Any]], cursor: str | None, limit: int
) -> tuple[list[Any], str | None]:
    """Return a page of entries, and the cursor of the next page, None after the last page.

    Args:
        read: Returns the entries, which have a `timestamp`, up to a time (ISO 8601, None for now),
            newest first, at most as many as its second argument.
        cursor: The cursor that the previous page returned; None for the first page.
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
