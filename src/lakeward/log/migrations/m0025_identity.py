"""Counters of identity columns: how many values were given out."""

from __future__ import annotations

STATEMENTS = (
    """CREATE TABLE lakeward_identity (
        uuid TEXT NOT NULL,
        field_id BIGINT NOT NULL,
        taken BIGINT NOT NULL,
        PRIMARY KEY (uuid, field_id)
    ){clustered}""",
)
