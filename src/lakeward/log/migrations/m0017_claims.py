"""Claims: the parts of tables on which a maintenance run works."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_claim (
        name TEXT NOT NULL PRIMARY KEY,
        transaction_id TEXT NOT NULL
    ){clustered}""",
    "CREATE INDEX lakeward_claim_transaction ON lakeward_claim (transaction_id)",
)
