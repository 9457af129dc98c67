"""Lineage: the sources of the rows of a transaction, as the transaction recorded them."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_lineage (
        transaction_id TEXT NOT NULL PRIMARY KEY,
        body TEXT NOT NULL
    ){clustered}""",
)
