"""Foreign keys by the table to which they refer, and violations of constraints."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_foreign_key (
        table_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        parent TEXT NOT NULL,
        PRIMARY KEY (parent, table_id, name)
    ){clustered}""",
    """CREATE TABLE lakeward_violation (
        violation_id TEXT NOT NULL PRIMARY KEY,
        at_ms BIGINT NOT NULL,
        table_name TEXT NOT NULL,
        constraint_name TEXT NOT NULL,
        transaction_id TEXT NOT NULL,
        actor TEXT NOT NULL,
        action TEXT NOT NULL,
        reason TEXT NOT NULL,
        row_count BIGINT NOT NULL,
        sample TEXT NOT NULL
    ){clustered}""",
    """CREATE INDEX lakeward_violation_table ON lakeward_violation (table_name, violation_id)""",
)
