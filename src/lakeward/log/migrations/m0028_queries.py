"""Add a table for durations of reads; it has rows for tables with a service level for queries."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_query (
        table_id BIGINT NOT NULL,
        at_ms BIGINT NOT NULL,
        took_ms BIGINT NOT NULL
    )""",
    "CREATE INDEX lakeward_query_at ON lakeward_query (table_id, at_ms)",
)
