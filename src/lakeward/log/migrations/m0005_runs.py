"""Runs of pipelines, and their inputs, recorded in the transaction that consumed them."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_input (
        consumer TEXT NOT NULL,
        source TEXT NOT NULL,
        path TEXT NOT NULL,
        size BIGINT NOT NULL,
        modified_ms BIGINT NOT NULL,
        checksum TEXT NOT NULL,
        transaction_id TEXT NOT NULL,
        PRIMARY KEY (consumer, source, path)
    ){clustered}""",
    """CREATE TABLE lakeward_cursor (
        consumer TEXT NOT NULL,
        source TEXT NOT NULL,
        table_id BIGINT NOT NULL,
        version BIGINT NOT NULL,
        transaction_id TEXT NOT NULL,
        PRIMARY KEY (consumer, source)
    ){clustered}""",
    """CREATE TABLE lakeward_run (
        run_id TEXT NOT NULL PRIMARY KEY,
        pipeline TEXT NOT NULL,
        state TEXT NOT NULL,
        started_ms BIGINT NOT NULL,
        ended_ms BIGINT NOT NULL,
        bundle TEXT NOT NULL
    ){clustered}""",
    "CREATE INDEX lakeward_run_pipeline ON lakeward_run (pipeline, started_ms)",
)
