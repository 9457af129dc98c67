"""Finds when the data of a table was last changed."""

from __future__ import annotations

from lakeward.log import service_levels
from lakeward.log.database import Session
from lakeward.model.commit import Head


def changed_ms(session: Session, head: Head, version: int) -> int | None:
    """Return when data was last changed up to a version, in milliseconds.

    Commits that change no data, such as compactions, do not count. If the log has only such
    commits, return the time of the oldest; None if it has none.
    """
    changed, oldest = service_levels.last_change(session, head.table_id, version=version)
    return oldest if changed is None else changed
