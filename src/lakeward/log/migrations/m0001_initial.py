"""The first tables of the log."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_head (
        table_id {identity},
        uuid TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        format TEXT NOT NULL,
        location TEXT NOT NULL,
        guarded INTEGER NOT NULL,
        drift TEXT NOT NULL,
        version BIGINT NOT NULL,
        timestamp_ms BIGINT NOT NULL,
        definition_id BIGINT NOT NULL,
        published BIGINT NOT NULL,
        audit_seq BIGINT NOT NULL,
        audit_hash TEXT NOT NULL,
        created_ms BIGINT NOT NULL,
        dropped_ms BIGINT
    )""",
    """CREATE UNIQUE INDEX lakeward_head_name ON lakeward_head (namespace, name)
        WHERE dropped_ms IS NULL""",
    """CREATE UNIQUE INDEX lakeward_head_location ON lakeward_head (location)
        WHERE dropped_ms IS NULL""",
    """CREATE TABLE lakeward_definition (
        table_id BIGINT NOT NULL,
        definition_id BIGINT NOT NULL,
        from_version BIGINT NOT NULL,
        until_version BIGINT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (table_id, definition_id)
    )""",
    """CREATE TABLE lakeward_transaction (
        transaction_id TEXT NOT NULL PRIMARY KEY,
        state TEXT NOT NULL,
        actor TEXT NOT NULL,
        isolation TEXT NOT NULL,
        message TEXT,
        process TEXT NOT NULL,
        opened_ms BIGINT NOT NULL,
        lease_until_ms BIGINT NOT NULL,
        ended_ms BIGINT
    ){clustered}""",
    """CREATE INDEX lakeward_transaction_open ON lakeward_transaction (lease_until_ms)
        WHERE state = 'open'""",
    """CREATE TABLE lakeward_commit (
        table_id BIGINT NOT NULL,
        version BIGINT NOT NULL,
        transaction_id TEXT NOT NULL,
        timestamp_ms BIGINT NOT NULL,
        operation TEXT NOT NULL,
        actor TEXT NOT NULL,
        definition_id BIGINT,
        info TEXT NOT NULL,
        PRIMARY KEY (table_id, version)
    ){clustered}""",
    """CREATE UNIQUE INDEX lakeward_commit_transaction
        ON lakeward_commit (transaction_id, table_id, version)""",
    """CREATE INDEX lakeward_commit_time ON lakeward_commit (table_id, timestamp_ms, version)""",
    """CREATE TABLE lakeward_file (
        table_id BIGINT NOT NULL,
        added_version BIGINT NOT NULL,
        ordinal BIGINT NOT NULL,
        removed_version BIGINT NOT NULL,
        path TEXT NOT NULL,
        size BIGINT NOT NULL,
        row_count BIGINT,
        modified_ms BIGINT NOT NULL,
        partition TEXT,
        stats TEXT,
        deletion_vector TEXT,
        extra TEXT
    )""",
    """CREATE UNIQUE INDEX lakeward_file_key
        ON lakeward_file (table_id, added_version, ordinal)""",
    """CREATE INDEX lakeward_file_state
        ON lakeward_file (table_id, removed_version, added_version, size, row_count)""",
    """CREATE INDEX lakeward_file_path ON lakeward_file (table_id, path)""",
    """CREATE TABLE lakeward_file_stat (
        table_id BIGINT NOT NULL,
        field_id BIGINT NOT NULL,
        level INTEGER NOT NULL,
        min_key BIGINT NOT NULL,
        added_version BIGINT NOT NULL,
        ordinal BIGINT NOT NULL,
        max_key BIGINT NOT NULL,
        nulls BIGINT,
        PRIMARY KEY (table_id, field_id, level, min_key, added_version, ordinal)
    ){clustered}""",
    """CREATE TABLE lakeward_app_transaction (
        table_id BIGINT NOT NULL,
        app_id TEXT NOT NULL,
        version BIGINT NOT NULL,
        app_version BIGINT NOT NULL,
        updated_ms BIGINT,
        PRIMARY KEY (table_id, app_id, version)
    )""",
    """CREATE INDEX lakeward_app_transaction_version
        ON lakeward_app_transaction (table_id, version)""",
    """CREATE TABLE lakeward_pin (
        pin_id TEXT NOT NULL,
        table_id BIGINT NOT NULL,
        version BIGINT NOT NULL,
        actor TEXT NOT NULL,
        lease_until_ms BIGINT NOT NULL,
        PRIMARY KEY (pin_id, table_id)
    )""",
    """CREATE TABLE lakeward_audit (
        table_id BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        at_ms BIGINT NOT NULL,
        actor TEXT NOT NULL,
        action TEXT NOT NULL,
        transaction_id TEXT,
        version BIGINT,
        detail TEXT NOT NULL,
        hash TEXT NOT NULL,
        PRIMARY KEY (table_id, seq)
    ){clustered}""",
)
