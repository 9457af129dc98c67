"""What transactions say of the sources of their rows."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_lineage (
        transaction_id TEXT NOT NULL PRIMARY KEY,
        body TEXT NOT NULL
    ){clustered}""",
)
