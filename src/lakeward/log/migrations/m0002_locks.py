"""Locks on tables: their holders, and the transactions that wait for them.

Neither has a lease. A row is valid while its transaction is open, so that the end of a transaction,
however it ends, releases its locks.
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
