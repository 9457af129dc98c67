"""Tables of the service: changes made only once, pending transactions, and members."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_once (
        key TEXT NOT NULL PRIMARY KEY,
        what TEXT NOT NULL,
        actor TEXT NOT NULL,
        made_ms BIGINT NOT NULL
    )""",
    """CREATE TABLE lakeward_pending (
        transaction_id TEXT NOT NULL,
        seq BIGINT NOT NULL,
        body TEXT NOT NULL,
        actor TEXT NOT NULL,
        added_ms BIGINT NOT NULL,
        PRIMARY KEY (transaction_id, seq)
    )""",
    """CREATE TABLE lakeward_member (
        name TEXT NOT NULL,
        role TEXT NOT NULL,
        tables TEXT NOT NULL,
        actor TEXT NOT NULL,
        created_ms BIGINT NOT NULL,
        PRIMARY KEY (name, tables)
    )""",
)
