"""Domain metadata of Delta tables: named configurations, each with the version that set it."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_domain (
        table_id BIGINT NOT NULL,
        domain TEXT NOT NULL,
        version BIGINT NOT NULL,
        configuration TEXT,
        PRIMARY KEY (table_id, domain, version)
    ){clustered}""",
)
