"""The declared service levels."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_service_level (
        name TEXT NOT NULL PRIMARY KEY,
        body TEXT NOT NULL,
        actor TEXT NOT NULL,
        set_ms BIGINT NOT NULL
    ){clustered}""",
)
