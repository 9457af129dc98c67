"""Tags: each refers to one version of each of some tables, kept as long as the tag exists."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_tag (
        name TEXT NOT NULL PRIMARY KEY,
        moment_ms BIGINT NOT NULL,
        whole BIGINT NOT NULL,
        actor TEXT NOT NULL,
        message TEXT,
        created_ms BIGINT NOT NULL
    ){clustered}""",
    """CREATE TABLE lakeward_tagged (
        name TEXT NOT NULL,
        table_id BIGINT NOT NULL,
        version BIGINT NOT NULL,
        PRIMARY KEY (name, table_id)
    ){clustered}""",
    "CREATE INDEX lakeward_tagged_table ON lakeward_tagged (table_id, version)",
)
