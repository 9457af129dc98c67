"""Limit what a vacuum of a dropped table noted to the versions that the table has.

The greatest number was noted, so all versions of a table that was brought back counted as vacuumed.
"""

from __future__ import annotations

from lakeward.model.file import LIVE

STATEMENTS = (
    f"""UPDATE lakeward_promise SET kept_from = (
        SELECT h.version + 1 FROM lakeward_head h WHERE h.table_id = lakeward_promise.table_id
    ) WHERE kept_from = {LIVE}""",  # noqa: S608  a number
    f"""UPDATE lakeward_promise SET pruned_to = kept_from WHERE pruned_to = {LIVE} AND EXISTS (
        SELECT 1 FROM lakeward_head h
        WHERE h.table_id = lakeward_promise.table_id AND h.dropped_ms IS NULL
    )""",  # noqa: S608  a number
)
