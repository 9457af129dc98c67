"""Maintenance runs."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_job (
        job_id TEXT NOT NULL PRIMARY KEY,
        kind TEXT NOT NULL,
        table_name TEXT,
        state TEXT NOT NULL,
        actor TEXT NOT NULL,
        process TEXT NOT NULL,
        started_ms BIGINT NOT NULL,
        ended_ms BIGINT,
        lease_until_ms BIGINT NOT NULL,
        units BIGINT NOT NULL,
        units_done BIGINT NOT NULL,
        done TEXT NOT NULL,
        error TEXT
    ){clustered}""",
    "CREATE INDEX lakeward_job_started ON lakeward_job (started_ms)",
)
