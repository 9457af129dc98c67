"""Change files: the rows that a commit inserted, updated and deleted, if its writer wrote them."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_change_file (
        table_id BIGINT NOT NULL,
        version BIGINT NOT NULL,
        ordinal BIGINT NOT NULL,
        path TEXT NOT NULL,
        size BIGINT NOT NULL,
        partition TEXT,
        extra TEXT,
        PRIMARY KEY (table_id, version, ordinal)
    ){clustered}""",
)
