"""Measurements of the expectations of tables, by version."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_quality (
        table_id BIGINT NOT NULL,
        name TEXT NOT NULL,
        version BIGINT NOT NULL,
        measured_ms BIGINT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (table_id, name, version)
    ){clustered}""",
)
