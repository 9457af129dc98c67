"""Access tokens of the service: user, role and tables; the secret only as a hash."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_token (
        token_id TEXT NOT NULL PRIMARY KEY,
        digest TEXT NOT NULL,
        name TEXT NOT NULL,
        role TEXT NOT NULL,
        tables TEXT NOT NULL,
        actor TEXT NOT NULL,
        created_ms BIGINT NOT NULL,
        expires_ms BIGINT,
        revoked_ms BIGINT
    )""",
)
