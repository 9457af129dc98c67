"""Branches and clones: the directories of each branch, and the versions that clones use."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_branch (
        table_id BIGINT NOT NULL,
        directory TEXT NOT NULL,
        owner TEXT NOT NULL,
        name TEXT,
        base_version BIGINT NOT NULL,
        actor TEXT NOT NULL,
        created_ms BIGINT NOT NULL,
        PRIMARY KEY (table_id, directory)
    ){clustered}""",
    """CREATE UNIQUE INDEX lakeward_branch_name ON lakeward_branch (name, table_id)
        WHERE name IS NOT NULL""",
    """CREATE TABLE lakeward_clone (
        table_id BIGINT NOT NULL,
        source_id BIGINT NOT NULL,
        source_version BIGINT NOT NULL,
        PRIMARY KEY (table_id, source_id, source_version)
    ){clustered}""",
    "CREATE INDEX lakeward_clone_source ON lakeward_clone (source_id)",
)
