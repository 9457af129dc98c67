"""Files in no version: those that transactions are going to add, or that vacuum is deleting."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_unrecorded (
        entry_id TEXT NOT NULL PRIMARY KEY,
        table_id BIGINT NOT NULL,
        transaction_id TEXT,
        paths TEXT NOT NULL,
        begun_ms BIGINT NOT NULL
    ){clustered}""",
)
