"""Give every commit a position: the place of its transaction in the order of the whole lake.

Existing transactions are ordered by their times, which agree with the versions of every table. A
new table holds the position of each consumer.
"""

from __future__ import annotations

from lakeward.log import positions
from lakeward.log.database import Session

STATEMENTS = (
    "ALTER TABLE lakeward_commit ADD COLUMN position BIGINT NOT NULL DEFAULT 0",
    "CREATE INDEX lakeward_commit_position ON lakeward_commit (position, table_id)",
    """CREATE TABLE lakeward_consumer (
        name TEXT NOT NULL PRIMARY KEY,
        position BIGINT NOT NULL,
        transaction_id TEXT,
        actor TEXT NOT NULL,
        moved_ms BIGINT NOT NULL
    ){clustered}""",
)


def run(session: Session) -> None:
    """Assign a position to all commits, and continue the numbering after them."""
    positions.create(session)
    positions.renumber(session)
