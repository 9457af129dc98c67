"""Policies of table patterns, and the first version of each table at which each is valid."""

from __future__ import annotations

STATEMENTS = (
    "ALTER TABLE lakeward_head ADD COLUMN policy_id BIGINT NOT NULL DEFAULT 0",
    """CREATE TABLE lakeward_policy (
        policy_id {identity},
        pattern TEXT NOT NULL,
        body TEXT,
        from_ms BIGINT NOT NULL,
        until_id BIGINT NOT NULL,
        actor TEXT NOT NULL,
        message TEXT,
        transaction_id TEXT NOT NULL
    )""",
    "CREATE INDEX lakeward_policy_pattern ON lakeward_policy (pattern, until_id)",
    """CREATE TABLE lakeward_policy_version (
        table_id BIGINT NOT NULL,
        policy_id BIGINT NOT NULL,
        from_version BIGINT NOT NULL,
        PRIMARY KEY (table_id, policy_id)
    ){clustered}""",
)
