"""Give drops and tags a position in the order of transactions; times alone are not exact.

A dropped table has the position of the first transaction that did not see it. A tag has the
position of the last transaction in its cut; existing tags have none and are cut by their time.
"""

from __future__ import annotations

STATEMENTS = (
    "ALTER TABLE lakeward_head ADD COLUMN dropped_position BIGINT",
    """UPDATE lakeward_head SET dropped_position = (
        SELECT coalesce(max(position), 1) + 1 FROM lakeward_commit
        WHERE timestamp_ms < dropped_ms)
    WHERE dropped_ms IS NOT NULL""",
    "ALTER TABLE lakeward_tag ADD COLUMN position BIGINT",
)
