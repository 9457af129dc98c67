"""Statistics of versions, and sketches of columns, kept once they have been computed."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_statistics (
        table_id BIGINT NOT NULL,
        version BIGINT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (table_id, version)
    ){clustered}""",
    """CREATE TABLE lakeward_sketch (
        table_id BIGINT NOT NULL,
        field_id BIGINT NOT NULL,
        version BIGINT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (table_id, field_id, version)
    ){clustered}""",
)
