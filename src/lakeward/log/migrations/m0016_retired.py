"""Retired versions: those whose files vacuum may have deleted."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_retired (
        table_id BIGINT NOT NULL,
        from_version BIGINT NOT NULL,
        until_version BIGINT NOT NULL,
        PRIMARY KEY (table_id, from_version)
    ){clustered}""",
    """CREATE TABLE lakeward_promise (
        table_id BIGINT NOT NULL PRIMARY KEY,
        kept_from BIGINT NOT NULL,
        pruned_to BIGINT NOT NULL,
        cleaned_to BIGINT NOT NULL
    ){clustered}""",
)
