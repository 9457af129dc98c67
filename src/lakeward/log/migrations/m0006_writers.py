"""Writers of streams: the instance of each that may commit, and its last epoch."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_writer (
        table_id BIGINT NOT NULL,
        writer_id TEXT NOT NULL,
        instance TEXT NOT NULL,
        generation BIGINT NOT NULL,
        actor TEXT NOT NULL,
        opened_ms BIGINT NOT NULL,
        epoch BIGINT,
        transaction_id TEXT,
        progress TEXT,
        PRIMARY KEY (table_id, writer_id)
    ){clustered}""",
)
