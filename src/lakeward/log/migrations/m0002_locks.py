"""Locks on tables: who holds one, and who waits for one.

Neither has a lease of its own. A row counts as long as its transaction is open, so that closing a
transaction, however it ends, frees what it held.
"""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_lock (
        table_id BIGINT NOT NULL,
        transaction_id TEXT NOT NULL,
        mode TEXT NOT NULL,
        since_ms BIGINT NOT NULL,
        PRIMARY KEY (table_id, transaction_id)
    ){clustered}""",
    """CREATE TABLE lakeward_lock_wait (
        table_id BIGINT NOT NULL,
        transaction_id TEXT NOT NULL,
        mode TEXT NOT NULL,
        since_ms BIGINT NOT NULL,
        PRIMARY KEY (table_id, transaction_id)
    ){clustered}""",
)
