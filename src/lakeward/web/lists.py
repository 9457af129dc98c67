"""Pages of lists that are ordered by time, newest first.

A cursor has the time of the last entry, and how many entries of that millisecond earlier pages
had. Such lists only grow at their newer end, so a page begins where the previous page ended, even
if entries were added meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lakeward.web.answers import cursor_of, place_of

_MOST_READ: Final = 200_000
"""The most entries that are read for one page of a caller who sees some of them."""


def page_after(
    read: Callable[[str | None, int], list[Any]],
    cursor: str | None,
    limit: int,
    sees: Callable[[Any], bool] = lambda _: True,
) -> tuple[list[Any], str | None]:
    """Return a page of entries, and the cursor of the next page, None after the last page.

    Args:
        read: Returns the entries, which have a `timestamp`, up to a time (ISO 8601, None for now),
            newest first, at most as many as its second argument.
        cursor: The cursor that the previous page returned; None for the first page.
        limit: At most so many entries.
        sees: Whether the caller may see an entry. The others change neither page nor cursor.
    """
    place = place_of(cursor, until=str, skip=int)
    until, skip = (None, 0) if place is None else (place["until"], place["skip"])
    found = _seen(read, sees, until, skip + limit + 1)[skip:]
    shown = found[:limit]
    if len(found) <= limit:
        return shown, None
    last = shown[-1].timestamp.isoformat()
    same = sum(one.timestamp.isoformat() == last for one in shown)
    if until == last:
        same += skip
    return shown, cursor_of(until=last, skip=same)


def _seen(
    read: Callable[[str | None, int], list[Any]],
    sees: Callable[[Any], bool],
    until: str | None,
    count: int,
) -> list[Any]:
    """Return the newest `count` entries that the caller sees; read older ones until found."""
    found: list[Any] = []
    skip, size, total = 0, count, 0
    while True:
        entries = read(until, size)
        found += [one for one in entries[skip:] if sees(one)]
        total += len(entries) - skip
        if len(found) >= count or len(entries) < size or total >= _MOST_READ:
            return found[:count]
        # Go on from the last time, without the entries of that time that were read already.
        last = entries[-1].timestamp.isoformat()
        skip = sum(one.timestamp.isoformat() == last for one in entries)
        until, size = last, skip + max(4 * size, 1000)
